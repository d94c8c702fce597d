//! How a tenant cluster goes from one version to the next, and how far it is.
//!
//! Invariant: the version alone begins an upgrade, and setting it back ends one; here stands how careful it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a tenant cluster goes from one version to the next.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// What becomes of an upgrade that something speaks against (`status.upgrade.blockers`). `Enforce`: the version
    /// that runs stays, and is looked after, until nothing does. `Warn`: it is told, and the upgrade goes on.
    /// Default: `Enforce`. Example: `Warn`.
    #[serde(default)]
    pub guard: UpgradeGuard,
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

/// An upgrade that is wanted, or under way.
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
    /// etcd, kube-apiserver, kube-controller-manager and kube-scheduler are brought to it, in this order.
    Rolling,
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
