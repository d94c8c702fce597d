//! Replaces members' pods that are of an older template, one after another.
//!
//! The StatefulSet does not (`OnDelete`): it goes by number, and would take the quorum's last member where
//! another one is broken.
//! Invariant: at most one member is missing by our doing, and none that serves while another one does not.

use api::Reason;
use kit_objects::object::Key;
use tenant_cp::rollout::template;
use tenant_cp::{Validated, names};

use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::observed::component_pods::ComponentPod;
use crate::controllers::tenant_cluster::plan::types::Target;
use crate::status::Waiting;

/// What to do with the members now.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Next {
    /// The pod to end, so that it is made from the newest template.
    pub(super) replace: Option<Target>,
    /// What is waited for.
    pub(super) waiting: Option<Waiting>,
}

/// The next step; nothing where all are of the newest template, or that is not known.
pub(super) fn next(valid: &Validated, observed: &Observed) -> Next {
    let ns = valid.tenant_namespace.as_str();
    let members = observed.find("StatefulSet", ns, names::ETCD).there();
    let wanted = members.and_then(template::of_workload);
    let (Some(wanted), Some(pods)) = (wanted, &observed.pods) else {
        return Next::default();
    };
    let pod = |number| {
        let name = names::etcd_member(number);
        pods.iter().find(|pod| pod.name == name)
    };
    let members: Vec<_> = (0..valid.etcd.replicas).map(pod).collect();
    let is_old = |pod: &ComponentPod| pod.template.as_deref() != Some(wanted);
    let old: Vec<_> = members
        .iter()
        .flatten()
        .copied()
        .filter(|pod| is_old(pod))
        .collect();
    if old.is_empty() {
        return Next::default();
    }
    let is_back = |pod: &Option<&ComponentPod>| pod.is_some_and(|pod| !pod.terminating);
    // One that does not serve is no loss, whatever the others do: they may be waiting for it.
    let broken = old.iter().rev().find(|pod| !pod.ready);
    let healthy = old
        .last()
        .filter(|_| members.iter().flatten().all(|pod| pod.ready));
    match broken.or(healthy) {
        Some(pod) if members.iter().all(is_back) => Next {
            replace: Some(Target {
                key: Key::new("Pod", ns, &pod.name),
                uid: pod.uid.clone(),
                resource_version: None,
                with_dependents: false,
            }),
            waiting: None,
        },
        _ => Next {
            replace: None,
            waiting: Some(Waiting {
                reason: Reason::RollingOut,
                message: format!(
                    "members of etcd are replaced one by one, each when all others are ready; {} to go",
                    old.len()
                ),
            }),
        },
    }
}
