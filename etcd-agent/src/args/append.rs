//! The command line of what is done with the data directory that is left of a member: it is copied, an etcd serves the copy,
//! and what that has beyond the backup is put into the backup.
//!
//! Invariant: what decides about data has no default.

use std::path::PathBuf;

use clap::Args;

use super::reading::StoreArgs;
use crate::ids::Id;

/// Flags of `etcd-agent backup copy`.
#[derive(Clone, Debug, Args)]
pub struct CopyArgs {
    /// The data directory that is left of a member. It is only read
    #[arg(long, env = "COVEY_RESTORE_SURVIVOR", value_name = "DIR")]
    pub survivor: PathBuf,
    /// Folder with room for it: `survivor` is made in it
    #[arg(long, env = "COVEY_RESTORE_SCRATCH", value_name = "DIR")]
    pub scratch: PathBuf,
}

/// Flags of `etcd-agent backup append`.
#[derive(Clone, Debug, Args)]
pub struct AppendArgs {
    /// Where the backup is
    #[command(flatten)]
    pub store: StoreArgs,
    /// UID of the TenantCluster
    #[arg(long, env = "COVEY_BACKUP_TENANT", value_name = "UID")]
    pub tenant: String,
    /// The etcd cluster's identifier, hexadecimal; a copy of another one is left aside
    #[arg(long, env = "COVEY_BACKUP_CLUSTER", value_name = "ID")]
    pub cluster: Id,
    /// Folder with the files `data-key` (32 bytes) and `wrapped-key` (80 bytes)
    #[arg(long, env = "COVEY_BACKUP_KEYS", value_name = "DIR")]
    pub keys: PathBuf,
    /// Who writes, for people
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub writer: String,
    /// Version of the tenant cluster's Kubernetes
    #[arg(
        long,
        env = "COVEY_BACKUP_KUBERNETES",
        value_name = "VERSION",
        default_value = ""
    )]
    pub kubernetes: String,
    /// That of `copy`
    #[arg(long, env = "COVEY_RESTORE_SCRATCH", value_name = "DIR")]
    pub scratch: PathBuf,
    /// URL of an etcd that serves the copy alone (`--force-new-cluster`), and that nobody else asks
    #[arg(long, env = "COVEY_RESTORE_ETCD", value_name = "URL")]
    pub etcd: String,
    /// File that is there and gets what came of it as one line of JSON: `revision` and `deltas`, or `aside` and why
    #[arg(long, env = "COVEY_RESTORE_REPORT", value_name = "FILE")]
    pub report: Option<PathBuf>,
}
