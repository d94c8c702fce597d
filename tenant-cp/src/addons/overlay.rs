//! The overlay among nodes: `link-node` on each of them, with the account and the policies that it needs.
//!
//! Who its members are is no manifest: the operator knows.
//! Invariant: what it may write is bounded by admission policies, which are there before its rights are
//! ([`crate::tenant_objects`]); its account, roles and policies are those that its own tests are run with.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use api::ConditionType;
use api::names::OVERLAY_MEMBERS;
use api::tenant_cluster::Addons;
use ipnet::IpNet;
use kit_objects::object::Key;
use serde_json::{Value, json};

use crate::addons::addon::Addon;
use crate::addons::manifest::{Inputs, NodePods, config_map, daemon_set};
use crate::network::node_ranges::{MASK_FLAG, node_mask};
use crate::network::overlay::{self, DEVICE};
use crate::validate::validated::Validated;

const NAMESPACE: &str = "kube-system";
/// Name of the DaemonSet, the account and one of the policies.
pub const WORKLOAD: &str = "covey-overlay";
/// Where the key is, on the machine.
const FOLDER: &str = "/var/lib/covey/overlay";
/// Port for probes and metrics, on loopback: the pods have the node's network.
const ADMIN_PORT: u16 = 9810;

/// Account, policies and rights, in the order in which they are to be there.
static ACCESS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let access = include_str!("../../../links/node/manifests/access.json");
    let access: Value = serde_json::from_str(access).unwrap_or_default();
    access.as_array().cloned().unwrap_or_default()
});

/// The overlay among nodes.
#[derive(Debug)]
pub struct Overlay;

impl Addon for Overlay {
    fn name(&self) -> &'static str {
        overlay::ADDON
    }

    fn condition(&self) -> ConditionType {
        ConditionType::OverlayReady
    }

    fn is_enabled(&self, spec: &Addons) -> bool {
        overlay::is_enabled(spec)
    }

    fn is_wanted(&self, v: &Validated) -> bool {
        overlay::range(&v.addons).is_some()
    }

    fn manifests(&self, inputs: &Inputs<'_>) -> Vec<Value> {
        match overlay::range(&inputs.v.addons) {
            Some(range) => manifests(inputs, &range),
            None => Vec::new(),
        }
    }

    fn every_manifest(&self, inputs: &Inputs<'_>) -> Vec<Value> {
        let mut all = manifests(inputs, &inputs.v.network.pod_cidr);
        all.extend(self.members(&BTreeMap::new()));
        all
    }

    fn members(&self, members: &BTreeMap<String, String>) -> Option<Value> {
        Some(config_map(NAMESPACE, OVERLAY_MEMBERS, &json!(members)))
    }

    fn workload(&self) -> Option<Key> {
        Some(Key::new("DaemonSet", NAMESPACE, WORKLOAD))
    }
}

fn manifests(inputs: &Inputs<'_>, range: &IpNet) -> Vec<Value> {
    let host = |name: &str, path: &str| json!({ "name": name, "hostPath": { "path": path, "type": "DirectoryOrCreate" } });
    let pods = NodePods {
        namespace: NAMESPACE,
        name: WORKLOAD,
        label: ("k8s-app", WORKLOAD),
        annotations: json!({}),
        spec: json!({
            "containers": [container(inputs, range)],
            "serviceAccountName": WORKLOAD,
            "volumes": [host("state", FOLDER), host("net", "/dev/net")],
        }),
    };
    let mut all = ACCESS.clone();
    all.push(daemon_set(&pods));
    all
}

fn container(inputs: &Inputs<'_>, range: &IpNet) -> Value {
    let images = &inputs.settings.images;
    let pods = &inputs.v.network.pod_cidr;
    // A node that said it has more than the control plane gives would be sent what is for others.
    let asked = inputs.v.controller_manager.extra_args.get(MASK_FLAG);
    let share = asked.and_then(|share| share.parse().ok());
    let share = share.unwrap_or_else(|| node_mask(pods));
    let mut variables = vec![json!({
        "name": "COVEY_NODE_NAME",
        "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } },
    })];
    let api = inputs.api_variables();
    variables.extend(api.as_array().into_iter().flatten().cloned());
    let probe = |path: &str, period: i32, failures: i32| {
        json!({
            "httpGet": { "host": "127.0.0.1", "path": path, "port": ADMIN_PORT, "scheme": "HTTP" },
            "periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": 5,
        })
    };
    json!({
        "name": WORKLOAD,
        "image": inputs.own_image(&images.link_node_registry, &images.link_node),
        "args": [
            format!("--admin-address=127.0.0.1:{ADMIN_PORT}"),
            format!("--device={DEVICE}"),
            format!("--folder={FOLDER}"),
            format!("--pods={pods}"),
            format!("--pods-prefix={share}"),
            format!("--range={range}"),
        ],
        "env": variables,
        "readinessProbe": probe("/readyz", 5, 3),
        "livenessProbe": probe("/livez", 20, 6),
        "resources": { "requests": { "cpu": "20m", "memory": "32Mi" } },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"], "add": ["NET_ADMIN"] },
            "readOnlyRootFilesystem": true,
            // The folder of the key is root's alone.
            "runAsUser": 0,
        },
        "volumeMounts": [
            { "name": "state", "mountPath": FOLDER },
            { "name": "net", "mountPath": "/dev/net" },
        ],
    })
}
