//! How a tenant cluster goes from one version to the next, and how far it is.
//!
//! Invariant: the version alone begins an upgrade, and setting it back ends one; here stands how careful it is.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;

const AT_MOST_A_DAY: &str = "duration(self) <= duration('24h')";
const MINUTE_TO_DAY: &str = "duration(self) >= duration('1m') && duration(self) <= duration('24h')";
const DEADLINE: &str =
    "upgrade.deadline is how long new pods have to become ready: at least 1m and at most 24h";
const SOAK: &str = "upgrade.soak is how long new kube-apiservers serve the minor before: at most 24h, 0s for not at all";

/// How a tenant cluster goes from one version to the next.
#[derive(Clone, Debug, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// What becomes of an upgrade that something speaks against (`status.upgrade.blockers`). `Enforce`: the version
    /// that runs stays, and is looked after, until nothing does. `Warn`: it is told, and the upgrade goes on.
    /// Default: `Enforce`. Example: `Warn`.
    #[serde(default)]
    pub guard: UpgradeGuard,

    /// How long the new kube-apiservers serve the minor before, with all its APIs and features and none of the new
    /// one, before they serve their own, 0s to 24h: until then going back is going back to programs that wrote the
    /// same. `0s`: not at all; a patch of a minor never does. Default: `10m`. Example: `1h`.
    #[serde(default = "default_soak")]
    #[x_kube(validation = Rule::new(AT_MOST_A_DAY).message(SOAK))]
    pub soak: Duration,

    /// Whether a Snapshot is taken before an upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<UpgradeSnapshot>,

    /// How long the upgrade goes on without one more new pod of the control plane becoming ready before it has failed,
    /// 1m to 24h. Default: `15m`. Example: `30m`.
    #[serde(default = "default_deadline")]
    #[x_kube(validation = Rule::new(MINUTE_TO_DAY).message(DEADLINE))]
    pub deadline: Duration,

    /// What becomes of an upgrade that fails (`status.upgrade.failure`). `RollBack`: what ran before comes back by
    /// itself, and that version is not tried again until `version` or `upgrade.retry` changes. `Hold`: it stays as far
    /// as it came, and goes on once nothing fails any more. Default: `RollBack`. Example: `Hold`.
    #[serde(default)]
    pub on_failure: UpgradeFailurePolicy,

    /// Another number than before has a version tried again that was taken back. Default: 0. Example: 1.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub retry: i32,
}

impl Default for Upgrade {
    fn default() -> Self {
        Self {
            guard: UpgradeGuard::default(),
            soak: default_soak(),
            snapshot: None,
            deadline: default_deadline(),
            on_failure: UpgradeFailurePolicy::default(),
            retry: 0,
        }
    }
}

fn default_soak() -> Duration {
    Duration::from("10m")
}

fn default_deadline() -> Duration {
    Duration::from("15m")
}

impl Upgrade {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What becomes of an upgrade that something speaks against.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum UpgradeGuard {
    /// It does not begin.
    #[default]
    Enforce,
    /// It begins all the same.
    Warn,
}

/// Whether a Snapshot is taken, and read again, before anything is changed. `Required`: without one the upgrade does
/// not begin. `Preferred`: it begins after ten minutes all the same, and says so. `Never`: none is taken. Default:
/// `Required` for a minor where there is `spec.backup`, else `Preferred`. Example: `Required`.
// An optional enum's documentation is that of its type in the definition.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum UpgradeSnapshot {
    /// Without one it does not begin.
    Required,
    /// It begins without one, where none can be had.
    Preferred,
    /// None is taken.
    Never,
}

/// What becomes of an upgrade that fails.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum UpgradeFailurePolicy {
    /// What ran before comes back.
    #[default]
    RollBack,
    /// It stays as it is.
    Hold,
}

/// An upgrade that is wanted, or under way, or was taken back.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeStatus {
    /// The version that serves. Example: `1.35.4`.
    #[schemars(length(max = 32))]
    pub from: String,
    /// The version that is asked for. Example: `1.36.3`.
    #[schemars(length(max = 32))]
    pub to: String,
    /// How far it is; computed anew each time from what runs. Example: `Checking`.
    #[serde(default)]
    pub phase: UpgradePhase,
    /// When it was first seen to be wanted, RFC 3339, UTC. Example: `2027-01-31T12:00:00Z`.
    #[schemars(length(max = 64))]
    pub since: String,
    /// When this phase was first seen, RFC 3339, UTC: `spec.upgrade.deadline` counts from then. Absent before anything is
    /// rolled out. Example: `2027-01-31T12:01:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub phase_since: Option<String>,
    /// The Snapshot that was taken before it, in this namespace. Absent where none was. Example: `demo-1.35.4-1.36.3-0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub snapshot: Option<String>,
    /// The version that was taken back, and is not tried again until `spec.version` or `spec.upgrade.retry` changes.
    /// Absent where none was. Example: `1.36.3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub failed_version: Option<String>,
    /// `spec.upgrade.retry` when it was. Absent where none was. Example: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_retry: Option<i32>,
    /// Why it failed. Absent while it has not. Example: `{"reason": "CrashLooping", "phase": "Rolling", "message": "pod
    /// control-plane-5d7f: kube-apiserver ends whenever it is started: exit code 1: unknown flag: --x", "at":
    /// "2027-01-31T12:04:00Z"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<UpgradeFailure>,
    /// All that keeps it from beginning, sorted by check, one entry for each check.
    /// Example: `[{"check": "Kubelets", "message": "2 nodes are too old for Kubernetes 1.36: a, b; …"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["check"]))]
    pub blockers: Vec<UpgradeFinding>,
    /// What is worth knowing and keeps nothing from beginning, sorted by check, one entry for each check.
    /// Example: `[{"check": "DisruptionBudgets", "message": "1 budget lets no pod go: shop/db"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["check"]))]
    pub warnings: Vec<UpgradeFinding>,
}

/// How far an upgrade is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum UpgradePhase {
    /// It is looked at what speaks against it; the version that serves stays.
    #[default]
    Checking,
    /// Nothing does, and a Snapshot is taken; the version that serves stays.
    Snapshotting,
    /// Pods of the new version are made: etcd's where its image changes, then kube-apiservers, and where it is a
    /// patch all programs after them.
    Rolling,
    /// All kube-apiservers are of the new minor and serve the one before.
    Soaking,
    /// They are brought to serve their own, and all programs after them.
    Finalizing,
    /// It failed, and what ran before comes back.
    RollingBack,
    /// It failed, and what ran before runs.
    RolledBack,
}

/// Why an upgrade failed.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeFailure {
    /// What was wrong. Example: `CrashLooping`.
    pub reason: UpgradeFailureReason,
    /// How far it was: from `Finalizing` what comes back serves the minor before, and is not the program before.
    /// Example: `Rolling`.
    pub phase: UpgradePhase,
    /// Which pod, which container, and the first line of error that it left.
    /// Example: `pod control-plane-5d7f: kube-apiserver ends whenever it is started: exit code 1: unknown flag: --x`.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// When that was first seen, RFC 3339, UTC. Example: `2027-01-31T12:04:00Z`.
    #[schemars(length(max = 64))]
    pub at: String,
}

/// What was wrong with an upgrade.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum UpgradeFailureReason {
    /// For `spec.upgrade.deadline` no new pod more became ready.
    #[default]
    DeadlineExceeded,
    /// A container of a new pod ended three times.
    CrashLooping,
    /// The image of a new pod cannot be pulled.
    ImagePullFailed,
    /// Since the new kube-apiservers run, stored objects cannot be read.
    StoredObjects,
    /// For three minutes more than a tenth of the nodes that were Ready before have not been.
    NodesLost,
}

/// What was found before an upgrade.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeFinding {
    /// Name of the check, as in `docs/upgrades.md`. Example: `Kubelets`.
    #[schemars(length(max = 32))]
    pub check: String,
    /// What, how many, the first three by name, and how to mend it.
    /// Example: `2 nodes are too old for Kubernetes 1.36: a, b; replace them`.
    #[schemars(length(max = 1024))]
    pub message: String,
}
