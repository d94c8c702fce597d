//! `spec.locations` and `spec.placement`: where the machines of a node pool are made.
//!
//! Invariant: a pool with `spec.provider` is one with a single location, so that whoever reads pools needs
//! to know one form only (`NodePoolSpec::places`); what defines a machine is below `provider`, and weight,
//! most and placement replace nobody.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::autoscaling::Architecture;
use super::provider::Provider;
use crate::duration::Duration;
use crate::int_or_percent::IntOrPercent;
use crate::quantity::Quantity;
use crate::taints::Taint;

/// What the only location of a pool with `spec.provider` is called in its status.
pub const ONLY_LOCATION: &str = "default";

/// Kubelets renew their Lease every ten seconds.
const AFTER: &str = "duration(self) >= duration('15s') && duration(self) <= duration('10m')";
const AFTER_MESSAGE: &str = "placement.failover.after is how long a node may be silent: at least 15s, because kubelets speak every 10s, and at most 10m";

/// One place where machines of a pool are made.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Location {
    /// What its machines name it by (`spec.location` of a Machine): lower-case letters, digits and -, at most
    /// 40 characters, beginning with a letter. A location of another name is another one, and machines of one
    /// that is gone are replaced. Required, no default. Example: `north`.
    #[schemars(
        length(min = 1, max = 40),
        regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,

    /// Its share of the machines, 0 to 1000, beside the other locations' weights. 0: nothing new is made
    /// there. Replaces no machine. Default: 1. Example: 2.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 0, max = 1000))]
    pub weight: i32,

    /// Most machines there, 0 to 1000; what is over goes to the other locations, and what is there already
    /// stays until a rollout replaces it, which may have `rollout.maxSurge` more for a while.
    /// Default: no limit but `replicas`. Example: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub max: Option<i32>,

    /// Who makes the machines there, and of what size: exactly one. A change replaces the machines of this
    /// location as `rollout` says, and no others. Required, no default.
    /// Example: `{"kubevirt": {"cpu": 2, "memory": "4Gi"}}`.
    pub provider: Provider,
}

fn default_weight() -> i32 {
    1
}

/// How machines are spread over the locations.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Whether machines are moved when weights change. `Never`: the machines follow the weights as they come
    /// and go. `Gradual`: one at a time, while all are ready and no rollout is on; the new one is ready
    /// before the old one is drained. Default: `Never`. Example: `Gradual`.
    #[serde(default)]
    pub rebalance: Rebalance,

    /// What happens when a whole location is lost. Default: others take its share until it is back.
    /// Example: `{"mode": "Never"}`.
    #[serde(default, skip_serializing_if = "Failover::is_default")]
    pub failover: Failover,

    /// What the machines of the pool may cost in an hour. No machine is made with which they would cost more, and none of
    /// which nobody knows what it costs; nothing is deleted because of it. Default: none, no bound.
    /// Example: `{"hourly": "12.50", "currency": "EUR"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

/// What machines may cost.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// What their sizes may cost in an hour together, those that are silent or being deleted included, without tax; addresses,
    /// volumes and traffic do not count, nor do virtual machines of KubeVirt and Hosts, which nobody bills by the hour.
    /// Required, no default. Example: `12.50`.
    #[schemars(
        length(min = 1, max = 16),
        regex(pattern = r"^[0-9]{1,8}(\.[0-9]{1,6})?$")
    )]
    pub hourly: String,

    /// Its currency (ISO 4217), which is that of each ProviderConfig that the pool names (`spec.currency` there): nothing is
    /// converted. Required, no default. Example: `EUR`.
    #[schemars(length(min = 3, max = 3), regex(pattern = "^[A-Z]{3}$"))]
    pub currency: String,
}

impl Placement {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether machines are moved without need.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Rebalance {
    /// The machines follow the weights as they come and go.
    #[default]
    Never,
    /// One at a time, while everything is well.
    Gradual,
}

/// What happens when a whole location is lost.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failover {
    /// `Automatic`: the other locations make machines in place of those that are lost, and these are kept until
    /// the location is back. `Never`: `health` alone decides what is replaced. Of no effect where there is one
    /// location. Default: `Automatic`. Example: `Never`.
    #[serde(default)]
    pub mode: FailoverMode,

    /// How long a node may be silent before it is looked at once more, 5 s later, 15s to 10m. Default: `25s`.
    /// Example: `40s`.
    #[serde(default = "default_after")]
    #[x_kube(validation = Rule::new(AFTER).message(AFTER_MESSAGE))]
    pub after: Duration,

    /// How long a location that is back has to be well before machines are made there again, and those that
    /// took its share go: hours (h), minutes (m), seconds (s). It doubles with each relapse, up to 2h.
    /// Default: `10m`. Example: `30m`.
    #[serde(default = "default_return_after")]
    pub return_after: Duration,

    /// How long machines of a lost location are waited for before they are deleted: hours (h), minutes (m),
    /// seconds (s). Default: `24h`. Example: `4h`.
    #[serde(default = "default_give_up_after")]
    pub give_up_after: Duration,

    /// How many machines there may be above `replicas` because of it, those that are silent included, as a
    /// number or as a share of `replicas`, which is rounded up. Default: `50%`. Example: 2.
    #[serde(default = "default_max_extra")]
    pub max_extra: IntOrPercent,
}

impl Failover {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Failover {
    fn default() -> Self {
        Self {
            mode: FailoverMode::default(),
            after: default_after(),
            return_after: default_return_after(),
            give_up_after: default_give_up_after(),
            max_extra: default_max_extra(),
        }
    }
}

fn default_after() -> Duration {
    Duration::from("25s")
}

fn default_return_after() -> Duration {
    Duration::from("10m")
}

fn default_give_up_after() -> Duration {
    Duration::from("24h")
}

fn default_max_extra() -> IntOrPercent {
    IntOrPercent::from("50%")
}

/// Whether other locations take the share of a lost one.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum FailoverMode {
    /// They do.
    #[default]
    Automatic,
    /// They do not.
    Never,
}

/// A location as it is used, whichever form the pool has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocationRef<'a> {
    /// Its name; none where the pool has `spec.provider`.
    pub name: Option<&'a str>,
    /// Its share; 1 where the pool has `spec.provider`.
    pub weight: u32,
    /// Most machines there.
    pub max: Option<u32>,
    /// What makes its machines.
    pub provider: &'a Provider,
}

impl LocationRef<'_> {
    /// What the status calls it.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.name.unwrap_or(ONLY_LOCATION)
    }
}

/// How a location does.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocationStatus {
    /// Its name; `default` where the pool has `spec.provider`. Example: `north`.
    #[schemars(length(max = 40))]
    pub name: String,

    /// Machines that it is to have: `replicas` divided by the weights. Example: 3.
    #[serde(default)]
    pub desired: i32,

    /// Machines that it has and that are not being deleted. Example: 3.
    #[serde(default)]
    pub machines: i32,

    /// Machines of it whose node is ready. Example: 3.
    #[serde(default)]
    pub ready: i32,

    /// Machines of it whose node is silent, and that are waited for. Example: 2.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub silent: i32,

    /// How it stands: `Healthy`, `Suspect` (nothing new is made there), `Out` (others have its share), `Recovering`
    /// (it is back, and has to stay), `Excluded`. Absent while nothing was ever the matter. Example: `Out`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub state: Option<String>,

    /// Why it stands so. Example: `ProviderOutage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub reason: Option<String>,

    /// Since when it stands so. Example: `2026-11-21T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,

    /// When it came back for good from its last outage. Example: `2026-11-21T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Time>,

    /// Seconds for which it has to be well after relapses. Example: 1200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_after_seconds: Option<i64>,

    /// What a node that is made there offers to pods. Absent where that is not known.
    /// Example: `{"cpu": 2, "memory": "4Gi", …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<NodeTemplate>,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks with a reference"
)]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// A node that has not been made yet, as a scheduler would see it; the autoscaler reads it to grow a pool that
/// is empty.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTemplate {
    /// Processors of the machine, in whole cores. Example: 2.
    pub cpu: i32,

    /// Memory of the machine in bytes, before anything is kept from pods. Example: `4Gi`.
    pub memory: Quantity,

    /// Size of the file system that pods write to, in bytes. Example: `7516192768`.
    pub ephemeral_storage: Quantity,

    /// What its processors are, as the label `kubernetes.io/arch` has it. Example: `amd64`.
    #[schemars(with = "String", extend("enum" = ["amd64", "arm64"]))]
    pub architecture: Architecture,

    /// What its size is called, as the label `node.kubernetes.io/instance-type` has it. Absent where it has no
    /// name. Example: `kubevirt-2cpu-4096Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub instance_type: Option<String>,

    /// Numbers of extended resources, as device plugins call them. Example: `{"nvidia.com/gpu": 2}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, i64>,

    /// Devices of the machine, as the provider calls them. Example: `{"nvidia.com/GP102GL_Tesla_P40": 2}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, i32>,

    /// Labels that the pool gives its nodes. Example: `{"example.com/disk": "fast"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Taints that the pool gives its nodes.
    /// Example: `[{"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}
