//! The command line of `etcd-agent backup`.
//!
//! Invariant: no secret is a flag: keys and credentials are files.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

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
    /// Says whether a store can hold backups, and which call failed if not
    Check(CheckArgs),
    /// Makes the key that backups are encrypted for, and prints the recovery key, which a person keeps
    NewKey(NewKeyArgs),
    /// Reads every full snapshot and all deltas after it, and says what is wrong
    Verify(VerifyArgs),
    /// Makes an etcd's data directory as it was at a time or revision
    Restore(RestoreArgs),
}

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

/// Flags of `etcd-agent backup verify`.
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// What is read
    #[command(flatten)]
    pub read: ReadArgs,
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
