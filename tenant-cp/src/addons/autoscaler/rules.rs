//! Rights of the Cluster Autoscaler's adapter, in the user's namespace and inside the tenant cluster.
//!
//! The rules are data, here, so that whoever lays them and whoever needs them agree: crate `autoscaler`
//! compares them with what its code declares.
//! Invariant: no right on Secrets.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::addons::adapter::{self, Right};

/// Everywhere inside the tenant cluster, for the adapter.
const INSIDE: &[Right] = &[("", "nodes", &["list", "patch", "watch"])];

/// In the user's namespace, for the adapter.
const OUTSIDE: &[Right] = &[
    ("covey.dev", "machines", &["list", "watch"]),
    ("covey.dev", "nodepools", &["get", "list", "patch", "watch"]),
    ("events.k8s.io", "events", &["create"]),
];

/// What the adapter may do everywhere inside the tenant cluster.
#[must_use]
pub fn rules_inside() -> Vec<PolicyRule> {
    adapter::rules(INSIDE)
}

/// What the adapter may do in `kube-system` of the tenant cluster: keep the priorities of pools.
#[must_use]
pub fn rules_kube_system() -> Vec<PolicyRule> {
    let mut rules = adapter::rules(&[("", "configmaps", &["get", "patch"])]);
    for rule in &mut rules {
        rule.resource_names = Some(vec![api::names::PRIORITY_EXPANDER.to_owned()]);
    }
    rules
}

/// What the adapter may do in the user's namespace.
#[must_use]
pub fn rules_outside() -> Vec<PolicyRule> {
    adapter::rules(OUTSIDE)
}
