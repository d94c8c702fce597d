//! `NodePool`: a number of equal workers of one tenant cluster.
//!
//! Invariant: every field has a doc comment with unit, default and example; what may not change
//! after creation says so by a CEL rule. The status half is in [`status`], what a provider needs in
//! [`provider`].

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;
use crate::int_or_percent::{IntOrPercent, Round};
pub use crate::taints::{Taint, TaintEffect};

mod autoscaling;
mod aws;
mod azure;
mod gcp;
mod hetzner;
mod hosts;
pub(crate) mod kubelet;
pub mod locations;
mod market;
pub(crate) mod provider;
mod status;
pub use autoscaling::{Architecture, Autoscaling, Refused};
pub use aws::Aws;
pub use azure::Azure;
pub use gcp::Gcp;
pub use hetzner::Hetzner;
pub use hosts::{HostSelector, Static};
pub use kubelet::Kubelet;
use locations::LocationRef;
pub use locations::{
    Failover, FailoverMode, Location, LocationStatus, NodeTemplate, Placement, Rebalance,
};
pub use market::Market;
pub use provider::{
    CloudMachines, Disk, HostDevice, HugePages, KernelBoot, KubeVirt, MachineNetwork, Provider,
    ProviderKind,
};
pub use status::NodePoolStatus;

/// Workers of one tenant cluster that are made from one template.
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "covey.dev",
    version = "v1alpha1",
    kind = "NodePool",
    plural = "nodepools",
    shortname = "np",
    category = "covey",
    namespaced,
    status = "NodePoolStatus",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    derive = "PartialEq",
    doc = "Workers of one tenant cluster that are made from one template.",
    validation = Rule::new("self.metadata.name.size() <= 46").message("the name may have at most 46 characters, because nodes are called <name>-<5 characters> and certificates hold system:node:<node> in at most 64; choose a shorter one"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')").message("the name must be a DNS label that starts with a letter (lower-case letters, digits and -, no dots), because it becomes part of the names of nodes"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Updated", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Machines", type_ = "integer", json_path = ".status.replicas", priority = 1),
    printcolumn(name = "Locations", type_ = "string", json_path = ".status.spread", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", priority = 1)
)]
// Of the spec, and not of the object: what is stored may lack both forms (a definition of before `locations` takes them
// off), and its status is written and its finalizer taken off all the same, because the spec does not change then
// (`CRDValidationRatcheting`).
#[x_kube(
    validation = Rule::new("has(self.provider) != has(self.locations)").message("set exactly one of provider and locations: provider is the short form of one location"),
    validation = Rule::new("!has(self.locations) || self.locations.exists(l, l.weight > 0)").message("the weight of every location is 0, so no machine could be made anywhere; give one of them 1 or more")
)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolSpec {
    /// Name of the TenantCluster, in the same namespace, that the nodes belong to. It may be
    /// created after the node pool. Cannot change. Required, no default. Example: `demo`.
    #[schemars(length(min = 1, max = 46))]
    #[x_kube(
        validation = Rule::new("self == oldSelf").message("clusterName cannot change: a machine belongs to the tenant cluster that it joined; create a new node pool")
    )]
    pub cluster_name: String,

    /// Number of machines, 0 to 1000. Default: 1. Example: 3.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,

    /// Lets the autoscaler set `replicas`, within bounds; nobody else can then, and the condition
    /// `Autoscaling` says so. The addon `autoscaler` of the tenant cluster has to be on.
    /// Default: none, `replicas` is yours. Example: `{"min": 0, "max": 5}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,

    /// Kubernetes version of the nodes: never newer than the control plane, and at most three
    /// minors older. A change replaces the machines as `rollout` says. Default: the version that
    /// the tenant cluster's control plane runs. Example: `1.35.4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^v?[0-9]+\.[0-9]+\.[0-9]+$"))]
    pub version: Option<String>,

    /// Who makes the machines, and of what size: exactly one. A change replaces the machines as
    /// `rollout` says. The short form of one location. Default: none, then `locations` says it.
    /// Example: `{"kubevirt": {"cpu": 2, "memory": "4Gi"}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,

    /// Where the machines are made, 1 to 16 places; `replicas` are divided among them by their weights.
    /// Whoever changes from `provider` to `locations` keeps the machines of a location with that same
    /// provider. Default: none, then `provider` says it.
    /// Example: `[{"name": "north", "weight": 2, "provider": {"kubevirt": {}}}, {"name": "south", "provider": {"kubevirt": {}}}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub locations: Vec<Location>,

    /// How the machines are spread over `locations`. Replaces no machine by itself. Default: new machines
    /// follow the weights, and none is moved. Example: `{"rebalance": "Gradual"}`.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,

    /// Settings of the kubelets. A change replaces the machines as `rollout` says. Default: none beyond
    /// Covey's own. Example: `{"maxPods": 200, "systemReserved": {"memory": "200Mi"}}`.
    #[serde(default, skip_serializing_if = "Kubelet::is_default")]
    pub kubelet: Kubelet,

    /// Labels that a node has when it joins, at most 64; those of `kubernetes.io` that a kubelet
    /// may not set are refused. A change holds for machines made afterwards. Default: none.
    /// Example: `{"example.com/disk": "fast"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,

    /// Taints that a node has when it joins, at most 32. A change holds for machines made
    /// afterwards. Default: none.
    /// Example: `[{"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
    pub taints: Vec<Taint>,

    /// Public SSH keys, as in `authorized_keys`, that may log in to the machines, at most 16. A
    /// change holds for machines made afterwards. Default: none, nobody can log in.
    /// Example: `["ssh-ed25519 AAAAC3Nz… jane@example.com"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 4096)), extend("x-kubernetes-list-type" = "set"))]
    pub ssh_authorized_keys: Vec<String>,

    /// How machines are replaced when the template or the version changes. Default: one machine
    /// more, none less. Example: `{"maxSurge": "25%", "maxUnavailable": 1}`.
    #[serde(default)]
    pub rollout: Rollout,

    /// How long pods get to leave a node before its machine is deleted all the same: hours (h),
    /// minutes (m), seconds (s). Disruption budgets are honoured until then; `0s` does not wait.
    /// Default: `5m`. Example: `15m`.
    #[serde(default = "default_drain_timeout")]
    pub drain_timeout: Duration,

    /// When a machine counts as lost and is replaced. Default: ten minutes to join, ten minutes
    /// not ready, at most 40% of the pool at a time. Example: `{"joinTimeout": "20m"}`.
    #[serde(default)]
    pub health: Health,
}

impl NodePoolSpec {
    /// All locations, in the order of the spec; none where the pool names no provider, which a rule keeps out.
    #[must_use]
    pub fn places(&self) -> Vec<LocationRef<'_>> {
        let number = |n: i32| u32::try_from(n).unwrap_or_default();
        let only = self.provider.iter().map(|provider| LocationRef {
            name: None,
            weight: 1,
            max: None,
            provider,
        });
        let many = self.locations.iter().map(|location| LocationRef {
            name: Some(&location.name),
            weight: number(location.weight),
            max: location.max.map(number),
            provider: &location.provider,
        });
        // Both are refused; who has both all the same has what it had.
        match self.provider {
            Some(_) => only.collect(),
            None => many.collect(),
        }
    }

    /// Whether it is judged which locations are lost: there are others that could take their share.
    #[must_use]
    pub fn has_failover(&self) -> bool {
        let automatic = self.placement.failover.mode == FailoverMode::Automatic;
        automatic && self.provider.is_none() && self.locations.len() > 1
    }

    /// Every provider that is named, with the path of its field, such as `spec.locations[north].provider`: by name, so
    /// that what was let in is not taken for another mistake once the list has another order.
    #[must_use]
    pub fn providers(&self) -> Vec<(String, &Provider)> {
        let only = self.provider.iter();
        let only = only.map(|provider| ("spec.provider".to_owned(), provider));
        let path = |name: &str| format!("spec.locations[{name}].provider");
        let many = self.locations.iter();
        let many = many.map(|at| (path(&at.name), &at.provider));
        only.chain(many).collect()
    }
}

fn default_replicas() -> i32 {
    1
}

fn default_drain_timeout() -> Duration {
    Duration::from("5m")
}

/// How machines are replaced.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!((self.maxSurge == 0 || self.maxSurge == '0%') && (self.maxUnavailable == 0 || self.maxUnavailable == '0%'))").message("rollout.maxSurge and rollout.maxUnavailable cannot both be 0: no machine could ever be replaced; set one of them to 1 or more")
)]
pub struct Rollout {
    /// How many machines there may be above `replicas`, as a number or as a share of it, which is
    /// rounded up. One that a rollout takes away counts until it is gone, but no longer than
    /// `drainTimeout` and `health.notReadyTimeout` together. Default: 1. Example: `25%`.
    #[serde(default = "default_max_surge")]
    pub max_surge: IntOrPercent,

    /// How many machines may be missing or not ready, as a number or as a share of `replicas`,
    /// which is rounded down. Default: 0. Example: 1.
    #[serde(default = "default_max_unavailable")]
    pub max_unavailable: IntOrPercent,
}

impl Rollout {
    /// Surge and unavailable as numbers of machines. At least one of them is 1 or more, so that a
    /// rollout always gets on (Kubernetes `pkg/controller/deployment/util`, `ResolveFenceposts`).
    #[must_use]
    pub fn resolve(&self, replicas: i32) -> (i32, i32) {
        let surge = self.max_surge.of(replicas, Round::Up).unwrap_or(1);
        let unavailable = self.max_unavailable.of(replicas, Round::Down).unwrap_or(0);
        match (surge, unavailable) {
            (0, 0) => (0, 1),
            numbers => numbers,
        }
    }
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            max_surge: default_max_surge(),
            max_unavailable: default_max_unavailable(),
        }
    }
}

fn default_max_surge() -> IntOrPercent {
    IntOrPercent::from(1)
}

fn default_max_unavailable() -> IntOrPercent {
    IntOrPercent::from(0)
}

/// When a machine counts as lost.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// How long a machine gets from its creation until its node is ready: hours (h), minutes (m),
    /// seconds (s). Default: `10m`. Example: `20m`.
    #[serde(default = "default_join_timeout")]
    pub join_timeout: Duration,

    /// How long a node that was ready may be not ready before its machine is replaced: hours (h),
    /// minutes (m), seconds (s). Default: `10m`. Example: `5m`.
    #[serde(default = "default_not_ready_timeout")]
    pub not_ready_timeout: Duration,

    /// How many machines of the pool may be replaced for their health at a time, as a number or as
    /// a share of `replicas`, which is rounded up; 0 replaces none. When all nodes of the pool
    /// went silent together, none is replaced. Default: `40%`. Example: 1.
    #[serde(default = "default_max_replaced")]
    pub max_replaced: IntOrPercent,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            join_timeout: default_join_timeout(),
            not_ready_timeout: default_not_ready_timeout(),
            max_replaced: default_max_replaced(),
        }
    }
}

fn default_join_timeout() -> Duration {
    Duration::from("10m")
}

fn default_not_ready_timeout() -> Duration {
    Duration::from("10m")
}

fn default_max_replaced() -> IntOrPercent {
    IntOrPercent::from("40%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_always_gets_on() {
        let resolve = |surge: &str, unavailable: &str, replicas| {
            let (max_surge, max_unavailable) = (surge.into(), unavailable.into());
            let rollout = Rollout {
                max_surge,
                max_unavailable,
            };
            rollout.resolve(replicas)
        };
        assert_eq!(Rollout::default().resolve(3), (1, 0));
        assert_eq!(resolve("25%", "25%", 10), (3, 2));
        assert_eq!(resolve("0%", "25%", 3), (0, 1));
        assert_eq!(resolve("0%", "0%", 3), (0, 1));
        assert_eq!(resolve("10%", "10%", 0), (0, 1));
    }
}
