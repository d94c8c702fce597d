//! Whether a tenant cluster sleeps: nothing of it runs, and its data, keys and addresses stay.
//!
//! Invariant: `enabled` is the user's alone, nobody else writes it; what a request does stands in the status.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;

const QUARTER_TO_MONTH: &str =
    "duration(self) >= duration('15m') && duration(self) <= duration('720h')";
const IDLE_AFTER: &str = "hibernation.idleAfter is how long nobody uses it before it is put to sleep: at least 15m and at most 720h";
const WOKEN_BY_REQUEST: &str = "!has(self.idleAfter) || self.wake == 'OnRequest'";
const NOBODY_WAKES: &str = "hibernation.idleAfter puts it to sleep until somebody asks its API, and with hibernation.wake \
    Manual no request wakes it: set wake to OnRequest, or remove idleAfter";

/// Whether a tenant cluster sleeps.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(WOKEN_BY_REQUEST).message(NOBODY_WAKES).field_path(".idleAfter"))]
pub struct Hibernation {
    /// `true`: it sleeps. Its machines are drained and deleted, then its control plane and etcd have no pods; volumes,
    /// Secrets, Services with their addresses, and backups stay. `false`: it is awake. Default: `false`. Example: `true`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub enabled: bool,

    /// When it sleeps although `enabled` is false, at most 8: the last moment of any of them that is over says whether it
    /// sleeps or is awake, also where that was before it was set. A request wakes it until it is put to sleep next.
    /// Default: at no time.
    /// Example: `[{"sleep": "0 20 * * *", "wake": "0 7 * * *", "timeZone": "Europe/Berlin"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub schedules: Vec<HibernationSchedule>,

    /// How long nobody uses it before it is put to sleep although `enabled` is false, 15m to 720h; a request wakes it, so
    /// the activator has to be installed. Requests of people and of workloads are use; those of Kubernetes' own parts and
    /// of Covey's are none, nor are those of anybody who does not say who he is. Default: never. Example: `4h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(QUARTER_TO_MONTH).message(IDLE_AFTER))]
    pub idle_after: Option<Duration>,

    /// Who wakes it while `enabled` is true. `OnRequest`: whoever asks its API too, where the activator is installed; it
    /// stays awake then until `enabled` was false and is true again, or a schedule puts it to sleep. `Manual`: whoever sets
    /// `enabled` to false, or a schedule. Default: `OnRequest`. Example: `Manual`.
    #[serde(default)]
    pub wake: HibernationWake,

    /// What is done about admission webhooks that would keep it from waking: those that pods of the tenant cluster itself
    /// answer, that have `failurePolicy: Fail`, and that are asked about what a control plane and its nodes need. `Keep`:
    /// it is not put to sleep while there is one. `Relax`: they have `failurePolicy: Ignore` until somebody is there to
    /// answer after it woke. Default: `Keep`. Example: `Relax`.
    #[serde(default)]
    pub webhooks: HibernationWebhooks,
}

impl Hibernation {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// When a tenant cluster is put to sleep, and when it wakes.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HibernationSchedule {
    /// When it is put to sleep: minute, hour, day of the month, month and day of the week as in crontab(5), at most four
    /// times a day. Where both days are limited, either will do. Required, no default. Example: `0 20 * * *`.
    #[schemars(length(min = 1, max = 64))]
    pub sleep: String,
    /// When it wakes, written as `sleep`. Required, no default. Example: `0 7 * * *`.
    #[schemars(length(min = 1, max = 64))]
    pub wake: String,
    /// Time zone of both, of the IANA database. What the clock leaves out comes right after it, and what there is twice
    /// comes the first time. Default: UTC. Example: `Europe/Berlin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub time_zone: Option<String>,
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

/// What sleep does about admission webhooks that would keep a tenant cluster from waking.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum HibernationWebhooks {
    /// Nothing: it does not sleep while there is one.
    #[default]
    Keep,
    /// They let requests pass until somebody answers them again.
    Relax,
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
    /// What was done about admission webhooks that would keep it from waking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhooks: Option<WebhooksStatus>,
}

/// What was done about admission webhooks that would keep a tenant cluster from waking. Default: they were not looked at.
/// Example: `Relaxed`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum WebhooksStatus {
    /// Nothing: there was none.
    Strict,
    /// They are changed: some may let requests pass.
    Relaxing,
    /// They let requests pass until somebody is there to answer.
    Relaxed,
}

/// That nobody uses a tenant cluster. Written when it begins; it goes with the first use.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IdleStatus {
    /// Since when, RFC 3339, UTC. Example: `2027-01-31T12:00:00Z`.
    #[schemars(length(max = 64))]
    pub since: String,
    /// What its kube-apiservers had counted of use then: for each when it began, and how many requests. Where that is
    /// another one it was used. Example: `1769860800.5:1234`.
    #[schemars(length(max = 512))]
    pub counted: String,
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
