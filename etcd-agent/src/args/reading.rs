//! Flags that say which backup is read, and where it is.
//!
//! Invariant: no secret is a flag: keys and credentials are files.

use std::path::PathBuf;

use clap::Args;

use crate::ids::Id;

/// One of the two.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct PlaceArgs {
    /// A directory, as a claim is mounted
    #[arg(long, env = "COVEY_BACKUP_DIRECTORY", value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// A bucket of an S3 endpoint
    #[arg(long, env = "COVEY_BACKUP_S3_BUCKET", value_name = "NAME")]
    pub s3_bucket: Option<String>,
}

/// Where objects are.
#[derive(Clone, Debug, Args)]
pub struct StoreArgs {
    /// In what
    #[command(flatten)]
    pub place: PlaceArgs,
    /// URL of the endpoint; Amazon's own if it is left out
    #[arg(
        long,
        env = "COVEY_BACKUP_S3_ENDPOINT",
        value_name = "URL",
        requires = "s3_bucket"
    )]
    pub s3_endpoint: Option<String>,
    /// Region of the bucket
    #[arg(
        long,
        env = "COVEY_BACKUP_S3_REGION",
        value_name = "NAME",
        default_value = "us-east-1"
    )]
    pub s3_region: String,
    /// Folder with the files `access-key-id` and `secret-access-key`
    #[arg(
        long,
        env = "COVEY_BACKUP_S3_CREDENTIALS",
        value_name = "DIR",
        requires = "s3_bucket"
    )]
    pub s3_credentials: Option<PathBuf>,
    /// Authorities of the endpoint's certificate, PEM; those of the system if it is left out
    #[arg(
        long,
        env = "COVEY_BACKUP_S3_CA",
        value_name = "FILE",
        requires = "s3_bucket"
    )]
    pub s3_ca: Option<PathBuf>,
    /// In front of all keys
    #[arg(
        long,
        env = "COVEY_BACKUP_PREFIX",
        value_name = "PREFIX",
        default_value = ""
    )]
    pub prefix: String,
}

/// One of the two.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct KeyArgs {
    /// File with the tenant cluster's key (32 bytes)
    #[arg(long, env = "COVEY_BACKUP_DATA_KEY", value_name = "FILE")]
    pub data_key: Option<PathBuf>,
    /// File with the recovery key
    #[arg(long, env = "COVEY_BACKUP_RECOVERY_KEY", value_name = "FILE")]
    pub recovery_key: Option<PathBuf>,
}

/// Whose backup is read, and what opens it.
#[derive(Clone, Debug, Args)]
pub struct ReadArgs {
    /// Where objects are
    #[command(flatten)]
    pub store: StoreArgs,
    /// UID of the TenantCluster
    #[arg(long, env = "COVEY_BACKUP_TENANT", value_name = "UID")]
    pub tenant: String,
    /// The etcd cluster's identifier, hexadecimal
    #[arg(long, env = "COVEY_BACKUP_CLUSTER", value_name = "ID")]
    pub cluster: Id,
    /// What opens it
    #[command(flatten)]
    pub key: KeyArgs,
}

/// One of them.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct AtArgs {
    /// The newest there is
    #[arg(long, env = "COVEY_RESTORE_LATEST")]
    pub latest: bool,
    /// As it was then, in milliseconds since 1970
    #[arg(long, env = "COVEY_RESTORE_AT_MS", value_name = "MS")]
    pub at_ms: Option<u64>,
    /// At this revision
    #[arg(long, env = "COVEY_RESTORE_AT_REVISION", value_name = "N")]
    pub at_revision: Option<u64>,
}
