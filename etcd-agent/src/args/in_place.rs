//! The command line of a restore in place, and of its test: one command for each container of its pods.
//!
//! Invariant: what decides about data has no default.

use std::path::PathBuf;

use clap::Args;

use super::reading::{AtArgs, ReadArgs};
use crate::ids::Id;

/// Which restore, on which volume.
#[derive(Clone, Debug, Args)]
pub struct VolumeArgs {
    /// The volume of the member, whose data directory is below it
    #[arg(long, env = "COVEY_RESTORE_VOLUME", value_name = "DIR")]
    pub volume: PathBuf,
    /// UID of the Restore: its folder on the volume is named after it
    #[arg(long, env = "COVEY_RESTORE_UID", value_name = "UID")]
    pub restore: String,
}

/// Flags of `etcd-agent backup fetch`.
#[derive(Clone, Debug, Args)]
pub struct FetchArgs {
    /// The volume of the member on which it will be built, to make room there; left out where it is only compared
    #[arg(
        long,
        env = "COVEY_RESTORE_VOLUME",
        value_name = "DIR",
        requires = "restore"
    )]
    pub volume: Option<PathBuf>,
    /// UID of the Restore: its folder on the volume is named after it
    #[arg(
        long,
        env = "COVEY_RESTORE_UID",
        value_name = "UID",
        requires = "volume"
    )]
    pub restore: Option<String>,
    /// What is read
    #[command(flatten)]
    pub read: ReadArgs,
    /// The moment
    #[command(flatten)]
    pub at: AtArgs,
    /// A revision that it must have: it was found beforehand
    #[arg(long, env = "COVEY_RESTORE_LEAST_REVISION", value_name = "N")]
    pub least_revision: u64,
    /// Folder with room for the database three times, for `snapshot.db` and what the next commands need
    #[arg(long, env = "COVEY_RESTORE_SCRATCH", value_name = "DIR")]
    pub scratch: PathBuf,
}

/// Flags of `etcd-agent backup replay`.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// What is read
    #[command(flatten)]
    pub read: ReadArgs,
    /// That of `fetch`; `restored.db` is made in it
    #[arg(long, env = "COVEY_RESTORE_SCRATCH", value_name = "DIR")]
    pub scratch: PathBuf,
    /// URL of an etcd that serves what was fetched, and that nobody else asks
    #[arg(long, env = "COVEY_RESTORE_ETCD", value_name = "URL")]
    pub etcd: String,
}

/// Flags of `etcd-agent backup compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// What is read
    #[command(flatten)]
    pub read: ReadArgs,
    /// That of `fetch`
    #[arg(long, env = "COVEY_RESTORE_SCRATCH", value_name = "DIR")]
    pub scratch: PathBuf,
    /// URL of an etcd that serves what was fetched, and that nobody else asks
    #[arg(long, env = "COVEY_RESTORE_ETCD", value_name = "URL")]
    pub etcd: String,
    /// URL of a member of the etcd that is backed up: it is only read
    #[arg(long, env = "COVEY_RESTORE_LIVE", value_name = "URL")]
    pub live: String,
    /// Folder with `ca.crt`, `tls.crt` and `tls.key` for that
    #[arg(long, env = "COVEY_RESTORE_LIVE_TLS", value_name = "DIR")]
    pub live_tls: Option<PathBuf>,
    /// File that is there and gets what was compared as one line of JSON: `revision`, `keys`, `bytes`
    #[arg(long, env = "COVEY_RESTORE_REPORT", value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Flags of `etcd-agent backup seal`.
#[derive(Clone, Debug, Args)]
pub struct SealArgs {
    /// Where it was built
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// That of `fetch`
    #[arg(long, env = "COVEY_RESTORE_SCRATCH", value_name = "DIR")]
    pub scratch: PathBuf,
    /// The value of etcd's flag --name
    #[arg(long, env = "COVEY_RESTORE_MEMBER", value_name = "NAME")]
    pub member: String,
    /// UID of the volume's claim
    #[arg(long, env = "COVEY_RESTORE_CLAIM", value_name = "UID")]
    pub claim: String,
    /// File that is there and gets what was built as one line of JSON: `claimUID`, `name`, `revision`, `data`
    #[arg(long, env = "COVEY_RESTORE_REPORT", value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Flags of `etcd-agent backup forget`.
#[derive(Clone, Debug, Args)]
pub struct ForgetArgs {
    /// What is removed of
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// The etcd cluster that the member has data of now, hexadecimal: with any other nothing is removed
    #[arg(long, env = "COVEY_RESTORE_CLUSTER", value_name = "ID")]
    pub cluster: Id,
}
