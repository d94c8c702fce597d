//! What users may ask for in a spec and do not get, because it would steer the management cluster, others'
//! tenant clusters or the way to them: a bad value for every such field, with what the refusal names.
//!
//! Invariant: a field that is added to a kind has a row here, or says in the tests why nobody is harmed by
//! it: until then a test of T0 fails.

use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// A spec that is refused.
#[derive(Clone, Debug)]
pub struct Row {
    /// The field that it is about, such as `controlPlane.scheduling.tolerations[].key`.
    pub field: String,
    /// What is merged into a spec that would be let in.
    pub spec: Value,
    /// Words of the refusal: the setting that would allow it, or what to write instead.
    pub says: &'static str,
}

impl Row {
    /// A spec that would be let in, made bad by this.
    #[must_use]
    pub fn merged_into(&self, mut spec: Value) -> Value {
        merge(&mut spec, &self.spec);
        spec
    }
}

fn merge(spec: &mut Value, change: &Value) {
    match (spec, change) {
        (Value::Object(spec), Value::Object(change)) => {
            for (key, value) in change {
                merge(spec.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (spec, change) => *spec = change.clone(),
    }
}

/// The value is that of the field.
fn row(field: &'static str, value: Value, says: &'static str) -> Row {
    within(field, field, value, says)
}

/// The value is that of `place`, and the field in it.
fn within(place: &str, field: &'static str, value: Value, says: &'static str) -> Row {
    let spec = place
        .rsplit('.')
        .fold(value, |value, name| json!({ name: value }));
    let field = field.to_owned();
    Row { field, spec, says }
}

/// Nodes of the management cluster's own control plane: their label, and their taint.
const OF_MANAGEMENT: &str = "node-role.kubernetes.io/control-plane";

/// What load balancers of Services are like.
const LOAD_BALANCERS: &str = "addons.cloudController.loadBalancers";

/// Of TenantClusters.
#[must_use]
pub fn of_clusters() -> Vec<Row> {
    let load_balancer = |name: &str, value: Value| json!({ "type": "LoadBalancer", name: value });
    let mut rows = vec![
        row(
            "images.registry",
            json!("evil.example/x"),
            "config.allowedRegistries",
        ),
        within(
            "controlPlane.endpoint",
            "controlPlane.endpoint.loadBalancerClass",
            load_balancer("loadBalancerClass", json!("evil.example/lb")),
            "config.endpoint.classes",
        ),
        row(
            "controlPlane.endpoint.annotations",
            json!({ "external-dns.alpha.kubernetes.io/hostname": "www.victim.example" }),
            "config.endpoint.annotations",
        ),
        row(
            "controlPlane.endpoint.labels",
            json!({ "service.cilium.io/global": "true" }),
            "config.endpoint.labels",
        ),
        row(
            "etcd.storage.storageClassName",
            json!("somebody-elses"),
            "config.etcdStorageClasses",
        ),
        row(
            "etcd.quotaBackendBytes",
            json!("100Gi"),
            "choose a size between them",
        ),
        within(
            "addons.csi",
            "addons.csi.classes[]",
            json!({ "enabled": true, "classes": ["somebody-elses"] }),
            "offered",
        ),
        within(
            "addons.overlay",
            "addons.overlay.cidr",
            json!({ "enabled": true, "cidr": "127.0.0.0/16" }),
            "private range",
        ),
        within(
            LOAD_BALANCERS,
            "addons.cloudController.loadBalancers.annotations[]",
            json!({ "annotations": ["lbipam.cilium.io/ips"] }),
            "config.loadBalancers.annotations",
        ),
        within(
            LOAD_BALANCERS,
            "addons.cloudController.loadBalancers.addresses[]",
            json!({ "addresses": ["0.0.0.0/0"] }),
            "config.loadBalancers.addresses",
        ),
        within(
            LOAD_BALANCERS,
            "addons.cloudController.loadBalancers.managementClass",
            json!({ "managementClass": "evil.example/lb" }),
            "config.loadBalancers.classes",
        ),
        within(
            LOAD_BALANCERS,
            "addons.cloudController.loadBalancers.labels",
            json!({ "labels": { "service.cilium.io/global": "true" } }),
            "config.loadBalancers.labels",
        ),
        row(
            "addons.cloudController.limits.services",
            json!(100_000),
            "config.loadBalancers.maxServices",
        ),
        row(
            "addons.cloudController.limits.ports",
            json!(100_000),
            "config.loadBalancers.maxPorts",
        ),
        row(
            "addons.cloudController.limits.endpoints",
            json!(100_000),
            "config.loadBalancers.maxEndpoints",
        ),
        row(
            "addons.csi.limits.volumes",
            json!(100_000),
            "config.storage.maxVolumes",
        ),
        row(
            "addons.csi.limits.snapshots",
            json!(100_000),
            "config.storage.maxSnapshots",
        ),
        row("network.podCIDR", json!("127.0.0.0/16"), "private range"),
        row(
            "network.serviceCIDR",
            json!("224.0.0.0/16"),
            "private range",
        ),
        within(
            "controlPlane.audit.webhook",
            "controlPlane.audit.webhook.url",
            json!({ "url": "https://169.254.169.254/latest" }),
            "config.apiServer.auditWebhook",
        ),
        within(
            "controlPlane.authorization.webhooks",
            "controlPlane.authorization.webhooks[].url",
            json!([{ "name": "evil", "url": "https://10.96.0.1" }]),
            "config.apiServer.authorizationWebhooks",
        ),
        within(
            "controlPlane.authentication.issuers",
            "controlPlane.authentication.issuers[].url",
            json!([{ "url": "http://169.254.169.254", "audiences": ["a"] }]),
            "https://",
        ),
        within(
            "controlPlane.authentication.issuers",
            "controlPlane.authentication.issuers[].discoveryURL",
            json!([{ "url": "https://a.example", "discoveryURL": "http://169.254.169.254",
                "audiences": ["a"] }]),
            "https://",
        ),
        row(
            "controlPlane.featureGates",
            json!({ "HPAScaleToZero": true }),
            "config.apiServer.featureGates",
        ),
        row(
            "controlPlane.featureGates",
            json!({ "AllAlpha": true }),
            "lists those that can",
        ),
        row(
            "controlPlane.runtimeConfig",
            json!({ "resource.k8s.io/v1beta2": true }),
            "config.apiServer.runtimeConfig",
        ),
        row(
            "controlPlane.runtimeConfig",
            json!({ "api/all": true }),
            "lists those that can",
        ),
        row(
            "controlPlane.apiServer.extraArgs",
            json!({ "etcd-servers": "https://other" }),
            "remove it",
        ),
        row(
            "controlPlane.apiServer.extraArgs",
            json!({ "service-node-port-range": "1-65535" }),
            "remove it",
        ),
        row(
            "controlPlane.apiServer.extraArgs",
            json!({ "v": "10" }),
            "choose 0 to 4",
        ),
        row(
            "controlPlane.controllerManager.extraArgs",
            json!({ "kubeconfig": "/etc/kubernetes/other" }),
            "remove it",
        ),
        row(
            "controlPlane.controllerManager.extraArgs",
            json!({ "cluster-signing-cert-file": "/etc/other" }),
            "remove it",
        ),
        row(
            "controlPlane.scheduler.extraArgs",
            json!({ "config": "/etc/kubernetes/other" }),
            "remove it",
        ),
    ];
    rows.extend(pods(&OF_CONTROL_PLANE));
    rows.extend(pods(&OF_ETCD));
    rows
}

/// Fields of pods in the tenant namespace, in the order of [`pods`].
type Fields = [&'static str; 6];

const OF_CONTROL_PLANE: Fields = [
    "controlPlane.scheduling.nodeSelector",
    "controlPlane.scheduling.tolerations[].key",
    "controlPlane.scheduling.priorityClassName",
    "controlPlane.scheduling.runtimeClassName",
    "controlPlane.podMetadata.labels",
    "controlPlane.podMetadata.annotations",
];
const OF_ETCD: Fields = [
    "etcd.scheduling.nodeSelector",
    "etcd.scheduling.tolerations[].key",
    "etcd.scheduling.priorityClassName",
    "etcd.scheduling.runtimeClassName",
    "etcd.podMetadata.labels",
    "etcd.podMetadata.annotations",
];

fn pods([selector, taint, priority, runtime, labels, annotations]: &Fields) -> Vec<Row> {
    let tolerations = taint.split("[]").next().unwrap_or(taint);
    vec![
        row(
            selector,
            json!({ OF_MANAGEMENT: "" }),
            "config.tenantPods.allowed.nodeLabels",
        ),
        within(
            tolerations,
            taint,
            json!([{ "key": OF_MANAGEMENT }]),
            "config.tenantPods.allowed.taints",
        ),
        row(
            priority,
            json!("system-node-critical"),
            "config.tenantPods.allowed.priorityClasses",
        ),
        row(
            runtime,
            json!("somebody-elses"),
            "config.tenantPods.allowed.runtimeClasses",
        ),
        // What others take for theirs: a mesh that lets its members in, and Covey's own policies.
        row(
            labels,
            json!({ "security.istio.io/tlsMode": "istio" }),
            "config.tenantPods.allowed.podLabels",
        ),
        row(
            labels,
            json!({ "covey.dev/tenant-cluster": "another" }),
            "own: remove it",
        ),
        row(
            annotations,
            json!({ "k8s.v1.cni.cncf.io/networks": "kube-system/management" }),
            "config.tenantPods.allowed.podAnnotations",
        ),
        row(
            annotations,
            json!({ "container.apparmor.security.beta.kubernetes.io/etcd": "unconfined" }),
            "own: remove it",
        ),
    ]
}

/// Of NodePools: the fields of a provider are refused as those of a location, too.
#[must_use]
pub fn of_pools() -> Vec<Row> {
    let own = with_provider();
    let in_location = |row: &Row| Row {
        field: format!("locations[].{}", row.field),
        spec: json!({ "provider": null, "locations": [
            { "name": "bad", "provider": row.spec["provider"] },
        ] }),
        says: row.says,
    };
    let all: Vec<_> = own.iter().map(in_location).collect();
    own.into_iter().chain(all).collect()
}

fn with_provider() -> Vec<Row> {
    const MACHINE: &str = "provider.kubevirt";
    const ALLOWED: &str = "config.providers.kubevirt.allowed";
    let kernel = |name: &str, value: &str| {
        let mut boot = json!({ "image": "ghcr.io/covey-dev/worker:v1.35.4",
            "kernelPath": "/boot/vmlinuz" });
        boot[name] = json!(value);
        json!({ "image": "ghcr.io/covey-dev/worker:v1.35.4", "kernelBoot": boot })
    };
    vec![
        row(
            "provider.kubevirt.image",
            json!("evil.example/disk:1"),
            "config.",
        ),
        within(
            MACHINE,
            "provider.kubevirt.kernelBoot.image",
            kernel("image", "evil.example/kernel:1"),
            "kernelBoot.image",
        ),
        within(
            MACHINE,
            "provider.kubevirt.kernelBoot.kernelPath",
            kernel("kernelPath", "/boot/../../etc/shadow"),
            "kernelPath",
        ),
        within(
            MACHINE,
            "provider.kubevirt.kernelBoot.initrdPath",
            kernel("initrdPath", "/boot/../../etc/shadow"),
            "initrdPath",
        ),
        within(
            MACHINE,
            "provider.kubevirt.kernelBoot.kernelArgs",
            kernel("kernelArgs", "console=ttyS0\ninit=/bin/sh"),
            "kernelArgs",
        ),
        row(
            "provider.kubevirt.nodeSelector",
            json!({ OF_MANAGEMENT: "" }),
            ALLOWED,
        ),
        within(
            "provider.kubevirt.tolerations",
            "provider.kubevirt.tolerations[].key",
            json!([{ "key": OF_MANAGEMENT }]),
            ALLOWED,
        ),
        within(
            "provider.kubevirt.gpus",
            "provider.kubevirt.gpus[].deviceName",
            json!([{ "deviceName": "nvidia.com/somebody-elses" }]),
            ALLOWED,
        ),
        within(
            "provider.kubevirt.hostDevices",
            "provider.kubevirt.hostDevices[].deviceName",
            json!([{ "deviceName": "intel.com/qat" }]),
            ALLOWED,
        ),
        within(
            "provider.kubevirt.disks",
            "provider.kubevirt.disks[].size",
            json!([{ "name": "all", "size": "900Ti" }]),
            ALLOWED,
        ),
        within(
            "provider.kubevirt.networks",
            "provider.kubevirt.networks[].name",
            json!([{ "name": "kube-system/management" }]),
            ALLOWED,
        ),
        row(
            "provider.kubevirt.memory",
            json!("1000000Ti"),
            "check the suffix",
        ),
    ]
}

/// Spec of a Host that would be let in.
#[must_use]
pub fn good_host() -> Value {
    json!({ "address": "192.0.2.10", "user": "root", "sshKeySecretName": "ssh",
        "hostKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJd3vK9mUTbOkkXmHq4pZm3O4mUgoyb0xvZ1Hh6yq0pJ"] })
}

/// Of Hosts: the operator logs in to machines for users, so where it goes and whom it believes is not any.
/// Each is refused by a rule of the definition (`crds/tests/cel_hosts.rs` has all of them).
#[must_use]
pub fn of_hosts() -> Vec<Row> {
    const METADATA: &str = "169.254.169.254";
    const DIALLED: &str = "is not dialled";
    let via = |name: &str, value: Value| {
        let mut jump = json!({ "address": "192.0.2.20", "port": 22, "user": "root", "sshKeySecretName": "ssh",
            "hostKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJd3vK9mUTbOkkXmHq4pZm3O4mUgoyb0xvZ1Hh6yq0pJ"] });
        jump[name] = value;
        json!([jump])
    };
    let rsa = json!(["ssh-rsa AAAAB3NzaC1yc2E"]);
    vec![
        row("address", json!(METADATA), DIALLED),
        row("address", json!("127.0.0.1"), DIALLED),
        row("address", json!("edge.example.com"), "set nodeAddress"),
        row("nodeAddress", json!("169.254.1.1"), "no node is reached"),
        row(
            "overlayEndpoint",
            json!("169.254.169.254:80"),
            "no other node reaches it",
        ),
        within("hostKeys", "hostKeys[]", rsa.clone(), "keys of other kinds"),
        within(
            "via",
            "via[].address",
            via("address", json!(METADATA)),
            DIALLED,
        ),
        within(
            "via",
            "via[].hostKeys[]",
            via("hostKeys", rsa),
            "keys of other kinds",
        ),
    ]
}
