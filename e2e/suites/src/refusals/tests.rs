//! Every field is judged, and what is said to be refused is.

use std::collections::BTreeSet;

use api::{Host, NodePool, TenantCluster};
use kube::{CustomResourceExt, ResourceExt};
use serde_json::{Value, json};
use tenant_cp::{Settings, validate};

use super::{Row, of_clusters, of_hosts, of_pools};

/// Why fields steer nothing but what they are fields of, and which.
type Harmless = &'static [(&'static str, &'static [&'static str])];

const OF_CLUSTERS: Harmless = &[
    (
        "the platform team made the target, and says there where it is and who reads it",
        &["backup.delta", "backup.full", "backup.target"],
    ),
    (
        "once a day at most, and two at a time of all tenant clusters",
        &["backup.restoreTest"],
    ),
    (
        "the schema bounds how many snapshots are kept, and they take room of the target alone",
        &[
            "backup.retention.days",
            "backup.retention.hours",
            "backup.retention.months",
            "backup.retention.weeks",
        ],
    ),
    (
        "when it runs itself, and the schema bounds it",
        &["hibernation.idleAfter"],
    ),
    (
        "when it follows another operator itself, and both are bounded",
        &["maintenance.heldUntil", "maintenance.priority"],
    ),
    (
        "when the operator begins of itself, and the platform names the patches; what is read of windows is bounded",
        &[
            "maintenance.windows[].closes",
            "maintenance.windows[].opens",
            "maintenance.windows[].timeZone",
        ],
    ),
    (
        "when it runs itself; what is read of it is bounded",
        &[
            "hibernation.schedules[].sleep",
            "hibernation.schedules[].timeZone",
            "hibernation.schedules[].wake",
        ],
    ),
    (
        "quotas count it, and the schema bounds it",
        &[
            "addons.autoscaler.limits.cpu",
            "addons.autoscaler.limits.memory",
            "addons.autoscaler.limits.nodes",
            "addons.coreDNS.replicas",
            "controlPlane.apiServer.resources.limits",
            "controlPlane.apiServer.resources.requests",
            "controlPlane.controllerManager.resources.limits",
            "controlPlane.controllerManager.resources.requests",
            "controlPlane.replicas",
            "controlPlane.scheduler.resources.limits",
            "controlPlane.scheduler.resources.requests",
            "etcd.events.resources.limits",
            "etcd.events.resources.requests",
            "etcd.events.size",
            "etcd.replicas",
            "etcd.resources.limits",
            "etcd.resources.requests",
            "etcd.storage.size",
        ],
    ),
    (
        "a Restore of the same namespace alone brings what it names, and it lets have nobody else's addresses",
        &["etcd.copyOf"],
    ),
    (
        "pods on its own nodes ask, as those may",
        &[
            "addons.coreDNS.forward[].servers[]",
            "addons.coreDNS.forward[].zone",
            "network.dnsDomain",
        ],
    ),
    (
        "which Services of its own get a load balancer",
        &["addons.cloudController.loadBalancers.classes[]"],
    ),
    (
        "what its own API writes down of what it was asked",
        &[
            "controlPlane.audit.rules[].namespaces[]",
            "controlPlane.audit.rules[].nonResourceURLs[]",
            "controlPlane.audit.rules[].resources[].group",
            "controlPlane.audit.rules[].resources[].resources[]",
            "controlPlane.audit.rules[].userGroups[]",
            "controlPlane.audit.rules[].users[]",
            "controlPlane.audit.rules[].verbs[]",
        ],
    ),
    (
        "whom and what its own API believes",
        &[
            "controlPlane.audit.webhook.certificateAuthority",
            "controlPlane.authentication.issuers[].audiences[]",
            "controlPlane.authentication.issuers[].certificateAuthority",
            "controlPlane.authentication.issuers[].groupsClaim",
            "controlPlane.authentication.issuers[].groupsPrefix",
            "controlPlane.authentication.issuers[].requiredClaims",
            "controlPlane.authentication.issuers[].usernameClaim",
            "controlPlane.authentication.issuers[].usernamePrefix",
            "controlPlane.authorization.webhooks[].certificateAuthority",
            "controlPlane.authorization.webhooks[].name",
            "controlPlane.podSecurity.exemptNamespaces[]",
            "controlPlane.serviceAccounts.acceptedIssuers[]",
            "controlPlane.serviceAccounts.audiences[]",
            "controlPlane.serviceAccounts.issuer",
            "controlPlane.serviceAccounts.jwksURI",
        ],
    ),
    (
        "names in certificates of its own authority; who asks there for the operator learns nothing more",
        &[
            "controlPlane.endpoint.certSANs[]",
            "controlPlane.endpoint.host",
        ],
    ),
    (
        "its own Service: the API server gives no port twice",
        &[
            "controlPlane.endpoint.konnectivityPort",
            "controlPlane.endpoint.port",
            "controlPlane.endpoint.sourceRanges[]",
        ],
    ),
    (
        "nothing without the key of the toleration",
        &[
            "controlPlane.scheduling.tolerations[].value",
            "etcd.scheduling.tolerations[].value",
        ],
    ),
    (
        "files of its own machines, which reach what those may",
        &[
            "nodes.ntpServers[]",
            "nodes.proxy.http",
            "nodes.proxy.https",
            "nodes.proxy.noProxy[]",
            "nodes.registryMirrors[].endpoints[]",
            "nodes.registryMirrors[].registry",
            "nodes.trustedCAs[]",
        ],
    ),
    (
        "when its own machines come and go; its quotas count them all the same",
        &[
            "addons.autoscaler.maxNodeProvisionTime",
            "addons.autoscaler.scaleDownDelayAfterAdd",
            "addons.autoscaler.scaleDownUnreadyTime",
            "addons.autoscaler.startupTaints[]",
        ],
    ),
    ("one of those that Covey builds", &["version"]),
    (
        "the schema bounds it, and only its own upgrade waits",
        &["upgrade.deadline", "upgrade.retry", "upgrade.soak"],
    ),
    (
        "one of those that the definition names",
        &["encryption.resources[]"],
    ),
    (
        "one of those that the platform has, and the schema bounds the number",
        &["encryption.kms.generation", "encryption.kms.name"],
    ),
    (
        "the schema bounds it, and only its own authority or key is another one; a few are made at most",
        &[
            "rotation.clientCA.complete",
            "rotation.clientCA.generation",
            "rotation.clusterCA.complete",
            "rotation.clusterCA.compromised",
            "rotation.clusterCA.generation",
            "rotation.encryptionKeys.generation",
            "rotation.frontProxyCA.complete",
            "rotation.frontProxyCA.generation",
            "rotation.kubeconfig.generation",
            "rotation.serviceAccountKeys.complete",
            "rotation.serviceAccountKeys.generation",
            "rotation.usersCA.complete",
            "rotation.usersCA.generation",
        ],
    ),
];

const OF_POOLS: Harmless = &[
    (
        "quotas count it, and the schema bounds it",
        &[
            "autoscaling.max",
            "autoscaling.min",
            "provider.kubevirt.cpu",
            "locations[].provider.kubevirt.cpu",
            "replicas",
            "rollout.maxSurge",
        ],
    ),
    (
        "when its own machines come and go",
        &[
            "autoscaling.priority",
            "autoscaling.scaleDownDelay",
            "autoscaling.utilizationThreshold",
            "autoscaling.capacity",
            "drainTimeout",
            "health.joinTimeout",
            "health.maxReplaced",
            "health.notReadyTimeout",
            "placement.budget.currency",
            "placement.budget.hourly",
            "placement.failover.after",
            "placement.failover.giveUpAfter",
            "placement.failover.maxExtra",
            "placement.failover.returnAfter",
            "provider.kubevirt.shutdownTimeout",
            "locations[].provider.kubevirt.shutdownTimeout",
            "rollout.maxUnavailable",
        ],
    ),
    (
        "its own nodes, and who may log in there",
        &[
            "kubelet.evictionHard",
            "kubelet.kubeReserved",
            "kubelet.maxPods",
            "kubelet.systemReserved",
            "labels",
            "provider.kubevirt.disks[].mountPath",
            "locations[].provider.kubevirt.disks[].mountPath",
            "provider.kubevirt.disks[].name",
            "locations[].provider.kubevirt.disks[].name",
            "sshAuthorizedKeys[]",
            "taints[].key",
            "taints[].value",
        ],
    ),
    (
        "nothing without a device or a taint that is allowed",
        &[
            "provider.kubevirt.gpus[].count",
            "locations[].provider.kubevirt.gpus[].count",
            "provider.kubevirt.hostDevices[].count",
            "locations[].provider.kubevirt.hostDevices[].count",
            "provider.kubevirt.tolerations[].value",
            "locations[].provider.kubevirt.tolerations[].value",
        ],
    ),
    (
        "a TenantCluster of the pool's own namespace",
        &["clusterName"],
    ),
    (
        "Hosts of the pool's own namespace",
        &[
            "provider.static.selector.cpu",
            "locations[].provider.static.selector.cpu",
            "provider.static.selector.matchLabels",
            "locations[].provider.static.selector.matchLabels",
            "provider.static.selector.memory",
            "locations[].provider.static.selector.memory",
        ],
    ),
    (
        "a ProviderConfig of the pool's own namespace, whose account pays for what is made",
        &[
            "provider.hetzner.configName",
            "locations[].provider.hetzner.configName",
            "provider.hetzner.image",
            "locations[].provider.hetzner.image",
            "provider.hetzner.types[]",
            "locations[].provider.hetzner.types[]",
            "provider.gcp.configName",
            "locations[].provider.gcp.configName",
            "provider.gcp.diskGiB",
            "locations[].provider.gcp.diskGiB",
            "provider.gcp.image",
            "locations[].provider.gcp.image",
            "provider.gcp.types[]",
            "locations[].provider.gcp.types[]",
            "provider.azure.configName",
            "locations[].provider.azure.configName",
            "provider.azure.diskGiB",
            "locations[].provider.azure.diskGiB",
            "provider.azure.image",
            "locations[].provider.azure.image",
            "provider.azure.types[]",
            "locations[].provider.azure.types[]",
            "provider.aws.configName",
            "locations[].provider.aws.configName",
            "provider.aws.diskGiB",
            "locations[].provider.aws.diskGiB",
            "provider.aws.image",
            "locations[].provider.aws.image",
            "provider.aws.types[]",
            "locations[].provider.aws.types[]",
        ],
    ),
    (
        "where its own machines are made, of which quotas count each as the largest",
        &["locations[].max", "locations[].name", "locations[].weight"],
    ),
    ("one of those that Covey builds", &["version"]),
];

const OF_HOSTS: Harmless = &[
    (
        "a login there, with a key of the user's own",
        &["port", "user", "via[].port", "via[].user"],
    ),
    (
        "Secrets of the Host's own namespace, which never leave the operator",
        &["sshKeySecretName", "via[].sshKeySecretName"],
    ),
    ("node pools of the Host's own namespace", &["labels"]),
];

/// Fields of a kind's spec that hold a text, a number or an amount. What is yes or no, or one of a few words,
/// is refused by the schema beyond that.
fn fields<K: CustomResourceExt>() -> BTreeSet<String> {
    fn walk(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
        if let Some(fields) = schema["properties"].as_object() {
            for (name, field) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                walk(field, &format!("{path}{dot}{name}"), found);
            }
        } else if schema["type"] == "array" {
            walk(&schema["items"], &format!("{path}[]"), found);
        } else if schema["type"] != "boolean" && schema["enum"].is_null() {
            found.insert(path.to_owned());
        }
    }
    let crd = serde_json::to_value(K::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut found = BTreeSet::new();
    walk(&schema["properties"]["spec"], "", &mut found);
    found
}

#[track_caller]
fn all_are_judged(fields: &BTreeSet<String>, rows: &[Row], harmless: Harmless) {
    let harmless: Vec<&str> = harmless
        .iter()
        .flat_map(|(_, fields)| *fields)
        .copied()
        .collect();
    let refused = |field: &str| rows.iter().any(|row| row.field == field);
    let forgotten: Vec<_> = fields
        .iter()
        .filter(|field| !refused(field) && !harmless.contains(&field.as_str()))
        .collect();
    assert!(
        forgotten.is_empty(),
        "a bad value of each of these belongs into e2e/suites/src/refusals.rs, or why there is none into its \
         tests: {forgotten:#?}"
    );
    for row in rows {
        assert!(
            fields.contains(&row.field),
            "there is no field {}",
            row.field
        );
        let mut at = &row.spec;
        for name in row.field.split('.') {
            let (name, is_list) = match name.strip_suffix("[]") {
                Some(name) => (name, true),
                None => (name, false),
            };
            at = &at[name];
            at = if is_list { &at[0] } else { at };
        }
        assert!(!at.is_null(), "{} is not in {}", row.field, row.spec);
    }
    for field in harmless {
        assert!(fields.contains(field), "there is no field {field}");
        assert!(!refused(field), "{field} is refused, so it is not harmless");
    }
}

#[test]
fn every_field_is_refused_a_bad_value_or_harms_nobody() {
    all_are_judged(&fields::<TenantCluster>(), &of_clusters(), OF_CLUSTERS);
    all_are_judged(&fields::<NodePool>(), &of_pools(), OF_POOLS);
    all_are_judged(&fields::<Host>(), &of_hosts(), OF_HOSTS);
}

#[test]
#[should_panic(expected = "controlPlane.new")]
fn field_that_nobody_judged_is_found() {
    let mut fields = fields::<TenantCluster>();
    fields.insert("controlPlane.new".to_owned());
    all_are_judged(&fields, &of_clusters(), OF_CLUSTERS);
}

fn object(kind: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "covey.dev/v1alpha1", "kind": kind,
        "metadata": { "name": "bad", "namespace": "users" }, "spec": spec })
}

/// What the webhook of a platform that allows nothing beyond the defaults says to each of them. The suite
/// `hostile/user` has a whole management cluster say it.
#[test]
fn each_is_refused_with_what_would_allow_it() {
    let settings = Settings::default();
    let nobody: [TenantCluster; 0] = [];
    let good = json!({ "version": "1.35.4" });
    let read: TenantCluster = serde_json::from_value(object("TenantCluster", &good)).unwrap();
    assert!(validate::admit(None, &read, &nobody, &settings).is_empty());
    for row in of_clusters() {
        let spec = row.merged_into(good.clone());
        let new: TenantCluster = serde_json::from_value(object("TenantCluster", &spec)).unwrap();
        let problems = validate::admit(None, &new, &nobody, &settings);
        is_said(
            &row,
            &problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        );
    }
    let good = json!({ "clusterName": read.name_any(), "replicas": 0,
        "provider": { "kubevirt": { "cpu": 1, "memory": "1Gi" } } });
    for row in of_pools() {
        let spec = row.merged_into(good.clone());
        let new: NodePool = serde_json::from_value(object("NodePool", &spec)).unwrap();
        let problems = validate::admit_pool(None, &new, &nobody, &settings);
        is_said(
            &row,
            &problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        );
    }
}

#[track_caller]
fn is_said(row: &Row, problems: &[String]) {
    let said = problems.iter().any(|problem| problem.contains(row.says));
    assert!(
        said,
        "{}: {problems:#?} says nothing of {}",
        row.spec, row.says
    );
}
