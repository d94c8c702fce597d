//! How many members of etcd there are, are to be, and are asked, while another number of them is wanted.
//!
//! Invariant: whom kube-apiservers begin to ask has a vote, and whom they may still ask is not taken away.

use api::tenant_cluster::EtcdMemberStatus;
use kit_objects::known::Known;
use kit_objects::object::Key;
use serde_json::Value;
use tenant_cp::rollout::template;
use tenant_cp::validate::validated::Etcd;
use tenant_cp::{Validated, names};

use super::claim::claim;
use super::identity::{SEATS, identity, told_to_members};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::types::Target;
use crate::etcd_replacement::number;

/// The tenant cluster with the numbers of members that there are, are to be, and are asked now.
pub(in super::super) fn as_it_is(valid: Validated, observed: &Observed) -> Validated {
    let known = identity(observed).map(|known| known.members.as_slice());
    let wanted = match known.unwrap_or_default() {
        _ if is_restoring(observed) => valid.etcd.wanted,
        [] => valid.etcd.wanted,
        _ => while_it_moves(&valid, observed),
    };
    let (replicas, servers) = match known.unwrap_or_default() {
        // Members that know each other from their start would be another cluster than those of another number.
        [] => match begun_with(observed) {
            Some(members) => (members, members),
            None => return valid,
        },
        // What is built for members is built for those that there were when it was begun.
        known if is_restoring(observed) => {
            let there = after_the_last(known);
            (there, servers(wanted, known, observed).min(there))
        }
        known => (
            wanted.max(after_the_last(known)),
            servers(wanted, known, observed),
        ),
    };
    let etcd = Etcd {
        replicas,
        wanted,
        servers,
        ..valid.etcd
    };
    Validated { etcd, ..valid }
}

/// A single member is one of three while it moves to another class of volumes.
fn while_it_moves(valid: &Validated, observed: &Observed) -> i32 {
    let asked_for = valid.etcd.wanted;
    let class = valid.etcd.storage_class_name.as_ref();
    let members = usize::try_from(asked_for).unwrap_or(0);
    let members = number::wanted(members, class, &claim(observed, 0));
    i32::try_from(members).unwrap_or(asked_for)
}

fn is_restoring(observed: &Observed) -> bool {
    let status = observed.cluster.status.as_ref();
    status.is_some_and(|status| status.restore.is_some())
}

/// The number that the StatefulSet was made with, whose members may have begun by themselves.
fn begun_with(observed: &Observed) -> Option<i32> {
    let ns = observed.tenant_namespace();
    let members = observed.number("StatefulSet", &ns, names::ETCD, "/spec/replicas");
    let members = members
        .there()
        .and_then(|members| i32::try_from(members).ok());
    members.filter(|members| matches!(members, 1 | 3))
}

/// The number after that of the last member: a StatefulSet ends pods from the end on.
fn after_the_last(known: &[EtcdMemberStatus]) -> i32 {
    let is_one = |number: &i32| {
        let name = names::etcd_member(*number);
        known.iter().any(|member| member.name == name)
    };
    SEATS.filter(is_one).max().map_or(0, |last| last + 1)
}

/// How many of them are to be asked, from the first one on.
fn servers(wanted: i32, known: &[EtcdMemberStatus], observed: &Observed) -> i32 {
    let votes =
        |member: &&EtcdMemberStatus| member.started && !member.learner && member.id.is_some();
    let are_enough = |members: usize| i32::try_from(members).is_ok_and(|there| there >= wanted);
    match asked(observed) {
        // Whom it asks that is being replaced it asks further.
        Some(asked) if asked < wanted && !are_enough(known.iter().filter(votes).count()) => {
            asked.max(1)
        }
        // Those that are to go are what serves.
        Some(asked) if asked > wanted && !stay(wanted, known, observed) => asked,
        None if !are_enough(known.len()) => 1,
        Some(_) | None => wanted,
    }
}

/// Whether all that are wanted vote, and on the claims that the status knows.
fn stay(wanted: i32, known: &[EtcdMemberStatus], observed: &Observed) -> bool {
    let replacing = identity(observed).and_then(|known| known.replacing.as_ref());
    (0..wanted).all(|number| {
        let name = names::etcd_member(number);
        let member = known.iter().find(|member| member.name == name);
        let votes = member.filter(|member| member.started && !member.learner);
        let is_replaced = replacing.is_some_and(|replacing| replacing.member == name);
        let claim = claim(observed, number);
        let claim = claim.there().filter(|claim| !claim.terminating);
        let its = votes.zip(claim);
        !is_replaced && its.is_some_and(|(member, claim)| member.volume_uid == claim.uid)
    })
}

/// How many members the kube-apiservers ask that are made now.
fn asked(observed: &Observed) -> Option<i32> {
    let ns = observed.tenant_namespace();
    let live = observed
        .find("Deployment", &ns, names::CONTROL_PLANE)
        .there()?;
    asks(live)
}

/// How many members the kube-apiservers of a Deployment ask; none where it is not theirs.
pub(in super::super) fn asks(deployment: &Value) -> Option<i32> {
    let servers = argument(deployment, "--etcd-servers=")?;
    i32::try_from(servers.split(',').count()).ok()
}

pub(in super::super) fn argument<'a>(workload: &'a Value, flag: &str) -> Option<&'a str> {
    let containers = workload.pointer("/spec/template/spec/containers")?;
    let containers = containers.as_array()?.iter();
    let args = containers.filter_map(|container| container["args"].as_array());
    let mut args = args.flatten().filter_map(Value::as_str);
    args.find_map(|arg| arg.strip_prefix(flag))
}

/// Whether every pod of kube-apiservers is of the template that is made now, those that end, too.
pub(super) fn is_calm(observed: &Observed) -> bool {
    let ns = observed.tenant_namespace();
    let live = observed.find("Deployment", &ns, names::CONTROL_PLANE);
    let (Known::Known(live), Some(pods)) = (live, &observed.pods) else {
        return false;
    };
    let hash = template::of_workload(live);
    let mut servers = pods
        .iter()
        .filter(|pod| pod.component == names::CONTROL_PLANE);
    hash.is_some() && servers.all(|pod| pod.template.as_deref() == hash)
}

/// Whether no kube-apiserver asks a member that is not wanted.
pub(super) fn is_unasked(valid: &Validated, observed: &Observed) -> bool {
    is_calm(observed) && asked(observed).is_some_and(|asked| asked <= valid.etcd.wanted)
}

/// Whether a member that starts now is told by its flags who the others are: it has to name exactly those that
/// there are, and templates of former operators name all that there were when they were made.
pub(super) fn names_members(valid: &Validated, observed: &Observed) -> bool {
    let ns = observed.tenant_namespace();
    let Some(live) = observed.find("StatefulSet", &ns, names::ETCD).there() else {
        return false;
    };
    let named = argument(live, "--initial-cluster=");
    named.is_some_and(|named| {
        let told = || told_to_members(valid, observed).map(|told| told.initial_cluster());
        named == names::INITIAL_CLUSTER_OF_SECRET || told().as_deref() == Some(named)
    })
}

/// Services of members that there are not any more.
pub(super) fn without_members(valid: &Validated, observed: &Observed) -> Vec<Target> {
    let ns = valid.tenant_namespace.as_str();
    let target = |number| {
        let key = Key::new("Service", ns, &names::etcd_member(number));
        Target::seen(&observed.objects, key)
    };
    (valid.etcd.replicas..SEATS.end)
        .filter_map(target)
        .collect()
}
