//! RBAC rules that the code of this crate needs, next to why. Whoever deploys it grants these and
//! no more.
//!
//! Invariant: all but one are in the tenant namespace; none on Secrets, pods or StorageClasses, and
//! none to make or delete a virtual machine.

use kit_objects::rbac::Rule;

use crate::settings::{Hotplug, Offer};

/// In the tenant namespace of the management cluster.
#[must_use]
pub fn management(offer: &Offer) -> Vec<Rule> {
    let machines = &["virtualmachineinstances", "virtualmachines"];
    let mut rules = vec![
        // Volumes. RBAC cannot tell them from claims of the control plane; the code does, by label.
        Rule::new(
            &[""],
            &["persistentvolumeclaims"],
            &["create", "delete", "get", "list", "patch", "watch"],
        ),
        // How much more there may be.
        Rule::new(&[""], &["resourcequotas"], &["list"]),
        // Why a claim is not bound.
        Rule::new(&[""], &["events"], &["list"]),
        // "get" is to be certain that a machine does not hold a volume any more.
        Rule::new(&["kubevirt.io"], machines, &["get", "list", "watch"]),
    ];
    if offer.has_snapshots() {
        rules.push(Rule::new(
            &["snapshot.storage.k8s.io"],
            &["volumesnapshots"],
            &["create", "delete", "get", "list", "watch"],
        ));
    }
    rules.push(match offer.hotplug {
        Hotplug::Declarative => Rule::new(&["kubevirt.io"], &["virtualmachines"], &["patch"]),
        Hotplug::Subresources => Rule::new(
            &["subresources.kubevirt.io"],
            &["virtualmachines/addvolume", "virtualmachines/removevolume"],
            &["update"],
        ),
    });
    rules
}

/// Inside the tenant cluster, of the half on nodes, where there is topology.
#[must_use]
pub fn node() -> Vec<Rule> {
    // Where the machine is. RBAC cannot tell its own Node from others.
    vec![Rule::new(&[""], &["nodes"], &["get"])]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::rbac::v1::PolicyRule;
    use tenant_cp::addons::csi;

    use super::*;
    use crate::settings::Class;

    /// Each right by itself: API group, resource, verb.
    fn rights(rules: &[PolicyRule]) -> BTreeSet<[String; 3]> {
        let mut rights = BTreeSet::new();
        for rule in rules {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    let right = |verb: &String| [group.clone(), resource.clone(), verb.clone()];
                    rights.extend(rule.verbs.iter().map(right));
                }
            }
        }
        rights
    }

    #[test]
    fn what_the_addon_grants_is_what_the_code_declares() {
        for hotplug in [Hotplug::Subresources, Hotplug::Declarative] {
            let class = Class {
                snapshot_class: Some("snaps".to_owned()),
                ..Class::default()
            };
            let offer = Offer {
                classes: vec![class],
                hotplug,
                ..Offer::default()
            };
            let declared = kit_objects::rbac::render(&management(&offer));
            let declared: Vec<PolicyRule> = serde_json::from_value(declared).unwrap();
            assert_eq!(rights(&csi::rules_outside(hotplug)), rights(&declared));
        }
        let declared: Vec<PolicyRule> =
            serde_json::from_value(kit_objects::rbac::render(&node())).unwrap();
        assert_eq!(rights(&csi::rules_on_nodes()), rights(&declared));
    }

    #[test]
    fn name_of_the_driver_is_the_one_that_is_laid_inside() {
        assert_eq!(csi::DRIVER, crate::names::DRIVER);
    }
}
