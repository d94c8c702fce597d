//! How many members of etcd there are, are to be, and are asked, while another number of them is wanted.
//!
//! Invariant: whom kube-apiservers begin to ask has a vote, and whom they may still ask is not taken away.

use kit_objects::known::Known;
use kit_objects::object::Key;
use serde_json::Value;
use tenant_cp::rollout::template;
use tenant_cp::{Validated, names};

use super::identity::identity;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::types::Target;

/// The tenant cluster as it is on the way to the number of members that is wanted; none where it has it, or none yet.
pub(in super::super) fn on_the_way(valid: &Validated, observed: &Observed) -> Option<Validated> {
    let known = &identity(observed)?.members;
    let count = |members: usize| i32::try_from(members).unwrap_or(i32::MAX);
    let (wanted, there) = (valid.etcd.wanted, count(known.len()));
    if there == 0 {
        return None;
    }
    let votes = known.iter().filter(|m| m.started && !m.learner && m.id.is_some());
    let votes = count(votes.count());
    let servers = match asked(observed) {
        Some(asked) if asked < wanted && votes < wanted => asked.max(1),
        None if there < wanted => votes.max(1),
        Some(_) | None => wanted,
    };
    let etcd = tenant_cp::validate::validated::Etcd {
        replicas: wanted.max(there),
        servers,
        ..valid.etcd.clone()
    };
    (etcd != valid.etcd).then(|| Validated {
        etcd,
        ..valid.clone()
    })
}

/// How many members the kube-apiservers ask that are made now.
fn asked(observed: &Observed) -> Option<i32> {
    let ns = observed.tenant_namespace();
    let live = observed.find("Deployment", &ns, names::CONTROL_PLANE).there()?;
    let containers = live.pointer("/spec/template/spec/containers")?.as_array()?;
    let args = containers.iter().filter_map(|container| container["args"].as_array());
    let mut args = args.flatten().filter_map(Value::as_str);
    let servers = args.find_map(|arg| arg.strip_prefix("--etcd-servers="))?;
    i32::try_from(servers.split(',').count()).ok()
}

/// Whether no kube-apiserver asks a member that is not wanted: none that ends, too.
pub(super) fn is_unasked(valid: &Validated, observed: &Observed) -> bool {
    let ns = observed.tenant_namespace();
    let live = observed.find("Deployment", &ns, names::CONTROL_PLANE);
    let (Known::Known(live), Some(pods)) = (live, &observed.pods) else {
        return false;
    };
    let hash = template::of_workload(live);
    let mut servers = pods.iter().filter(|pod| pod.component == names::CONTROL_PLANE);
    asked(observed).is_some_and(|asked| asked <= valid.etcd.wanted)
        && servers.all(|pod| pod.template.as_deref() == hash)
}

/// Services of members that there are not any more.
pub(super) fn without_members(valid: &Validated, observed: &Observed) -> Vec<Target> {
    let ns = valid.tenant_namespace.as_str();
    let target = |number| {
        let key = Key::new("Service", ns, &names::etcd_member(number));
        let live = observed.objects.get(&key)?;
        let is_going = !live["metadata"]["deletionTimestamp"].is_null();
        let uid = live["metadata"]["uid"].as_str().filter(|_| !is_going)?;
        Some(Target {
            uid: uid.to_owned(),
            resource_version: None,
            with_dependents: false,
            key,
        })
    };
    (valid.etcd.replicas..3).filter_map(target).collect()
}
