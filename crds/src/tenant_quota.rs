//! `TenantQuota`: the most that the tenant clusters and node pools of some users' namespaces may take
//! of the management cluster, together.
//!
//! Invariant: what is not named is not bounded, so a bound that comes later bounds nobody who did not
//! ask for it. Namespaces are named one by one and not by labels: whoever may change the labels of his
//! namespace could leave a quota by it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;

/// The most that tenant clusters and node pools of some namespaces may take together.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "covey.dev",
    version = "v1alpha1",
    kind = "TenantQuota",
    plural = "tenantquotas",
    shortname = "tq",
    category = "covey",
    status = "TenantQuotaStatus",
    derive = "PartialEq",
    doc = "The most that tenant clusters and node pools of some namespaces may take together.",
    validation = Rule::new("has(self.spec.clusters) || has(self.spec.cores) || has(self.spec.memory) || has(self.spec.storage) || has(self.spec.loadBalancers) || has(self.spec.machines)").field_path(".spec").message("a quota that bounds nothing has no effect: set at least one of clusters, cores, memory, storage, loadBalancers and machines"),
    printcolumn(name = "Clusters", type_ = "integer", json_path = ".status.used.clusters"),
    printcolumn(name = "Cores", type_ = "string", json_path = ".status.used.cores"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.used.memory"),
    printcolumn(name = "Machines", type_ = "integer", json_path = ".status.used.machines"),
    printcolumn(name = "Exceeded", type_ = "string", json_path = ".status.conditions[?(@.type=='Exceeded')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Storage", type_ = "string", json_path = ".status.used.storage", priority = 1),
    printcolumn(name = "Load-Balancers", type_ = "integer", json_path = ".status.used.loadBalancers", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Exceeded')].message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct TenantQuotaSpec {
    /// Users' namespaces that are bounded, by name, 1 to 256; what they take is summed up. A namespace
    /// may be in several quotas: then each of them holds. One that does not exist (yet) takes nothing.
    /// Required, no default. Example: `["team-a", "team-a-staging"]`.
    #[schemars(length(min = 1, max = 256), inner(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")), extend("x-kubernetes-list-type" = "set"))]
    pub namespaces: Vec<String>,

    /// Most tenant clusters; paused ones, and those that are being deleted, count. Default: not
    /// bounded. Example: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub clusters: Option<i64>,

    /// Most cores: what the pods of control planes and addons request, and the processors of machines.
    /// Default: not bounded. Example: 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Quantity>,

    /// Most memory in bytes: limits (else requests) of the pods of control planes and addons, and the
    /// memory of machines. Default: not bounded. Example: `256Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,

    /// Most storage in bytes: the volumes of etcd. Default: not bounded. Example: `100Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Quantity>,

    /// Most tenant clusters whose API is published through a load balancer. Default: not bounded.
    /// Example: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub load_balancers: Option<i64>,

    /// Most machines: `replicas` of node pools, or `autoscaling.max` where it is more. What a rollout
    /// has above that for a while (`rollout.maxSurge`) does not count. Default: not bounded.
    /// Example: 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub machines: Option<i64>,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantQuotaStatus {
    /// Generation of the spec that this status speaks of. Absent until the first look. Example: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// What the namespaces take together: what was let in, whether bounded or not.
    /// Example: `{"clusters": 2, "cores": "4140m", …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,

    /// `Exceeded`: more is taken than is allowed, because the quota was laid or lowered afterwards.
    /// Nothing is stopped by that, and nothing grows.
    /// Example: `[{"type": "Exceeded", "status": "False", …}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// What the namespaces of a quota take together.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// Tenant clusters. Example: 2.
    pub clusters: i64,
    /// Cores. Example: `4140m`.
    pub cores: Quantity,
    /// Bytes of memory. Example: `10Gi`.
    pub memory: Quantity,
    /// Bytes of storage. Example: `4Gi`.
    pub storage: Quantity,
    /// Load balancers. Example: 1.
    pub load_balancers: i64,
    /// Machines. Example: 3.
    pub machines: i64,
}
