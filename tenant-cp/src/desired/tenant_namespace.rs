//! The tenant namespace, and the bindings that let the operator work there and in the user's.
//!
//! Pod Security "restricted" is enforced while there are only the control plane's pods, which satisfy
//! it. The pods of KubeVirt's virtual machines lack a seccomp profile unless KubeVirt is configured
//! to give them one (`seccompConfiguration`, virt-controller `services/template.go` of 1.6), so with
//! workers it is "baseline"; "restricted" goes on to be audited and warned of.
//! Invariant: never less than "baseline", so nothing that Covey or a provider puts there can ask for
//! the node's network, files or privileges unnoticed.

use k8s_openapi::{
    api::{
        core::v1::Namespace,
        rbac::v1::{RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kit_objects::object::Object;

use crate::meta::{labels, meta};
use crate::settings::Settings;
use crate::validate::validated::Validated;

pub(crate) mod disruption_budgets;
pub(crate) mod network_policies;
pub(crate) mod service_accounts;

/// The tenant namespace and what lets the operator work in it. `workers`: there are (or will be)
/// virtual machines in it.
#[must_use]
pub fn foundation(v: &Validated, settings: &Settings, workers: bool) -> Vec<Object> {
    let mut namespace = labels(v, api::names::COMPONENT_TENANT_NAMESPACE);
    let enforced = if workers { "baseline" } else { "restricted" };
    for (mode, level) in [
        ("enforce", enforced),
        ("audit", "restricted"),
        ("warn", "restricted"),
    ] {
        namespace.insert(
            format!("pod-security.kubernetes.io/{mode}"),
            level.to_owned(),
        );
    }
    vec![
        Object::new(&Namespace {
            metadata: ObjectMeta {
                name: Some(v.tenant_namespace.clone()),
                labels: Some(namespace),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        }),
        binding(
            meta(v, api::names::OPERATOR_BINDING, "operator"),
            &settings.tenant_namespace_role,
            settings,
        ),
    ]
}

/// What lets the operator write into a user's namespace; one for all TenantClusters there.
#[must_use]
pub fn user_binding(namespace: &str, settings: &Settings) -> Object {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let metadata = ObjectMeta {
        name: Some(api::names::OPERATOR_BINDING.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some(
            [
                label(api::names::LABEL_MANAGED_BY, api::names::MANAGED_BY),
                label(api::names::LABEL_COMPONENT, "operator"),
            ]
            .into(),
        ),
        ..ObjectMeta::default()
    };
    binding(metadata, &settings.user_namespace_role, settings)
}

fn binding(metadata: ObjectMeta, cluster_role: &str, settings: &Settings) -> Object {
    Object::new(&RoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "ClusterRole".to_owned(),
            name: cluster_role.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: settings.operator_service_account.clone(),
            namespace: Some(settings.operator_namespace.clone()),
            ..Subject::default()
        }]),
    })
}
