//! What was seen from where somebody asks: the kubeconfig, its contexts that lead into tenant clusters, and whether their
//! endpoints answer from there.
//!
//! Invariant: no credential is among it.

use std::collections::BTreeMap;

use kit_objects::known::Known;

/// What was seen from here.
#[derive(Clone, Debug, Default)]
pub struct Here {
    /// Whether the kubeconfig can be used.
    pub kubeconfig: Kubeconfig,
    /// Contexts of the kubeconfig that lead into tenant clusters.
    pub leads: Known<Vec<Lead>>,
    /// What endpoints answered, by namespace and name of their tenant clusters.
    pub endpoints: BTreeMap<(String, String), Endpoint>,
}

/// Whether a kubeconfig can be used.
#[derive(Clone, Debug, Default)]
pub enum Kubeconfig {
    /// Nobody looked.
    #[default]
    NotAsked,
    /// It can.
    Usable,
    /// It cannot.
    Unusable {
        /// What is wrong.
        what: String,
        /// The command or field that mends it.
        mend: String,
    },
}

/// A context that leads into a tenant cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Lead {
    /// Its name.
    pub context: String,
    /// Namespace of the TenantCluster.
    pub namespace: String,
    /// Name of the TenantCluster.
    pub name: String,
    /// UID of the TenantCluster; empty where the context does not say it.
    pub uid: String,
    /// Address of the API that it leads to.
    pub server: String,
}

/// What an endpoint answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Endpoint {
    /// It answered, and where an authority was at hand it is believed.
    Answered,
    /// Nothing was reached.
    Silent {
        /// How that was seen.
        what: String,
    },
    /// Something answered that the authority of the kubeconfig does not vouch for.
    NotBelieved {
        /// How that was seen.
        what: String,
    },
}
