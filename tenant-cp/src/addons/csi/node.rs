//! The CSI driver inside the tenant cluster: its node half on every node, a StorageClass for each
//! class of storage that is offered, what the sidecars outside may do, and the kinds of snapshots.
//!
//! Invariant: nothing here that cannot be changed in place ever changes, so StorageClasses are never
//! made anew under the volumes that name them; the node half has an account only to read where it
//! is, and only where volumes are out of reach of some nodes.

use std::sync::LazyLock;

use api::storage::Offer;
use serde_json::{Value, json};

use crate::addons::csi::names::DRIVER;
use crate::addons::csi::rules::rules_on_nodes;
use crate::addons::csi::sidecars;
use crate::addons::manifest::{
    Inputs, NodePods, account, cluster_role, cluster_role_binding, daemon_set, service_account,
};

pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const NAME: &str = "csi-node";
/// ClusterRole and ClusterRoleBinding of the node half.
const ROLE: &str = "covey:csi-node";
const KUBELET: &str = "/var/lib/kubelet";
/// Port for probes, on loopback: the pods have the node's network.
const ADMIN_PORT: u16 = 9809;
/// The one VolumeSnapshotClass: which class of storage is meant follows from the volume.
const SNAPSHOT_CLASS: &str = "covey";
const SNAPSHOT_API: &str = "snapshot.storage.k8s.io/v1";

/// VolumeSnapshotClass, VolumeSnapshotContent and VolumeSnapshot, as the stock snapshotter defines
/// them (external-snapshotter 8.7), without descriptions.
static KINDS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let kinds: Value = serde_json::from_str(include_str!("snapshots.json")).unwrap_or_default();
    kinds.as_array().cloned().unwrap_or_default()
});

pub(crate) fn manifests(inputs: &Inputs<'_>) -> Vec<Value> {
    let Some(offer) = &inputs.v.storage else {
        return Vec::new();
    };
    let mut all = vec![
        driver(inputs.v.autoscaler.is_none()),
        service_account(NAMESPACE, NAME),
        node(inputs, offer),
    ];
    if offer.has_zones() {
        all.push(cluster_role(ROLE, &json!(rules_on_nodes())));
        all.push(cluster_role_binding(ROLE, ROLE, &account(NAMESPACE, NAME)));
    }
    all.extend(offer.classes.iter().map(storage_class));
    if offer.has_snapshots() {
        all.extend(KINDS.iter().cloned());
        all.push(snapshot_class());
    }
    all.extend(
        sidecars::tenant_objects(offer)
            .into_iter()
            .map(|object| object.value),
    );
    all
}

/// What may ever have to be written, by kind and name alone: definitions of kinds are long.
pub(crate) fn names(inputs: &Inputs<'_>) -> Vec<Value> {
    let name = |value: &Value| {
        json!({
            "apiVersion": value["apiVersion"], "kind": value["kind"],
            "metadata": { "name": value["metadata"]["name"] },
        })
    };
    let offered = &inputs.settings.storage;
    let mut all = vec![
        driver(true),
        service_account(NAMESPACE, NAME),
        node(inputs, &Offer::default()),
        snapshot_class(),
    ];
    all.extend(offered.classes.iter().map(storage_class));
    all.extend(KINDS.iter().map(name));
    all
}

/// With `capacity` the scheduler asks of classes whose volumes wait for their first pod how much there
/// is; where the provisioner has published nothing, it takes that for nothing. So does the Cluster
/// Autoscaler for a node that would be the first of its zone, where nothing can have been published
/// (kubernetes/autoscaler#5093), and then makes none.
fn driver(capacity: bool) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": { "name": DRIVER },
        "spec": {
            "attachRequired": true,
            "fsGroupPolicy": "File",
            "podInfoOnMount": false,
            "storageCapacity": capacity,
            "volumeLifecycleModes": ["Persistent"],
        },
    })
}

fn storage_class(class: &api::storage::Class) -> Value {
    let zones = json!([{ "matchLabelExpressions": [
        { "key": api::names::LABEL_ZONE, "values": class.zones },
    ] }]);
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {
            "name": class.name,
            "annotations": {
                "storageclass.kubernetes.io/is-default-class": class.default.to_string(),
            },
        },
        "provisioner": DRIVER,
        "parameters": { "class": class.name },
        "allowVolumeExpansion": class.expandable,
        "reclaimPolicy": "Delete",
        // A volume can be attached in each of its class's zones, so it need not wait for its pod, and
        // the scheduler knows them from the start. The list is there, if empty, so that zones go.
        "volumeBindingMode": "Immediate",
        "allowedTopologies": if class.zones.is_empty() { json!([]) } else { zones },
    })
}

fn snapshot_class() -> Value {
    json!({
        "apiVersion": SNAPSHOT_API, "kind": "VolumeSnapshotClass",
        "metadata": {
            "name": SNAPSHOT_CLASS,
            "annotations": { "snapshot.storage.kubernetes.io/is-default-class": "true" },
        },
        "driver": DRIVER,
        "deletionPolicy": "Delete",
    })
}

fn node(inputs: &Inputs<'_>, offer: &Offer) -> Value {
    let host = |name: &str, path: &str, type_: &str| json!({ "name": name, "hostPath": { "path": path, "type": type_ } });
    let pods = NodePods {
        namespace: NAMESPACE,
        name: NAME,
        label: ("k8s-app", NAME),
        annotations: json!({}),
        spec: json!({
            "automountServiceAccountToken": offer.has_zones(),
            "containers": [container(inputs, offer)],
            "serviceAccountName": NAME,
            "volumes": [
                host("devices", "/dev", "Directory"),
                host("kubelet", KUBELET, "Directory"),
            ],
        }),
    };
    daemon_set(&pods)
}

fn container(inputs: &Inputs<'_>, offer: &Offer) -> Value {
    let images = &inputs.settings.images;
    let mut args = vec![
        "node".to_owned(),
        format!("--admin-address=127.0.0.1:{ADMIN_PORT}"),
    ];
    let mut variables = vec![json!({
        "name": "NODE_NAME",
        "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } },
    })];
    if offer.has_zones() {
        args.push("--topology".to_owned());
        let api = inputs.api_variables();
        variables.extend(api.as_array().into_iter().flatten().cloned());
    }
    if let Some(most) = offer.volumes_per_machine {
        args.push(format!("--most-volumes={most}"));
    }
    let probe = |path: &str, period: i32, failures: i32| {
        json!({
            "httpGet": { "host": "127.0.0.1", "path": path, "port": ADMIN_PORT, "scheme": "HTTP" },
            "periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": 5,
        })
    };
    json!({
        "name": NAME,
        "image": inputs.own_image(&images.csi_registry, &images.csi),
        "args": args,
        "env": variables,
        // Ready once the kubelet has registered it.
        "readinessProbe": probe("/readyz", 5, 3),
        "livenessProbe": probe("/livez", 20, 6),
        "resources": { "requests": { "cpu": "5m", "memory": "16Mi" } },
        // It mounts, and what it mounts is to be seen by the kubelet and by pods.
        "securityContext": { "privileged": true },
        "volumeMounts": [
            { "name": "devices", "mountPath": "/dev" },
            { "name": "kubelet", "mountPath": KUBELET, "mountPropagation": "Bidirectional" },
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_snapshots_are_there_whole_and_without_descriptions() {
        let names: Vec<_> = KINDS
            .iter()
            .map(|kind| &kind["spec"]["names"]["plural"])
            .collect();
        assert_eq!(
            names,
            [
                "volumesnapshotclasses",
                "volumesnapshotcontents",
                "volumesnapshots"
            ]
        );
        for kind in KINDS.iter() {
            assert_eq!(kind["kind"], "CustomResourceDefinition");
            // kubernetes.io groups of CRDs have to say who approved them (KEP-1111).
            let approval = &kind["metadata"]["annotations"]["api-approved.kubernetes.io"];
            assert!(approval.is_string(), "{approval}");
            let versions = kind["spec"]["versions"].as_array().unwrap();
            assert!(!versions.is_empty());
            for version in versions {
                assert!(!version["schema"].to_string().contains("\"description\":\""));
            }
        }
    }
}
