//! Addons: what Covey installs inside the tenant cluster for its nodes and pods.
//!
//! They are written as manifests, because that is what their authors publish and what an
//! administrator of the tenant cluster will compare them with. Every object has the label
//! `covey.dev/addon`, by which those of an addon that was switched off are found again.
//! Invariant: an addon that runs on every node needs neither the pod network nor kube-proxy to reach
//! the API, so nodes get ready without waiting for back-offs; nothing here names the management
//! cluster but by the addresses that nodes reach it at.

mod core_dns;
mod csi;
mod flannel;
mod konnectivity;
mod kube_proxy;

use std::net::IpAddr;

use api::tenant_cluster::EndpointStatus;
use serde_json::{Value, json};

use crate::{Addresses, Object, Settings, Validated, object::Key};

/// An addon.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Addon {
    /// DNS for pods.
    CoreDns,
    /// Services for pods.
    KubeProxy,
    /// The network between pods.
    Flannel,
    /// The way from the API server to nodes and pods.
    Konnectivity,
    /// Load balancers and node lifecycle: only rights are inside.
    CloudController,
    /// Volumes.
    Csi,
    /// Node pools that grow and shrink: rights are inside, and what the two programs write there.
    Autoscaler,
}

impl Addon {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::CoreDns,
        Self::KubeProxy,
        Self::Flannel,
        Self::Konnectivity,
        Self::CloudController,
        Self::Csi,
        Self::Autoscaler,
    ];

    /// Value of the label `covey.dev/addon`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CoreDns => "coredns",
            Self::KubeProxy => "kube-proxy",
            Self::Flannel => "flannel",
            Self::Konnectivity => "konnectivity",
            Self::CloudController => "cloud-controller",
            Self::Csi => "csi",
            Self::Autoscaler => "autoscaler",
        }
    }

    /// Whether the tenant cluster wants it.
    #[must_use]
    pub fn is_wanted(self, v: &Validated) -> bool {
        match self {
            Self::CoreDns => v.addons.core_dns,
            Self::KubeProxy => v.addons.kube_proxy,
            Self::Flannel => v.addons.flannel,
            Self::Konnectivity => v.addons.konnectivity,
            Self::CloudController => v.addons.cloud_controller,
            Self::Csi => v.storage.is_some(),
            Self::Autoscaler => v.autoscaler.is_some(),
        }
    }

    /// The one object inside the tenant cluster whose pods say whether it works: a Deployment or a
    /// DaemonSet. None where its pods are not inside.
    #[must_use]
    pub fn workload(self) -> Option<Key> {
        let key = match self {
            Self::CoreDns => Key::new("Deployment", "kube-system", "coredns"),
            Self::KubeProxy => Key::new("DaemonSet", "kube-system", "kube-proxy"),
            Self::Flannel => Key::new("DaemonSet", flannel::NAMESPACE, "kube-flannel-ds"),
            Self::Konnectivity => Key::new("DaemonSet", "kube-system", "konnectivity-agent"),
            Self::Csi => Key::new("DaemonSet", csi::NAMESPACE, csi::NAME),
            Self::Autoscaler | Self::CloudController => return None,
        };
        Some(key)
    }
}

/// What addons need to know.
struct Inside<'a> {
    v: &'a Validated,
    settings: &'a Settings,
    /// Where nodes reach the API.
    endpoint: &'a EndpointStatus,
    /// Where nodes reach konnectivity's servers, and whom they believe there.
    konnectivity: Option<(IpAddr, &'a str)>,
}

/// The objects of the addons that are wanted; none while there is no endpoint.
pub(super) fn objects(
    v: &Validated,
    settings: &Settings,
    addresses: &Addresses,
    konnectivity_ca: Option<&str>,
) -> Vec<Object> {
    let Some(endpoint) = &addresses.endpoint else {
        return Vec::new();
    };
    let konnectivity = addresses.konnectivity_ip.zip(konnectivity_ca);
    let inside = Inside {
        v,
        settings,
        endpoint,
        konnectivity,
    };
    let wanted = Addon::ALL.into_iter().filter(|addon| addon.is_wanted(v));
    wanted.flat_map(|addon| built(addon, &inside)).collect()
}

/// The objects of every addon, wanted or not, whatever is known: what may ever have to be written.
pub(super) fn every(v: &Validated, settings: &Settings) -> Vec<Object> {
    let endpoint = EndpointStatus::default();
    let nowhere = IpAddr::from([0, 0, 0, 0]);
    let inside = Inside {
        v,
        settings,
        endpoint: &endpoint,
        konnectivity: Some((nowhere, "")),
    };
    let objects = |addon| match addon {
        Addon::Csi => all_labelled(addon, csi::names(&inside)),
        _ => built(addon, &inside),
    };
    Addon::ALL.into_iter().flat_map(objects).collect()
}

fn built(addon: Addon, inside: &Inside<'_>) -> Vec<Object> {
    let manifests = match addon {
        Addon::CoreDns => core_dns::manifests(inside),
        Addon::KubeProxy => kube_proxy::manifests(inside),
        Addon::Flannel => flannel::manifests(inside),
        Addon::Konnectivity => konnectivity::manifests(inside),
        Addon::CloudController => {
            let objects = super::cloud_controller::inside().into_iter();
            objects.map(|object| object.value).collect()
        }
        Addon::Csi => csi::manifests(inside),
        Addon::Autoscaler => {
            let objects = super::autoscaler::inside().into_iter();
            objects.map(|object| object.value).collect()
        }
    };
    all_labelled(addon, manifests)
}

fn all_labelled(addon: Addon, manifests: Vec<Value>) -> Vec<Object> {
    manifests
        .into_iter()
        .map(|manifest| labelled(addon, manifest))
        .collect()
}

fn labelled(addon: Addon, mut manifest: Value) -> Object {
    let labels = &mut manifest["metadata"]["labels"];
    labels[api::names::LABEL_MANAGED_BY] = json!(api::names::MANAGED_BY);
    labels[api::names::LABEL_ADDON] = json!(addon.name());
    Object::from_value(manifest)
}

impl Inside<'_> {
    /// Variables by which a client inside a pod finds the API: the endpoint, instead of the Service
    /// `kubernetes`, which works only once kube-proxy does.
    fn api_variables(&self) -> Value {
        json!([
            { "name": "KUBERNETES_SERVICE_HOST", "value": self.endpoint.host },
            { "name": "KUBERNETES_SERVICE_PORT", "value": self.endpoint.port.to_string() },
        ])
    }

    fn image(&self, path: &str) -> String {
        format!("{}/{path}", self.v.registry)
    }

    /// An image that Kubernetes' registry does not have.
    fn other_image(&self, registry: &str, path: &str) -> String {
        super::pod::other_image(self.v, registry, path)
    }
}

fn service_account(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": namespace },
    })
}

fn config_map(namespace: &str, name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": namespace },
        "data": data,
    })
}

const RBAC: &str = "rbac.authorization.k8s.io";

fn cluster_role(name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": rules,
    })
}

fn cluster_role_binding(name: &str, role: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
        "metadata": { "name": name },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": role },
        "subjects": [subject],
    })
}

fn account(namespace: &str, name: &str) -> Value {
    json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name })
}

/// Annotation of a pod template: changes when a file changes that its program reads only at the
/// start, so that the pods are replaced.
fn files_annotation(files: &Value) -> Value {
    json!({ "covey.dev/files-hash": crate::object::hash(files) })
}

/// One pod per node, whatever the node's state: the node is not ready before some of these run.
struct NodePods<'a> {
    namespace: &'a str,
    name: &'a str,
    /// Label by which the pods are selected. It can never change.
    label: (&'a str, &'a str),
    annotations: Value,
    /// Merged into the pod's spec.
    spec: Value,
}

fn daemon_set(pods: &NodePods<'_>) -> Value {
    let labels = json!({ pods.label.0: pods.label.1 });
    let mut spec = json!({
        "dnsPolicy": "Default",
        "enableServiceLinks": false,
        "hostNetwork": true,
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "priorityClassName": "system-node-critical",
        "tolerations": [{ "operator": "Exists" }],
    });
    for (key, value) in pods.spec.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": pods.name, "namespace": pods.namespace, "labels": labels },
        "spec": {
            "revisionHistoryLimit": 2,
            "selector": { "matchLabels": labels },
            "updateStrategy": {
                "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "10%" },
            },
            "template": {
                "metadata": { "labels": labels, "annotations": pods.annotations },
                "spec": spec,
            },
        },
    })
}

/// What a container that needs nothing of the machine may do.
fn harmless() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "readOnlyRootFilesystem": true,
    })
}
