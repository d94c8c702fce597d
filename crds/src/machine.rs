//! `Machine`: one worker of a node pool. Made, changed and deleted by the operator; people read it,
//! annotate it, and may delete it to have the worker replaced.
//!
//! Invariant: a Machine, its virtual machine and its node have one name; what it was made from
//! never changes. The status half is in [`status`].

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema, ResourceExt as _};
use serde::{Deserialize, Serialize};

use crate::duration::Duration;
use crate::names;
use crate::node_pool::kubelet::Kubelet;
use crate::node_pool::provider::Provider;
use crate::taints::Taint;

mod status;
pub use status::{
    KubeletRenewal, KubeletRenewalPhase, MachineAddress, MachinePhase, MachineRequest,
    MachineStatus, OverlayMember, Restarts,
};

/// One worker of a node pool.
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "covey.dev",
    version = "v1alpha1",
    kind = "Machine",
    plural = "machines",
    category = "covey",
    namespaced,
    status = "MachineStatus",
    derive = "PartialEq",
    doc = "One worker of a node pool. The operator makes it; delete it to have the worker replaced.",
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$')").message("the name must be a DNS label of at most 52 characters that starts with a letter, because the node has the same name; create a NodePool instead, it names its Machines"),
    validation = Rule::new("self.spec.clusterName == oldSelf.spec.clusterName && self.spec.clusterUID == oldSelf.spec.clusterUID && self.spec.poolName == oldSelf.spec.poolName").message("clusterName, clusterUID and poolName of a Machine cannot change; delete the Machine to have it replaced"),
    validation = Rule::new("has(self.spec.tenantNamespace) == has(oldSelf.spec.tenantNamespace) && (!has(self.spec.tenantNamespace) || self.spec.tenantNamespace == oldSelf.spec.tenantNamespace)").message("tenantNamespace of a Machine cannot change; delete the Machine to have it replaced"),
    validation = Rule::new("self.spec.version == oldSelf.spec.version && self.spec.provider == oldSelf.spec.provider").message("version and provider of a Machine cannot change; change the NodePool, which replaces its Machines"),
    validation = Rule::new("has(self.spec.kubelet) == has(oldSelf.spec.kubelet) && (!has(self.spec.kubelet) || self.spec.kubelet == oldSelf.spec.kubelet)").message("kubelet of a Machine cannot change; change the NodePool, which replaces its Machines"),
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.request) || (has(self.status) && has(self.status.request) && self.status.request.image == oldSelf.status.request.image && has(self.status.request.type) == has(oldSelf.status.request.type) && (!has(self.status.request.type) || self.status.request.type == oldSelf.status.request.type) && has(self.status.request.kernelBoot) == has(oldSelf.status.request.kernelBoot) && (!has(self.status.request.kernelBoot) || self.status.request.kernelBoot == oldSelf.status.request.kernelBoot) && has(self.status.request.account) == has(oldSelf.status.request.account) && (!has(self.status.request.account) || self.status.request.account == oldSelf.status.request.account))").message("status.request of a Machine cannot change: whatever is asked again must be the same; delete the Machine to have it replaced"),
    validation = Rule::new("has(self.spec.location) == has(oldSelf.spec.location) && (!has(self.spec.location) || self.spec.location == oldSelf.spec.location)").message("location of a Machine cannot change; change the weights of the NodePool, or delete the Machine to have it made where they say"),
    printcolumn(name = "Pool", type_ = "string", json_path = ".spec.poolName"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Address", type_ = "string", json_path = ".status.addresses[?(@.type=='InternalIP')].address"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName", priority = 1),
    printcolumn(name = "Location", type_ = "string", json_path = ".spec.location", priority = 1),
    printcolumn(name = "Provider-ID", type_ = "string", json_path = ".status.providerID", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// Name of the TenantCluster that the node belongs to. Cannot change. Required, no default.
    /// Example: `demo`.
    #[schemars(length(min = 1, max = 46))]
    pub cluster_name: String,

    /// UID that all parts of the TenantCluster bear (its own, or that in `status.identity`): one of the same name that
    /// is made anew is another one. Cannot change. Required, no default.
    /// Example: `0a1b2c3d-1111-4222-8333-444455556666`.
    #[serde(rename = "clusterUID")]
    #[schemars(length(min = 1, max = 64))]
    pub cluster_uid: String,

    /// The tenant namespace, where its name is not made of `clusterName` and `clusterUID`. Cannot change. Default:
    /// `covey-<clusterName>-<first ten characters of clusterUID>`. Example: `covey-standby-4f7ks-0a1b2c3d11`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub tenant_namespace: Option<String>,

    /// Name of the NodePool that made the machine. Cannot change. Required, no default.
    /// Example: `workers`.
    #[schemars(length(min = 1, max = 46))]
    pub pool_name: String,

    /// Name of the pool's location that the machine is in. Cannot change. Default: none, the pool had
    /// `spec.provider`. Example: `north`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 40))]
    pub location: Option<String>,

    /// Kubernetes version of the node. Cannot change. Required, no default. Example: `1.35.4`.
    #[schemars(length(max = 32), regex(pattern = r"^[0-9]+\.[0-9]+\.[0-9]+$"))]
    pub version: String,

    /// Who made the machine, and of what size, as the node pool said; what it leaves out is the
    /// provider's default of the day when the machine was made. Cannot change. Required, no default.
    /// Example: `{"kubevirt": {"cpu": 2, "memory": "4Gi"}}`.
    pub provider: Provider,

    /// Settings of the kubelet, as the node pool said. Cannot change. Default: none beyond Covey's own.
    /// Example: `{"maxPods": 200}`.
    #[serde(default, skip_serializing_if = "Kubelet::is_default")]
    pub kubelet: Kubelet,

    /// Labels that the node has when it joins. Default: none.
    /// Example: `{"example.com/disk": "fast"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,

    /// Taints that the node has when it joins. Default: none.
    /// Example: `[{"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
    pub taints: Vec<Taint>,

    /// Public SSH keys that may log in. Default: none. Example: `["ssh-ed25519 AAAAC3Nz…"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 4096)), extend("x-kubernetes-list-type" = "set"))]
    pub ssh_authorized_keys: Vec<String>,

    /// How long pods get to leave the node before the machine is deleted all the same; follows the
    /// node pool's. Default: `5m`. Example: `15m`.
    #[serde(default = "default_drain_timeout")]
    pub drain_timeout: Duration,
}

fn default_drain_timeout() -> Duration {
    Duration::from("5m")
}

impl Machine {
    /// The Host whose node it takes over as that runs, by UID, and the fingerprint of an authority that the node's
    /// kubelet has to believe; none of one whose machine is to become a node.
    #[must_use]
    pub fn adopts(&self) -> Option<(&str, &str)> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(names::ANNOTATION_ADOPTS)?.split_once('/')
    }

    /// The namespace of the management cluster that holds all parts of its tenant cluster.
    #[must_use]
    pub fn tenant_namespace(&self) -> String {
        let spec = &self.spec;
        let told = spec.tenant_namespace.clone();
        told.unwrap_or_else(|| names::tenant_namespace(&spec.cluster_name, &spec.cluster_uid))
    }

    /// Labels of everything in the tenant namespace that belongs to this machine.
    #[must_use]
    pub fn labels_of_parts(&self) -> BTreeMap<String, String> {
        let spec = &self.spec;
        let labels = [
            (names::LABEL_MANAGED_BY, names::MANAGED_BY.to_owned()),
            (names::LABEL_TENANT_UID, spec.cluster_uid.clone()),
            (names::LABEL_TENANT_NAME, spec.cluster_name.clone()),
            (
                names::LABEL_TENANT_NAMESPACE,
                self.namespace().unwrap_or_default(),
            ),
            (names::LABEL_NODE_POOL, spec.pool_name.clone()),
            (names::LABEL_MACHINE, self.name_any()),
            (names::LABEL_MACHINE_UID, self.uid().unwrap_or_default()),
        ];
        labels.map(|(key, value)| (key.to_owned(), value)).into()
    }
}
