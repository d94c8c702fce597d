//! The command line of `etcd-agent backup`.
//!
//! Invariant: no secret is a flag: keys and credentials are files.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::append::{AppendArgs, CopyArgs};
use super::in_place::{CompareArgs, FetchArgs, ForgetArgs, ReplayArgs, SealArgs};
use super::reading::{AtArgs, ReadArgs, StoreArgs};
use crate::ids::Id;

/// Flags of `etcd-agent backup`.
#[derive(Clone, Debug, Args)]
pub struct BackupArgs {
    /// What it is to do.
    #[command(subcommand)]
    pub command: BackupCommand,
}

/// What it is to do.
#[derive(Clone, Debug, Subcommand)]
pub enum BackupCommand {
    /// Backs an etcd up until it is told to end
    Run(RunArgs),
    /// Says over HTTP what a backup has to which nobody writes: its identity as it is, and, with its key, which moments
    /// can be had
    Serve(ServeArgs),
    /// Says whether a store can hold backups, and which call failed if not
    Check(CheckArgs),
    /// Makes the key that backups are encrypted for, and prints the recovery key, which a person keeps; or makes the
    /// former of the latter
    NewKey(NewKeyArgs),
    /// Reads every full snapshot and all deltas after it, and says what is wrong
    Verify(VerifyArgs),
    /// Lists the tenant clusters that a store has backups of
    Clusters(ClustersArgs),
    /// Opens the tenant cluster's identity with the recovery key: its keys, authorities and addresses
    Identity(IdentityArgs),
    /// Makes an etcd's data directory as it was at a time or revision
    Restore(RestoreArgs),
    /// Makes an etcd's data directory of what goes furthest: data directories that are left of members, with what the
    /// backup has beyond each, or the backup alone
    Salvage(SalvageArgs),
    /// Restores in place, before: copies what is left of a member, to have it served by an etcd that is nobody's
    Copy(CopyArgs),
    /// Restores in place, before: puts what that etcd has beyond the backup into the backup
    Append(AppendArgs),
    /// Restores in place, 1: fetches the full snapshot for `etcdutl snapshot restore`, and makes room on the volume
    Fetch(FetchArgs),
    /// Restores in place, 2: replays what came after it on an etcd that serves it, and takes a snapshot of that
    Replay(ReplayArgs),
    /// Restores in place, 3: notes on the volume that what `etcdutl snapshot restore` made of that is whole
    Seal(SealArgs),
    /// Restores in place, at the end: removes what a member had before
    Forget(ForgetArgs),
    /// Tests a restore, after `fetch`: replays what came after the full snapshot on an etcd that serves it, and compares
    /// that with the etcd that is backed up
    Compare(CompareArgs),
}

/// Flags of `etcd-agent backup check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// What is checked
    #[command(flatten)]
    pub store: StoreArgs,
    /// File with the key that data keys are wrapped with (64 bytes): whether it is one
    #[arg(long, env = "COVEY_BACKUP_WRAPPING_KEY", value_name = "FILE")]
    pub wrapping_key: Option<PathBuf>,
    /// File that is there and gets one line of JSON when something failed: `call`, `why`, `detail`
    #[arg(long, env = "COVEY_BACKUP_REPORT", value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Flags of `etcd-agent backup new-key`.
#[derive(Clone, Debug, Args)]
pub struct NewKeyArgs {
    /// File to make, for the field of this name of a Secret: the key that data keys are wrapped with
    #[arg(long, env = "COVEY_BACKUP_WRAPPING_KEY", value_name = "FILE")]
    pub wrapping_key: PathBuf,
    /// File with the recovery key that there is: then none is made and printed, and its wrapping key is written again
    #[arg(long, env = "COVEY_BACKUP_RECOVERY_KEY", value_name = "FILE")]
    pub recovery_key: Option<PathBuf>,
}

/// Flags of `etcd-agent backup run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Where objects go
    #[command(flatten)]
    pub store: StoreArgs,
    /// URL of one member
    #[arg(long, env = "COVEY_BACKUP_ETCD", value_name = "URL")]
    pub etcd: String,
    /// Folder with `ca.crt`, `tls.crt` and `tls.key` for an etcd with TLS
    #[arg(long, env = "COVEY_BACKUP_ETCD_TLS", value_name = "DIR")]
    pub etcd_tls: Option<PathBuf>,
    /// UID of the TenantCluster
    #[arg(long, env = "COVEY_BACKUP_TENANT", value_name = "UID")]
    pub tenant: String,
    /// The etcd cluster's identifier, hexadecimal; another one is refused
    #[arg(long, env = "COVEY_BACKUP_CLUSTER", value_name = "ID")]
    pub cluster: Option<Id>,
    /// Folder with the files `data-key` (32 bytes) and `wrapped-key` (80 bytes)
    #[arg(long, env = "COVEY_BACKUP_KEYS", value_name = "DIR")]
    pub keys: PathBuf,
    /// File with the tenant cluster's identity, sealed by the operator; read anew each half a minute
    #[arg(long, env = "COVEY_BACKUP_IDENTITY", value_name = "FILE")]
    pub identity: Option<PathBuf>,
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
    /// Milliseconds after an event until its delta is written
    #[arg(
        long,
        env = "COVEY_BACKUP_DELTA_MS",
        value_name = "MS",
        default_value_t = 4000
    )]
    #[arg(value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    pub delta_ms: u64,
    /// Seconds from one full snapshot to the next
    #[arg(
        long,
        env = "COVEY_BACKUP_FULL_SECONDS",
        value_name = "SECONDS",
        default_value_t = 86400
    )]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub full_seconds: u64,
    /// Hours of which the first full snapshot is kept
    #[arg(
        long,
        env = "COVEY_BACKUP_KEEP_HOURS",
        value_name = "N",
        default_value_t = 24
    )]
    pub keep_hours: u32,
    /// Days of which the first full snapshot is kept
    #[arg(
        long,
        env = "COVEY_BACKUP_KEEP_DAYS",
        value_name = "N",
        default_value_t = 7
    )]
    pub keep_days: u32,
    /// Weeks of which the first full snapshot is kept
    #[arg(
        long,
        env = "COVEY_BACKUP_KEEP_WEEKS",
        value_name = "N",
        default_value_t = 4
    )]
    pub keep_weeks: u32,
    /// Months of which the first full snapshot is kept
    #[arg(
        long,
        env = "COVEY_BACKUP_KEEP_MONTHS",
        value_name = "N",
        default_value_t = 0
    )]
    pub keep_months: u32,
    /// Where it says over HTTP how far it is (`/status`, and `/livez`); nowhere if it is left out
    #[arg(long, env = "COVEY_BACKUP_LISTEN", value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
}

/// Flags of `etcd-agent backup serve`.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Where objects are
    #[command(flatten)]
    pub store: StoreArgs,
    /// UID of the TenantCluster
    #[arg(long, env = "COVEY_BACKUP_TENANT", value_name = "UID")]
    pub tenant: String,
    /// File with the tenant cluster's key (32 bytes); without it nothing is said of moments
    #[arg(long, env = "COVEY_BACKUP_DATA_KEY", value_name = "FILE")]
    pub data_key: Option<PathBuf>,
    /// Where it answers (`/identity/<etcd cluster>`, `/restorable/<etcd cluster>/<moment>`, `/livez`)
    #[arg(long, env = "COVEY_BACKUP_LISTEN", value_name = "ADDRESS")]
    pub listen: SocketAddr,
}

/// Flags of `etcd-agent backup verify`.
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// What is read
    #[command(flatten)]
    pub read: ReadArgs,
}

/// Flags of `etcd-agent backup clusters`.
#[derive(Clone, Debug, Args)]
pub struct ClustersArgs {
    /// Where objects are
    #[command(flatten)]
    pub store: StoreArgs,
    /// File with the recovery key, to have names as well
    #[arg(long, env = "COVEY_BACKUP_RECOVERY_KEY", value_name = "FILE")]
    pub recovery_key: Option<PathBuf>,
}

/// Flags of `etcd-agent backup identity`.
#[derive(Clone, Debug, Args)]
pub struct IdentityArgs {
    /// Where objects are
    #[command(flatten)]
    pub store: StoreArgs,
    /// UID of the TenantCluster
    #[arg(long, env = "COVEY_BACKUP_TENANT", value_name = "UID")]
    pub tenant: String,
    /// The etcd cluster's identifier, hexadecimal
    #[arg(long, env = "COVEY_BACKUP_CLUSTER", value_name = "ID")]
    pub cluster: Id,
    /// File with the recovery key
    #[arg(long, env = "COVEY_BACKUP_RECOVERY_KEY", value_name = "FILE")]
    pub recovery_key: PathBuf,
    /// The one that was sealed last until then, in milliseconds since 1970; the newest if it is left out
    #[arg(long, env = "COVEY_RESTORE_AT_MS", value_name = "MS")]
    pub at_ms: Option<u64>,
    /// File to make: the identity, JSON. It holds private keys
    #[arg(long, env = "COVEY_IDENTITY_DOCUMENT", value_name = "FILE")]
    pub to: PathBuf,
}

/// Flags of `etcd-agent backup restore`.
#[derive(Clone, Debug, Args)]
pub struct RestoreArgs {
    /// What is read
    #[command(flatten)]
    pub read: ReadArgs,
    /// The moment
    #[command(flatten)]
    pub at: AtArgs,
    /// Only says whether it can be had, and makes nothing
    #[arg(long, env = "COVEY_RESTORE_DRY_RUN")]
    pub dry_run: bool,
    /// What is made
    #[command(flatten)]
    pub build: BuildArgs,
}

/// A member's data directory that is made, and with what.
#[derive(Clone, Debug, Args)]
pub struct BuildArgs {
    /// The data directory to make; it must not be there
    #[arg(long, env = "COVEY_ETCD_DATA_DIR", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Folder with room for the database three times
    #[arg(long, env = "COVEY_RESTORE_SCRATCH", value_name = "DIR")]
    pub scratch: PathBuf,
    /// Folder with `etcd` and `etcdutl` of the snapshot's minor
    #[arg(
        long,
        env = "COVEY_RESTORE_PROGRAMS",
        value_name = "DIR",
        default_value = "/usr/local/bin"
    )]
    pub programs: PathBuf,
    /// The value of etcd's flag --name
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub member: String,
    /// The value of etcd's flag --initial-advertise-peer-urls
    #[arg(long, env = "COVEY_RESTORE_PEER_URL", value_name = "URL")]
    pub peer_url: String,
    /// The value of etcd's flag of this name
    #[arg(long, env = "COVEY_RESTORE_INITIAL_CLUSTER", value_name = "MEMBERS")]
    pub initial_cluster: String,
    /// The value of etcd's flag of this name
    #[arg(long, env = "COVEY_RESTORE_TOKEN", value_name = "TOKEN")]
    pub initial_cluster_token: String,
    /// How much revisions are raised: more than what was ever told beyond the backup
    #[arg(long, env = "COVEY_RESTORE_BUMP", value_name = "N")]
    pub bump: u64,
}

/// Flags of `etcd-agent backup salvage`.
#[derive(Clone, Debug, Args)]
pub struct SalvageArgs {
    /// What is read
    #[command(flatten)]
    pub read: ReadArgs,
    /// A data directory that is left of a member; may be given several times. It is only read
    #[arg(long = "survivor", value_name = "DIR", required = true)]
    #[arg(env = "COVEY_RESTORE_SURVIVORS", value_delimiter = ',')]
    pub survivors: Vec<PathBuf>,
    /// What is made
    #[command(flatten)]
    pub build: BuildArgs,
}
