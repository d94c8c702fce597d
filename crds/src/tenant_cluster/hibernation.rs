//! Whether a tenant cluster sleeps: nothing of it runs, and its data, keys and addresses stay.
//!
//! Invariant: `enabled` is the user's alone, nobody else writes it; what a request does stands in the status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a tenant cluster sleeps.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hibernation {
    /// `true`: it sleeps. Its machines are drained and deleted, then its control plane and etcd have no pods; volumes,
    /// Secrets, Services with their addresses, and backups stay. `false`: it is awake. Default: `false`. Example: `true`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub enabled: bool,

    /// Who wakes it while `enabled` is true. `OnRequest`: whoever asks its API too, where the activator is installed; it
    /// stays awake then until `enabled` was false and is true again. `Manual`: whoever sets `enabled` to false. Default:
    /// `OnRequest`. Example: `Manual`.
    #[serde(default)]
    pub wake: HibernationWake,
}

impl Hibernation {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Who wakes a tenant cluster that sleeps.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum HibernationWake {
    /// Whoever asks its API, too.
    #[default]
    OnRequest,
    /// Whoever changes its spec.
    Manual,
}

/// How far sleep is: facts that cannot be seen again, and the phase.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HibernationStatus {
    /// How far it is; computed anew each time from what runs. Example: `Asleep`.
    #[serde(default)]
    pub phase: HibernationPhase,
    /// When it was sent to sleep, RFC 3339, UTC: requests that came later wake it. Example: `2027-01-31T12:00:00Z`.
    #[schemars(length(max = 64))]
    pub since: String,
    /// Whether no machine, node, volume attachment or pod on a node was left, so that its control plane may end.
    /// Default: false. Example: true.
    #[serde(default, skip_serializing_if = "is_false")]
    pub drained: bool,
    /// Whether no pod was left that writes to etcd, so that the backup may end. Default: false. Example: true.
    #[serde(default, skip_serializing_if = "is_false")]
    pub quiet: bool,
}

/// How far sleep is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum HibernationPhase {
    /// It runs: a request woke it, and it stays awake until `spec.hibernation.enabled` was false and is true again; or it
    /// has just been woken.
    #[default]
    Awake,
    /// Machines are drained, and what runs ends, one after the other.
    FallingAsleep,
    /// Nothing of it runs.
    Asleep,
    /// What ran before starts.
    Waking,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}
