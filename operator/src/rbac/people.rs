//! What people may do with our kinds, in namespaces where they have the usual role `view`, `edit` or `admin` of
//! Kubernetes: these roles are added to those.
//!
//! Invariant: whoever may see may not change, and nobody gets a right on what belongs to the management cluster
//! (BackupTargets, FleetPolicies, TenantQuotas), on a status, or to make machines.

use kit_objects::rbac::Rule;

/// Label by which Kubernetes adds a ClusterRole to one of its own (RBAC, aggregated ClusterRoles); `admin` has what `edit`
/// has.
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// One role of people.
#[derive(Clone, Copy, Debug)]
pub struct People {
    /// Its name.
    pub name: &'static str,
    /// Kubernetes' own role that it is added to.
    pub added_to: &'static str,
    /// Its rules.
    pub rules: &'static [Rule],
}

impl People {
    /// The label that adds it.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{AGGREGATE}{}", self.added_to)
    }
}

/// All of them.
pub const ALL: [People; 3] = [
    People {
        name: "covey-view",
        added_to: "view",
        rules: &[Rule::new(
            &["covey.dev"],
            &[
                "accessgrants",
                "hosts",
                "machines",
                "nodepools",
                "nodepools/scale",
                "providerconfigs",
                "restores",
                "snapshots",
                "tenantclusters",
            ],
            &["get", "list", "watch"],
        )],
    },
    People {
        name: "covey-edit",
        added_to: "edit",
        rules: &[
            Rule::new(
                &["covey.dev"],
                &[
                    "hosts",
                    "nodepools",
                    "providerconfigs",
                    "restores",
                    "snapshots",
                    "tenantclusters",
                ],
                &["create", "delete", "deletecollection", "patch", "update"],
            ),
            Rule::new(&["covey.dev"], &["nodepools/scale"], &["patch", "update"]),
            // For whom, and with which rights, says a policy of the chart: by this one to read.
            Rule::new(
                &["covey.dev"],
                &["accessgrants"],
                &["create", "delete", "deletecollection"],
            ),
            Rule::new(&["covey.dev"], &["tenantclusters/view"], &["create"]),
            // Made by its pool, which makes another in its place; what of it may be changed says a policy of the chart.
            Rule::new(
                &["covey.dev"],
                &["machines"],
                &["delete", "patch", "update"],
            ),
        ],
    },
    People {
        name: "covey-admin",
        added_to: "admin",
        // No object has it: an AccessGrant with an administrator's rights needs it.
        rules: &[Rule::new(
            &["covey.dev"],
            &["tenantclusters/admin"],
            &["create"],
        )],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use kube::Resource as _;

    #[test]
    fn every_kind_of_users_can_be_seen_and_none_of_the_management_cluster() {
        let rendered = kit_objects::rbac::render(ALL[0].rules);
        let rendered = serde_json::json!(rendered).to_string();
        for definition in api::crds() {
            if definition.spec.names.plural == api::MachineAddresses::plural(&()) {
                // Of tenant namespaces, where people have no role of ours.
                continue;
            }
            let name = format!("\"{}\"", definition.spec.names.plural);
            let is_users = definition.spec.scope == "Namespaced";
            assert_eq!(rendered.contains(&name), is_users, "{name}");
        }
    }

    #[test]
    fn whoever_may_see_may_not_change() {
        let verbs = serde_json::json!(kit_objects::rbac::render(ALL[0].rules)).to_string();
        for verb in ["create", "delete", "patch", "update"] {
            assert!(!verbs.contains(verb), "{verb}");
        }
        let labels = ALL[1..].iter().map(People::label);
        let wanted = ["edit", "admin"].map(|role| format!("{AGGREGATE}{role}"));
        assert_eq!(labels.collect::<Vec<_>>(), wanted);
    }
}
