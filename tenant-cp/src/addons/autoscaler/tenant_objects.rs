//! Objects of the addon inside the tenant cluster: rights, and the ConfigMap with the priorities of
//! pools.
//!
//! Invariant: no right on Secrets, and on ConfigMaps and Leases only in `kube-system`.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit_objects::object::Object;

use crate::addons::adapter::{self, Right};
use crate::addons::autoscaler::names::{ROLE, STOCK, STOCK_ROLE, STOCK_USER, USER};
use crate::addons::autoscaler::rules::{rules_inside, rules_kube_system};
use crate::meta::tenant_meta;

const READ: &[&str] = &["get", "list", "watch"];
const APPS: &str = "apps";
const CORE: &str = "";
const DEVICES: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";

/// Those of its own chart (`charts/cluster-autoscaler`), but for API groups that are no more, locks
/// that are not Leases, and other providers.
const STOCK_INSIDE: &[Right] = &[
    (CORE, "events", &["create", "patch"]),
    (CORE, "namespaces", READ),
    (CORE, "nodes", &["get", "list", "update", "watch"]),
    (CORE, "persistentvolumeclaims", READ),
    (CORE, "persistentvolumes", READ),
    (CORE, "pods", READ),
    (CORE, "pods/eviction", &["create"]),
    (CORE, "pods/status", &["update"]),
    (CORE, "replicationcontrollers", READ),
    (CORE, "services", READ),
    (APPS, "daemonsets", READ),
    (APPS, "replicasets", READ),
    (APPS, "statefulsets", READ),
    ("batch", "cronjobs", READ),
    ("batch", "jobs", &["get", "list", "patch", "watch"]),
    ("policy", "poddisruptionbudgets", &["list", "watch"]),
    (DEVICES, "deviceclasses", READ),
    (DEVICES, "resourceclaims", READ),
    (DEVICES, "resourceslices", READ),
    (STORAGE, "csidrivers", READ),
    (STORAGE, "csinodes", READ),
    (STORAGE, "csistoragecapacities", READ),
    (STORAGE, "storageclasses", READ),
    (STORAGE, "volumeattachments", READ),
];

/// Whoever may create ConfigMaps and Leases may not be told their names beforehand.
const STOCK_KUBE_SYSTEM: &[Right] = &[
    (CORE, "configmaps", &["create", "list", "watch"]),
    ("coordination.k8s.io", "leases", &["create"]),
];

/// Its status, its Lease and its priorities; by name.
const STOCK_NAMED: &[(Right, &str)] = &[
    (
        (CORE, "configmaps", &["delete", "get", "update"]),
        "cluster-autoscaler-status",
    ),
    (
        (CORE, "configmaps", &["get"]),
        api::names::PRIORITY_EXPANDER,
    ),
    (("coordination.k8s.io", "leases", &["get", "update"]), STOCK),
];

/// Rights of both, and the ConfigMap that one of them fills and the other reads.
#[must_use]
pub fn tenant_objects() -> Vec<Object> {
    let mut objects = Vec::new();
    objects.extend(adapter::tenant_rights(ROLE, USER, rules_inside()));
    objects.extend(adapter::kube_system_rights(ROLE, USER, rules_kube_system()));
    let everywhere = adapter::rules(STOCK_INSIDE);
    objects.extend(adapter::tenant_rights(STOCK_ROLE, STOCK_USER, everywhere));
    let rules = stock_kube_system();
    objects.extend(adapter::kube_system_rights(STOCK_ROLE, STOCK_USER, rules));
    objects.push(priorities());
    objects
}

fn stock_kube_system() -> Vec<PolicyRule> {
    let mut rules = adapter::rules(STOCK_KUBE_SYSTEM);
    for (right, name) in STOCK_NAMED {
        let named = adapter::rules(&[*right]).into_iter().map(|mut rule| {
            rule.resource_names = Some(vec![(*name).to_owned()]);
            rule
        });
        rules.extend(named);
    }
    rules
}

/// Without data: that is the adapter's, and a field that nobody wants here is nobody's to take away.
fn priorities() -> Object {
    Object::new(&ConfigMap {
        metadata: ObjectMeta {
            namespace: Some("kube-system".to_owned()),
            ..tenant_meta(api::names::PRIORITY_EXPANDER)
        },
        ..ConfigMap::default()
    })
}
