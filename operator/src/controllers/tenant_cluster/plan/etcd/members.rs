//! Ends members' pods that are of an older template, or whose database's file is mostly free, one after another:
//! followers first, and the one that leads once another one does.
//!
//! The StatefulSet does not (`OnDelete`): it goes by number, and would take the quorum's last member where
//! another one is broken.
//! Invariant: at most one member is missing by our doing, and none that serves while another one does not, or
//! has not caught up.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Reason;
use jiff::Timestamp;
use kit_objects::known::Known;
use kit_objects::object::Key;
use tenant_cp::rollout::template;
use tenant_cp::{Validated, names};

use super::facts::pod;
use super::identity::addresses;
use crate::controllers::tenant_cluster::observed::component_pods::ComponentPod;
use crate::controllers::tenant_cluster::observed::{Etcd, Observed};
use crate::controllers::tenant_cluster::plan::types::{Action, Target};
use crate::etcd_replacement::step::Step;
use crate::etcd_space::level::is_fragmented;
use crate::status::Waiting;
use crate::tenant_session::etcd::answers::{Alarm, MemberStatus};

/// Entries of the log that a member may be behind when the next one's pod is ended (operations.md §4.4).
const MOST_BEHIND: u64 = 100;
/// Steps of one reconcile at most: the leader is moved once.
const MOST_STEPS: usize = 2;

/// What to do with the members now.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Next {
    /// The pod to end, so that it is made from the newest template.
    pub(super) replace: Option<Target>,
    /// What has to be asked or done first.
    pub(super) first: Option<Action>,
    /// What is waited for.
    pub(super) waiting: Option<Waiting>,
    /// When to look again although nothing happened.
    pub(super) again: Option<Duration>,
}

/// Why pods are ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Why {
    /// They are of an older template.
    Template,
    /// Their members write their databases anew when they start.
    Fragments,
}

/// The next step; nothing where there is none, or that is not known. `rests`: nothing else goes on, so that
/// members may be ended for their fragments.
pub(super) fn next(
    valid: &Validated,
    observed: &Observed,
    (may_roll, rests): (bool, bool),
    now: Timestamp,
) -> Next {
    let ns = valid.tenant_namespace.as_str();
    let set = observed.find("StatefulSet", ns, names::ETCD).there();
    let wanted = set.and_then(template::of_workload);
    let (Some(wanted), Some(pods)) = (wanted, &observed.pods) else {
        return Next::default();
    };
    let pod = |number| {
        let name = names::etcd_member(number);
        pods.iter().find(|pod| pod.name == name)
    };
    let members: Vec<_> = (0..valid.etcd.replicas).map(pod).collect();
    let is_old = |pod: &&ComponentPod| pod.template.as_deref() != Some(wanted);
    let there = || members.iter().flatten().copied();
    let old: Vec<_> = there().filter(is_old).collect();
    let (due, why) = match old.is_empty() {
        false if may_roll => (old, Why::Template),
        true if rests && members.len() > 1 => {
            let is_due = |pod: &&ComponentPod| is_for_fragments(observed, pod, now);
            (there().filter(is_due).collect(), Why::Fragments)
        }
        _ => return Next::default(),
    };
    if due.is_empty() {
        return Next::default();
    }
    let waits = |again| Next {
        waiting: Some(waiting(why, due.len())),
        again,
        ..Next::default()
    };
    let replace = |pod: &ComponentPod| Next {
        replace: Some(target(ns, pod)),
        ..Next::default()
    };
    if !members
        .iter()
        .all(|pod| pod.is_some_and(|pod| !pod.terminating))
    {
        return waits(None);
    }
    // One that does not serve is no loss, whatever the others do: they may be waiting for it.
    if let Some(broken) = due.iter().rev().find(|pod| !pod.ready) {
        return replace(broken);
    }
    if !there().all(|pod| pod.ready) {
        return waits(None);
    }
    let Some(newest) = due.last().filter(|_| members.len() > 1) else {
        return due.last().map_or_else(Next::default, |pod| replace(pod));
    };
    if observed.etcd == Etcd::NotAsked {
        return Next {
            first: Some(Action::AskEtcd {
                members: addresses(valid, observed),
                list: false,
            }),
            ..Next::default()
        };
    }
    let answers: BTreeMap<_, _> = observed.etcd.answers().collect();
    if answers.is_empty() {
        // Etcd is not reached from here: who leads is not known, and another one does at once.
        return replace(newest);
    }
    // One that has other data than the rest would not start again.
    let mut alarms = answers.values().flat_map(|member| &member.alarms);
    if alarms.any(|alarm| *alarm == Alarm::Corrupt) {
        return waits(None);
    }
    if let Some(left) = serve_for(observed, there(), now) {
        return waits(Some(left));
    }
    let Some(leader) = leader(&members, &answers) else {
        return waits(Some(observed.etcd_patience.serving));
    };
    if let Some(follower) = due.iter().rev().find(|pod| pod.name != leader) {
        return replace(follower);
    }
    // Another one that stays is to lead first.
    let others = answers.iter().filter(|(name, _)| **name != leader);
    let best = others.max_by_key(|(_, member)| member.applied);
    let steps = &observed.etcd_steps;
    match best {
        Some((_, best)) if steps.refusal.is_none() && steps.done < MOST_STEPS => Next {
            first: Some(Action::ReplaceMember {
                members: addresses(valid, observed),
                step: Step::MoveLeader {
                    from: leader.to_owned(),
                    to: best.member_id.clone(),
                },
            }),
            ..Next::default()
        },
        _ => waits(Some(observed.etcd_patience.serving)),
    }
}

fn target(namespace: &str, pod: &ComponentPod) -> Target {
    Target {
        key: Key::new("Pod", namespace, &pod.name),
        uid: pod.uid.clone(),
        resource_version: None,
        with_dependents: false,
    }
}

fn waiting(why: Why, left: usize) -> Waiting {
    match why {
        Why::Template => Waiting {
            reason: Reason::RollingOut,
            message: format!(
                "members of etcd are replaced one by one, each when all others are ready; {left} to go"
            ),
        },
        Why::Fragments => Waiting {
            reason: Reason::Defragmenting,
            message: format!(
                "much of the file of etcd's database is free: members are restarted one by one, each when all \
                 others are ready, and write it anew when they start; {left} to go"
            ),
        },
    }
}

/// Whether a member would give much back when it starts, and did not start a moment ago.
fn is_for_fragments(observed: &Observed, of: &ComponentPod, now: Timestamp) -> bool {
    let mut answers = observed.etcd.answers();
    let answer = answers.find(|(name, _)| *name == of.name);
    let is_old_enough = match pod(observed, &of.name) {
        Known::Known(pod) => pod
            .created
            .is_some_and(|created| elapsed(created, now) >= observed.etcd_patience.fragments),
        Known::Absent | Known::Unknown { .. } => false,
    };
    is_old_enough
        && answer.is_some_and(|(_, member)| member.alarms.is_empty() && is_fragmented(member))
}

fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// How long it takes until all of them have served for long enough; none where they have.
fn serve_for<'a>(
    observed: &Observed,
    pods: impl Iterator<Item = &'a ComponentPod>,
    now: Timestamp,
) -> Option<Duration> {
    let since = pods.filter_map(|of| match pod(observed, &of.name) {
        Known::Known(pod) => pod.since,
        Known::Absent | Known::Unknown { .. } => None,
    });
    let served = since.map(|since| elapsed(since, now)).min()?;
    let left = observed.etcd_patience.serving.checked_sub(served)?;
    (!left.is_zero()).then_some(left)
}

/// Name of the member that leads, where all of them answer, agree on it, vote and have caught up.
fn leader<'a>(
    members: &[Option<&'a ComponentPod>],
    answers: &BTreeMap<&str, &MemberStatus>,
) -> Option<&'a str> {
    let mut all = Vec::new();
    for pod in members {
        let pod = (*pod)?;
        all.push((pod.name.as_str(), *answers.get(pod.name.as_str())?));
    }
    let (_, first) = all.first()?;
    let leads = first.leader.as_ref()?;
    let newest = all.iter().map(|(_, member)| member.index).max()?;
    let is_well = |member: &MemberStatus| {
        member.leader.as_ref() == Some(leads)
            && !member.is_learner
            && newest - member.index < MOST_BEHIND
    };
    if !all.iter().all(|(_, member)| is_well(member)) {
        return None;
    }
    let mut all = all.into_iter();
    let (name, _) = all.find(|(_, member)| member.member_id == *leads)?;
    Some(name)
}
