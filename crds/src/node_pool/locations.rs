//! `spec.locations` and `spec.placement`: where the machines of a node pool are made.
//!
//! Invariant: a pool with `spec.provider` is one with a single location, so that whoever reads pools needs
//! to know one form only (`NodePoolSpec::places`); what defines a machine is below `provider`, and weight,
//! most and placement replace nobody.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::autoscaling::Architecture;
use super::provider::Provider;
use crate::quantity::Quantity;
use crate::taints::Taint;

/// What the only location of a pool with `spec.provider` is called in its status.
pub const ONLY_LOCATION: &str = "default";

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

    /// What a node that is made there offers to pods. Absent where that is not known.
    /// Example: `{"cpu": 2, "memory": "4Gi", …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<NodeTemplate>,
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
