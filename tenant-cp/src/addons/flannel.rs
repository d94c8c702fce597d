//! flannel with VXLAN: the network between pods of different nodes.
//!
//! flannel's own CNI plugin is not needed: it only hands flannel's answer to the reference plugins
//! `bridge`, `host-local` and `portmap`, which every distribution of a kubelet brings. A few lines of
//! shell beside flanneld do the same, once per start.
//! Invariant: the configuration appears in `/etc/cni/net.d` whole or not at all, and only after
//! flanneld has this node's range; until then the node is not ready and gets no pods.

use api::tenant_cluster::{Addons, CniType};
use api::{ConditionType, Reason};
use kit_objects::object::Key;
use serde_json::{Value, json};

use crate::addons::addon::{Addon, Footing};
use crate::addons::manifest::{
    Inputs, NodePods, account, cluster_role, cluster_role_binding, config_map, daemon_set,
    files_annotation, service_account,
};
use crate::desired::pod;
use crate::network::overlay::{self, DEVICE};

pub(crate) const NAMESPACE: &str = "kube-flannel";
pub(crate) const NAME: &str = "flannel";
const WORKLOAD: &str = "kube-flannel-ds";
const CONFIGURATION: &str = "kube-flannel-cfg";

/// `FLANNEL_SUBNET` is the address of the node's bridge, the first of its range (flannel
/// `pkg/subnet`, `WriteSubnetFile`); host-local wants the range's own address.
const START: &str = r#"
rm -f /run/flannel/subnet.env
(
  until [ -s /run/flannel/subnet.env ]; do sleep 0.1 || sleep 1; done
  . /run/flannel/subnet.env
  first=${FLANNEL_SUBNET%/*}
  range=${first%.*}.$((${first##*.} - 1))/${FLANNEL_SUBNET#*/}
  cat > /etc/cni/net.d/.10-flannel <<EOF
{
  "cniVersion": "1.0.0",
  "name": "cbr0",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "hairpinMode": true,
      "isDefaultGateway": true,
      "mtu": $FLANNEL_MTU,
      "ipam": { "type": "host-local", "ranges": [[{ "subnet": "$range" }]] }
    },
    { "type": "portmap", "capabilities": { "portMappings": true } }
  ]
}
EOF
  mv /etc/cni/net.d/.10-flannel /etc/cni/net.d/10-flannel.conflist
) &
"#;
const RUN: &str = "exec /opt/bin/flanneld --ip-masq --kube-subnet-mgr";

/// The flag by which flannel goes by a device, and not by the default route.
const INTERFACE: &str = "--iface=";

/// With the overlay: not before its device has an address, since flannel ends where it has none. What the node
/// had of the network between pods stays in its kernel meanwhile.
fn start(overlay: bool) -> String {
    match overlay {
        false => format!("{START}{RUN}\n"),
        true => format!(
            "until ip -o address show dev {DEVICE} scope global 2>/dev/null | grep -q inet; do sleep 0.5 || sleep 1; done\n\
             {START}{RUN} {INTERFACE}{DEVICE}\n"
        ),
    }
}

/// The network between pods.
#[derive(Debug)]
pub struct Flannel;

impl Addon for Flannel {
    fn name(&self) -> &'static str {
        NAME
    }

    fn condition(&self) -> ConditionType {
        ConditionType::NetworkReady
    }

    fn is_enabled(&self, spec: &Addons) -> bool {
        spec.cni.type_ == CniType::Flannel
    }

    fn footing(&self) -> Option<Footing> {
        Some(Footing {
            addon: overlay::ADDON,
            mark: INTERFACE,
            reason: Reason::SwitchingOverlayOff,
        })
    }

    fn manifests(&self, inputs: &Inputs<'_>) -> Vec<Value> {
        manifests(inputs)
    }

    fn workload(&self) -> Option<Key> {
        Some(Key::new("DaemonSet", NAMESPACE, WORKLOAD))
    }
}

fn manifests(inputs: &Inputs<'_>) -> Vec<Value> {
    let network = json!({
        "Network": inputs.v.network.pod_cidr,
        "EnableNFTables": true,
        "Backend": { "Type": "vxlan" },
    });
    let files = json!({ "net-conf.json": format!("{network:#}\n") });
    let host = |name: &str, path: &str| json!({ "name": name, "hostPath": { "path": path, "type": "DirectoryOrCreate" } });
    let pods = NodePods {
        namespace: NAMESPACE,
        name: WORKLOAD,
        label: ("app", NAME),
        annotations: files_annotation(&files),
        spec: json!({
            "containers": [container(inputs)],
            "serviceAccountName": NAME,
            "volumes": [
                host("run", "/run/flannel"),
                host("cni", "/etc/cni/net.d"),
                { "name": "config", "configMap": { "name": CONFIGURATION } },
            ],
        }),
    };
    vec![
        namespace(),
        service_account(NAMESPACE, NAME),
        cluster_role(
            NAME,
            &json!([
                { "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] },
                { "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"] },
                { "apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"] },
            ]),
        ),
        cluster_role_binding(NAME, NAME, &account(NAMESPACE, NAME)),
        config_map(NAMESPACE, CONFIGURATION, &files),
        daemon_set(&pods),
    ]
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            "labels": {
                "k8s-app": NAME,
                "pod-security.kubernetes.io/enforce": "privileged",
            },
        },
    })
}

fn container(inputs: &Inputs<'_>) -> Value {
    let images = &inputs.settings.images;
    let mut variables = vec![
        json!({ "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }),
        json!({ "name": "POD_NAMESPACE",
                "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } }),
    ];
    variables.extend(
        inputs
            .api_variables()
            .as_array()
            .cloned()
            .unwrap_or_default(),
    );
    json!({
        "name": NAME,
        "image": pod::other_image(&inputs.v.registry, &images.flannel_registry, &images.flannel),
        "command": ["/bin/sh", "-ec", start(overlay::range(&inputs.v.addons).is_some())],
        "env": variables,
        "resources": { "requests": { "cpu": "20m", "memory": "40Mi" } },
        "securityContext": {
            "privileged": false,
            "capabilities": { "add": ["NET_ADMIN", "NET_RAW"] },
        },
        "volumeMounts": [
            { "name": "run", "mountPath": "/run/flannel" },
            { "name": "cni", "mountPath": "/etc/cni/net.d" },
            { "name": "config", "mountPath": "/etc/kube-flannel", "readOnly": true },
        ],
    })
}
