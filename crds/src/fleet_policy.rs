//! `FleetPolicy`: in which order, when and how many at a time tenant clusters are brought to what another operator, or
//! another configuration of it, makes of them.
//!
//! Invariant: a policy only ever holds back. It changes nothing that a user asks for, and where there is none, or it is
//! broken or gone, whoever waited for it stays as it is.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::{CustomResource, KubeSchema, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;
use crate::instant;
use crate::int_or_percent::IntOrPercent;

/// Name of the wave of those that no other wave takes.
pub const REST: &str = "rest";

const NAMES: &str = "!has(self.waves) || self.waves.all(wave, self.waves.exists_one(other, other.name == wave.name))";
const NAMES_DIFFER: &str =
    "two waves have the same name: give each its own, status.waves tells them apart by it";
const NO_REST: &str = "!has(self.waves) || self.waves.all(wave, wave.name != 'rest')";
const NO_REST_SAID: &str =
    "rest is the name of the wave of those that no other takes: choose another name";
const ANYBODY: &str = "!has(self.size) || (self.size != 0 && self.size != '0%')";
const ANYBODY_SAID: &str = "a wave of nobody holds nothing back: set size to 1 or more, or to 1% or more, or remove the wave";
const ROOM: &str = "!has(self.waves) || self.waves.all(wave, !has(wave.maxFailures) || wave.maxFailures < (has(self.maxConcurrent) ? self.maxConcurrent : 2))";
const ROOM_SAID: &str = "a tenant cluster that failed keeps its place until it is mended: set maxFailures of each wave to less than maxConcurrent";
const AT_MOST_A_WEEK: &str = "duration(self) <= duration('168h')";
const SOAK: &str = "soak is how long a wave is looked at before the next one begins: at most 168h, 0s for not at all";
const DEADLINE_RANGE: &str =
    "duration(self) >= duration('10s') && duration(self) <= duration('24h')";
const DEADLINE: &str =
    "deadline is how long one tenant cluster may take: at least 10s and at most 24h";
const UNTIL: &str = "heldUntil is a time in UTC to the second: write 2027-01-31T12:00:00Z";
const TWO: &str = "self.opens != self.closes";
const TWO_SAID: &str =
    "opens and closes are the same moments: write two, as \"0 22 * * *\" and \"0 4 * * *\"";

/// In which order, when and how many at a time tenant clusters follow another operator.
// Columns of one type are no duplicates.
#[allow(clippy::duplicated_attributes)]
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "covey.dev",
    version = "v1alpha1",
    kind = "FleetPolicy",
    plural = "fleetpolicies",
    shortname = "fp",
    category = "covey",
    status = "FleetPolicyStatus",
    derive = "PartialEq",
    doc = "In which order, when and how many at a time tenant clusters follow another operator.",
    printcolumn(
        name = "Progressing",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Progressing')].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Progressing')].reason"
    ),
    printcolumn(
        name = "Degraded",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Degraded')].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Progressing')].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(NAMES).message(NAMES_DIFFER).field_path(".waves"),
    validation = Rule::new(NO_REST).message(NO_REST_SAID).field_path(".waves"),
    validation = Rule::new(ROOM).message(ROOM_SAID).field_path(".waves")
)]
pub struct FleetPolicySpec {
    /// Of several policies the one with the highest number is followed, and of those the oldest; -1000 to 1000. Default: 0.
    /// Example: 10.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = -1000, max = 1000))]
    pub priority: i32,

    /// Waves in their order, at most 16. A tenant cluster is of the first one that takes it; those that none takes are the
    /// last wave, `rest`. A wave begins once all before it are whole. Default: none, everybody is of the wave `rest`.
    /// Example: `[{"name": "canary", "selector": {"matchLabels": {"tier": "test"}}, "soak": "1h"}, {"name": "tenth", "size": "10%"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub waves: Vec<Wave>,

    /// When tenant clusters may begin, at most 8: while any of them is open. What has begun goes on after it closes.
    /// Default: at any time.
    /// Example: `[{"opens": "0 22 * * 1-5", "closes": "0 4 * * *", "timeZone": "Europe/Berlin"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub windows: Vec<Window>,

    /// Most tenant clusters that are under way at a time, 1 to 1000; it stands in place of `config.maxConcurrentRollouts` of
    /// the chart. Default: 2. Example: 5.
    #[serde(default = "default_max_concurrent")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrent: i32,

    /// How long one tenant cluster may take before that is a failure, 10s to 24h. Default: `15m`. Example: `30m`.
    #[serde(default = "default_deadline")]
    #[x_kube(validation = Rule::new(DEADLINE_RANGE).message(DEADLINE))]
    pub deadline: Duration,

    /// `true`: nobody begins; what has begun goes on. Default: `false`. Example: `true`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub held: bool,

    /// Another number lets waves go on that were halted by a failure (`status.halted`), once what failed is mended.
    /// Default: 0. Example: 1.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub retry: i32,
}

impl Default for FleetPolicySpec {
    fn default() -> Self {
        Self {
            priority: 0,
            waves: Vec::new(),
            windows: Vec::new(),
            max_concurrent: default_max_concurrent(),
            deadline: default_deadline(),
            held: false,
            retry: 0,
        }
    }
}

fn default_max_concurrent() -> i32 {
    2
}

fn default_deadline() -> Duration {
    Duration::from("15m")
}

impl FleetPolicy {
    /// Where it stands among several: the first one is followed.
    #[must_use]
    pub fn rank(&self) -> impl Ord + use<> {
        let priority = Reverse(self.spec.priority);
        (priority, self.creation_timestamp(), self.name_any())
    }
}

/// Some of the tenant clusters.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(ANYBODY).message(ANYBODY_SAID).field_path(".size"))]
pub struct Wave {
    /// Its name, for people; not `rest`. Required, no default. Example: `canary`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,

    /// Which tenant clusters it takes. Default: any that no wave before it took.
    /// Example: `{"matchLabels": {"tier": "test"}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<WaveSelector>,

    /// How many of them at most, the oldest first: a number, or a share of all tenant clusters, rounded up. Default: all.
    /// Example: `10%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<IntOrPercent>,

    /// How long it has to be whole before the next wave begins, 0s to 168h. Default: `0s`. Example: `1h`.
    #[serde(default = "default_wave_soak")]
    #[x_kube(validation = Rule::new(AT_MOST_A_WEEK).message(SOAK))]
    pub soak: Duration,

    /// How many of it may fail before nobody else begins, 0 to 999 and less than `maxConcurrent`: one that failed keeps its
    /// place until it is mended. The wave is whole without them. Default: 0, the first failure halts. Example: 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 999))]
    pub max_failures: i32,

    /// Nobody of it begins before then, in UTC; what has begun goes on, and the waves after it wait. Default: it is not held
    /// back. Example: `2027-01-31T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 20, max = 20))]
    #[x_kube(validation = Rule::new(instant::FORM).message(UNTIL))]
    pub held_until: Option<String>,
}

impl Wave {
    /// Until when nobody of it begins; none where somebody may.
    ///
    /// # Errors
    /// Where there is no such moment; what is wrong, for people.
    pub fn holds(&self, now: Timestamp) -> Result<Option<Timestamp>, String> {
        let Some(text) = &self.held_until else {
            return Ok(None);
        };
        let until = instant::read(text).ok_or_else(|| {
            format!(
                "heldUntil of wave {}: {text} is no day of the calendar",
                self.name
            )
        })?;
        Ok((until > now).then_some(until))
    }
}

fn default_wave_soak() -> Duration {
    Duration::from("0s")
}

/// Which tenant clusters a wave takes.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaveSelector {
    /// Labels that a TenantCluster has, all of them, at most 16. Default: none, then it takes any.
    /// Example: `{"tier": "test"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub match_labels: BTreeMap<String, String>,
}

/// A time at which tenant clusters may begin.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(TWO).message(TWO_SAID).field_path(".closes"))]
pub struct Window {
    /// When it opens: minute, hour, day of the month, month and day of the week as in crontab(5), at most four times a day.
    /// Where both days are limited, either will do. Required, no default. Example: `0 22 * * 1-5`.
    #[schemars(length(min = 1, max = 64))]
    pub opens: String,
    /// When it closes, written as `opens`. Required, no default. Example: `0 4 * * *`.
    #[schemars(length(min = 1, max = 64))]
    pub closes: String,
    /// Time zone of both, of the IANA database. What the clock leaves out comes right after it, and what there is twice
    /// comes the first time. Default: UTC. Example: `Europe/Berlin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub time_zone: Option<String>,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetPolicyStatus {
    /// Generation of the spec that this status speaks of. Absent until the first look. Example: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Hash of the operator's templates and configuration that all are brought to. Example: `9f86d081884c7d65`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub templates: Option<String>,

    /// The waves in their order, with the last one, `rest`, where anybody is of it.
    /// Example: `[{"name": "canary", "tenantClusters": 3, "done": 3, …}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 17), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub waves: Vec<WaveStatus>,

    /// The failure at which nobody begins any more; absent where there was none.
    /// Example: `{"templates": "9f86d081884c7d65", "retry": 0, "tenantCluster": "team-a/shop", …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted: Option<Halted>,

    /// `Progressing`: tenant clusters are under way, or wait; the reason says what for. `Degraded`: a failure halted them, or
    /// the policy cannot be followed.
    /// Example: `[{"type": "Degraded", "status": "True", "reason": "FleetHalted", …}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How far a wave is.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaveStatus {
    /// Its name. Example: `canary`.
    #[schemars(length(max = 63))]
    pub name: String,
    /// How many tenant clusters are of it. Example: 3.
    pub tenant_clusters: i32,
    /// Those that run from the templates and are Ready. Example: 2.
    pub done: i32,
    /// Those that are under way. Example: 1.
    pub in_flight: i32,
    /// Those that wait. Example: 0.
    pub waiting: i32,
    /// Those that failed. Example: 0.
    pub failed: i32,
    /// Those that nobody waits for: they sleep, are paused or deleted, were never Ready, or were broken before. Example: 0.
    pub left_out: i32,
    /// Those that `spec.maintenance.heldUntil` of their own holds back: nobody waits for them, until then. Default: 0.
    /// Example: 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held: i32,
    /// Since when it is whole, RFC 3339, UTC: `soak` counts from then. Absent where it is not.
    /// Example: `2027-01-31T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub whole_since: Option<String>,
}

/// A failure at which nobody begins any more.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Halted {
    /// Hash of the templates with which it failed: others may be tried. Example: `9f86d081884c7d65`.
    #[schemars(length(max = 64))]
    pub templates: String,
    /// `spec.retry` then: another number lets the others go on. Example: 0.
    pub retry: i32,
    /// The first tenant cluster that failed. Example: `team-a/shop`.
    #[schemars(length(max = 320))]
    pub tenant_cluster: String,
    /// Why that is a failure. Example: `it is under way for more than 15m`.
    #[schemars(length(max = 512))]
    pub message: String,
    /// When it was seen, RFC 3339, UTC. Example: `2027-01-31T12:04:00Z`.
    #[schemars(length(max = 64))]
    pub since: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn is_zero(value: &i32) -> bool {
    *value == 0
}
