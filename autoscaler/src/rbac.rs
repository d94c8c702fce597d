//! RBAC rules: the rights that the code needs, next to why. Whoever deploys it grants these and no more.
//!
//! Invariant: no right on Secrets, pods or virtual machines; none to make or delete a Machine; none
//! to change anything of a NodePool that an admission policy of the chart does not also allow.

use api::names::PRIORITY_EXPANDER;
use kit_objects::rbac::Rule;

/// Everywhere in the tenant cluster.
#[must_use]
pub fn tenant() -> Vec<Rule> {
    vec![
        // Zones, and the annotation on nodes of a pool that rolls.
        Rule::new(&[""], &["nodes"], &["list", "patch", "watch"]),
    ]
}

/// In kube-system of the tenant cluster.
#[must_use]
pub fn kube_system() -> Vec<Rule> {
    vec![
        // Which pools grow first.
        Rule::new(&[""], &["configmaps"], &["get", "patch"]).named(&[PRIORITY_EXPANDER]),
    ]
}

/// In the user's namespace of the management cluster.
#[must_use]
pub fn management() -> Vec<Rule> {
    let mut rules = vec![
        // "get" is to decide anew when others wrote.
        Rule::new(
            &["covey.dev"],
            &["nodepools"],
            &["get", "list", "patch", "watch"],
        ),
        Rule::new(&["covey.dev"], &["machines"], &["list", "watch"]),
    ];
    rules.extend(kit::events::RULES);
    rules
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::rbac::v1::PolicyRule;
    use tenant_cp::addons::autoscaler;

    use super::*;

    /// Group, resource, verb, names.
    type Rights = BTreeSet<(String, String, String, Vec<String>)>;

    fn declared(rules: &[Rule]) -> Rights {
        let owned = |text: &&str| (*text).to_owned();
        let mut rights = Rights::new();
        for rule in rules {
            for (group, resource) in rule
                .groups
                .iter()
                .flat_map(|g| rule.resources.iter().map(move |r| (g, r)))
            {
                let names: Vec<_> = rule.names.iter().map(owned).collect();
                let right = |v: &&str| (owned(group), owned(resource), owned(v), names.clone());
                rights.extend(rule.verbs.iter().map(right));
            }
        }
        rights
    }

    fn laid(rules: &[PolicyRule]) -> Rights {
        let mut rights = Rights::new();
        for rule in rules {
            let names = rule.resource_names.clone().unwrap_or_default();
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    let right =
                        |v: &String| (group.clone(), resource.clone(), v.clone(), names.clone());
                    rights.extend(rule.verbs.iter().map(right));
                }
            }
        }
        rights
    }

    #[test]
    fn what_the_addon_grants_is_what_the_code_declares() {
        assert_eq!(laid(&autoscaler::rules_inside()), declared(&tenant()));
        assert_eq!(
            laid(&autoscaler::rules_kube_system()),
            declared(&kube_system())
        );
        assert_eq!(laid(&autoscaler::rules_outside()), declared(&management()));
    }
}
