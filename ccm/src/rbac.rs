//! RBAC rules that the code needs, next to why. Whoever deploys it grants these and no more.
//!
//! Invariant: no right on Secrets, pods or Machines, none outside the tenant namespace in the
//! management cluster, and none to make or change a node in the tenant cluster beyond what a cloud
//! controller manager is for.

use kit_objects::rbac::Rule;

/// Everywhere in the tenant cluster.
#[must_use]
pub fn tenant() -> Vec<Rule> {
    let mut rules = vec![
        // Taints, labels and providerID; those of machines that are gone are deleted.
        Rule::new(&[""], &["nodes"], &["delete", "list", "patch", "watch"]),
        // Addresses, and that a node is not Ready whose machine is off.
        Rule::new(&[""], &["nodes/status"], &["patch"]),
        // Whether a kubelet lives.
        Rule::new(&["coordination.k8s.io"], &["leases"], &["get"]),
        // The finalizer.
        Rule::new(&[""], &["services"], &["list", "patch", "watch"]),
        // Addresses of load balancers.
        Rule::new(&[""], &["services/status"], &["patch"]),
        // Where a Service that keeps traffic on the node has pods.
        Rule::new(
            &["discovery.k8s.io"],
            &["endpointslices"],
            &["list", "watch"],
        ),
    ];
    rules.extend(kit::events::RULES);
    rules
}

/// In the tenant namespace of the management cluster.
#[must_use]
pub fn management() -> Vec<Rule> {
    let mut rules = vec![
        // Mirrors. "get" is to be certain that one is gone.
        Rule::new(
            &[""],
            &["services"],
            &["create", "delete", "get", "list", "patch", "watch"],
        ),
        Rule::new(
            &["discovery.k8s.io"],
            &["endpointslices"],
            &["create", "delete", "list", "patch", "watch"],
        ),
        // "get" is to be certain that one is gone.
        Rule::new(
            &["kubevirt.io"],
            &["virtualmachineinstances", "virtualmachines"],
            &["get", "list", "watch"],
        ),
        // Addresses of machines.
        Rule::new(&["covey.dev"], &["machineaddresses"], &["list", "watch"]),
    ];
    rules.extend(kit::lease::RULES);
    rules
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::rbac::v1::PolicyRule;
    use tenant_cp::addons::cloud_controller;

    use super::*;

    type Rights = BTreeSet<(String, String, String)>;

    fn declared(rules: &[Rule]) -> Rights {
        let mut rights = Rights::new();
        for rule in rules {
            assert!(rule.names.is_empty());
            for group in rule.groups {
                for resource in rule.resources {
                    let right = |verb: &&str| {
                        (
                            (*group).to_owned(),
                            (*resource).to_owned(),
                            (*verb).to_owned(),
                        )
                    };
                    rights.extend(rule.verbs.iter().map(right));
                }
            }
        }
        rights
    }

    fn laid(rules: &[PolicyRule]) -> Rights {
        let mut rights = Rights::new();
        for rule in rules {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    let right = |verb: &String| (group.clone(), resource.clone(), verb.clone());
                    rights.extend(rule.verbs.iter().map(right));
                }
            }
        }
        rights
    }

    #[test]
    fn what_the_addon_grants_is_what_the_code_declares() {
        assert_eq!(laid(&cloud_controller::rules_inside()), declared(&tenant()));
        assert_eq!(
            laid(&cloud_controller::rules_outside()),
            declared(&management())
        );
    }
}
