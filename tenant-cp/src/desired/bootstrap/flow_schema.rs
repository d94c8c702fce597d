//! A FlowSchema that tells requests of Covey's own parts, and of those who do not say who they are, from use of a tenant
//! cluster: the kube-apiserver counts them apart.
//!
//! They have the level that they have without it, so nobody is served sooner or later for it, but for flannel, which has
//! that of everybody instead of that of workloads. Kubernetes' own parts have schemas of their own already. It is always there, so that what was counted before somebody wants to
//! know is told apart, too. Invariant: whoever is not named here counts as use.

use k8s_openapi::api::flowcontrol::v1::{
    FlowDistinguisherMethod, FlowSchema, FlowSchemaSpec, GroupSubject, NonResourcePolicyRule,
    PolicyRulesWithSubjects, PriorityLevelConfigurationReference, ResourcePolicyRule, Subject,
    UserSubject,
};
use kit_objects::object::Object;

use crate::meta::tenant_meta;
use crate::names;

/// Its name.
pub const NAME: &str = "covey";
/// After all of Kubernetes' own parts, before service accounts (9000) and everybody (9900).
const PRECEDENCE: i32 = 1000;
/// The level of everybody.
const LEVEL: &str = "global-default";

/// Users of addons whose requests are no use. For flannel no schema of Kubernetes is meant: its namespace is its own.
const OF_ADDONS: [&str; 9] = [
    "covey-ccm",
    "covey-autoscaler",
    "covey-cluster-autoscaler",
    "covey-csi-provisioner",
    "covey-csi-attacher",
    "covey-csi-resizer",
    "covey-csi-snapshotter",
    "covey-snapshot-controller",
    "system:serviceaccount:kube-flannel:flannel",
];

pub(crate) fn flow_schema() -> Object {
    let users = [names::OPERATOR_USER, names::KONNECTIVITY_USER];
    let users = users.into_iter().chain(OF_ADDONS);
    let mut subjects: Vec<_> = users.map(user).collect();
    subjects.push(Subject {
        kind: "Group".to_owned(),
        group: Some(GroupSubject {
            name: "system:unauthenticated".to_owned(),
        }),
        ..Subject::default()
    });
    let all = || vec!["*".to_owned()];
    Object::new(&FlowSchema {
        metadata: tenant_meta(NAME),
        spec: Some(FlowSchemaSpec {
            distinguisher_method: Some(FlowDistinguisherMethod {
                type_: "ByUser".to_owned(),
            }),
            matching_precedence: Some(PRECEDENCE),
            priority_level_configuration: PriorityLevelConfigurationReference {
                name: LEVEL.to_owned(),
            },
            rules: Some(vec![PolicyRulesWithSubjects {
                non_resource_rules: Some(vec![NonResourcePolicyRule {
                    non_resource_urls: all(),
                    verbs: all(),
                }]),
                resource_rules: Some(vec![ResourcePolicyRule {
                    api_groups: all(),
                    cluster_scope: Some(true),
                    namespaces: Some(all()),
                    resources: all(),
                    verbs: all(),
                }]),
                subjects,
            }]),
        }),
        status: None,
    })
}

fn user(name: &str) -> Subject {
    Subject {
        kind: "User".to_owned(),
        user: Some(UserSubject {
            name: name.to_owned(),
        }),
        ..Subject::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addons::csi::sidecars;
    use crate::addons::{autoscaler, cloud_controller, flannel};

    #[test]
    fn users_of_addons_are_those_that_the_addons_have() {
        let mut users = vec![
            cloud_controller::USER.to_owned(),
            autoscaler::names::USER.to_owned(),
            autoscaler::names::STOCK_USER.to_owned(),
        ];
        users.extend(sidecars::users());
        let (namespace, name) = (flannel::NAMESPACE, flannel::NAME);
        users.push(format!("system:serviceaccount:{namespace}:{name}"));
        assert_eq!(users, OF_ADDONS);
    }

    #[test]
    fn covey_and_nobody_in_particular_are_told_apart_and_nobody_else() {
        let schema = flow_schema().value;
        assert_eq!(
            schema["spec"]["priorityLevelConfiguration"]["name"],
            "global-default"
        );
        let subjects = schema["spec"]["rules"][0]["subjects"].as_array().unwrap();
        for subject in subjects {
            let name = match subject["kind"].as_str().unwrap() {
                "User" => subject["user"]["name"].as_str().unwrap(),
                _ => subject["group"]["name"].as_str().unwrap(),
            };
            let is_known = name.starts_with("covey-")
                || [
                    "system:konnectivity-server",
                    "system:serviceaccount:kube-flannel:flannel",
                    "system:unauthenticated",
                ]
                .contains(&name);
            assert!(is_known, "{name}");
        }
        assert!(subjects.len() >= 12, "{subjects:?}");
    }
}
