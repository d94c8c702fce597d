//! PodDisruptionBudgets: how many pods a drain of the management cluster's nodes may take at once.
//!
//! One at a time, whatever the number of replicas. With three, quorum and service stay. With one,
//! the drain goes through and the tenant's API is away for the seconds that the pod needs to move:
//! a budget that blocked it would block every upgrade of the management cluster's nodes, and who
//! asks for one replica has accepted such seconds. The tenant's workloads run on meanwhile.
//! Invariant: a pod that is broken anyway never blocks a drain.

use k8s_openapi::{
    api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use kit_objects::object::Object;

use crate::meta::{meta, selector};
use crate::names;
use crate::validate::validated::Validated;

/// The budgets of the control plane, of its controllers and of etcd.
pub(crate) fn budgets(v: &Validated) -> Vec<Object> {
    [names::CONTROL_PLANE, names::CONTROLLERS, names::ETCD]
        .map(|name| budget(v, name))
        .into()
}

/// The budget of one component's pods.
pub(crate) fn budget(v: &Validated, name: &str) -> Object {
    Object::new(&PodDisruptionBudget {
        metadata: meta(v, name, name),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(LabelSelector {
                match_labels: Some(selector(name)),
                ..LabelSelector::default()
            }),
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    })
}
