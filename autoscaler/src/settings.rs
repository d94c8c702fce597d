//! Settings: what can be configured and concerns answers, and where the certificates are.
//!
//! Invariant: values made once from the command line.

use std::path::PathBuf;
use std::time::Duration;

/// Everything that can be configured and concerns answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The tenant namespace, where this runs.
    pub namespace: String,
    /// The namespace of the TenantCluster, its NodePools and their Machines.
    pub user_namespace: String,
    /// Name of the TenantCluster.
    pub cluster_name: String,
    /// UID of the TenantCluster.
    pub cluster_uid: String,
    /// How long the management cluster's API may be out of reach before `Refresh` says so.
    /// Default: 2 minutes.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: String::new(),
            user_namespace: String::new(),
            cluster_name: String::new(),
            cluster_uid: String::new(),
            patience: Duration::from_secs(120),
        }
    }
}

/// Where the certificates are, as PEM.
#[derive(Clone, Debug)]
pub struct Files {
    /// Certificate of the port, leaf first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Authority whose certificates may connect.
    pub client_ca: PathBuf,
}
