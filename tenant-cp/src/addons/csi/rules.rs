//! Rights of the CSI driver, in the tenant namespace and on nodes.
//!
//! The rules are data, here, so that whoever lays them and whoever needs them agree: crate `csi-proxy`
//! compares them with what its code declares.
//! Invariant: no right on Secrets, pods or Machines, and none outside the tenant namespace.

use api::storage::Hotplug;
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::addons::adapter::{self, Right};

pub(crate) const READ: &[&str] = &["get", "list", "watch"];
pub(crate) const STORAGE: &str = "storage.k8s.io";
pub(crate) const SNAPSHOTS: &str = "snapshot.storage.k8s.io";

/// In the tenant namespace, whatever is offered.
const OUTSIDE: &[Right] = &[
    (
        "",
        "persistentvolumeclaims",
        &["create", "delete", "get", "list", "patch", "watch"],
    ),
    ("", "events", &["list"]),
    ("", "resourcequotas", &["list"]),
    ("kubevirt.io", "virtualmachineinstances", READ),
    ("kubevirt.io", "virtualmachines", READ),
    (
        SNAPSHOTS,
        "volumesnapshots",
        &["create", "delete", "get", "list", "watch"],
    ),
];
const SUBRESOURCES: &[Right] = &[
    (
        "subresources.kubevirt.io",
        "virtualmachines/addvolume",
        &["update"],
    ),
    (
        "subresources.kubevirt.io",
        "virtualmachines/removevolume",
        &["update"],
    ),
];
const DECLARATIVE: &[Right] = &[("kubevirt.io", "virtualmachines", &["patch"])];

/// Inside, where there is topology: the half on nodes reads its own.
const ON_NODES: &[Right] = &[("", "nodes", &["get"])];

/// What the half on nodes may do inside the tenant cluster, where there is topology.
#[must_use]
pub fn rules_on_nodes() -> Vec<PolicyRule> {
    adapter::rules(ON_NODES)
}

/// What the driver may do in the tenant namespace.
#[must_use]
pub fn rules_outside(hotplug: Hotplug) -> Vec<PolicyRule> {
    let more = match hotplug {
        Hotplug::Subresources => SUBRESOURCES,
        Hotplug::Declarative => DECLARATIVE,
    };
    adapter::rules(&[OUTSIDE, more].concat())
}
