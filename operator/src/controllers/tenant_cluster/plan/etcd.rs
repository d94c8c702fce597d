//! etcd: its volumes, its Services, its members.
//!
//! Invariant: nothing is ever bootstrapped twice. Once its members had a leader, the status knows their
//! volumes, members that have run do not start without data (`identity`), and a volume that is lost is
//! reported; an empty one takes its place only while others have its data (`replacement`).

use std::time::Duration;

use api::tenant_cluster::{EtcdMemberStatus, EtcdStatus};
use api::{ConditionType, Reason, TenantCluster};
use jiff::Timestamp;
use kit_objects::object::{Key, Object};
use tenant_cp::Validated;
use tenant_cp::names;

mod claim;
pub(super) mod disks;
mod facts;
pub(super) mod identity;
mod last_index;
mod losses;
mod members;
pub(super) mod replacement;
pub(super) mod sizes;
pub(super) mod space;
pub(super) mod volumes;

use self::identity::{addresses, claims, identity};
use self::losses::loss;
use self::replacement::Replacing;
use self::space::Relief;
use super::awaited;
use super::pods;
use super::types::{Action, Part};
use crate::controllers::tenant_cluster::observed::{Etcd, Observed};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::etcd_replacement::comparison::Comparison;
use crate::hibernation;
use crate::pod_failures::golden_start;
use crate::status::Waiting;
use crate::tenant_session::etcd::answers::Alarm;

/// What is made of it while a restore is under way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Care {
    /// Everything.
    Whole,
    /// No member is replaced, and nothing dropped: it is the restore's to say who has which data.
    AsItIs,
    /// It has no pods; claims that are lost are made anew, for what is built on them.
    Held,
    /// It has no pods because the tenant cluster sleeps; what is lost is not made anew.
    Asleep,
    /// It has nothing yet but claims, on which a restore builds what it begins with.
    Awaited,
}

pub(super) fn plan(
    valid: &Validated,
    observed: &Observed,
    base: Vec<Object>,
    members: Option<Object>,
    (may_roll, rests, care): (bool, bool, Care),
    now: Timestamp,
) -> Part {
    let mut part = Part::new(PartName::Etcd);
    if care == Care::Awaited {
        let base = volumes::keeping_their_size(base, observed);
        part.apply("etcd volumes", observed, base);
        part.waiting = Some(awaited::waiting(observed));
        return part;
    }
    if care == Care::Held {
        let base = volumes::keeping_their_size(base, observed);
        part.apply("etcd volumes", observed, base);
        let members = members.map(|members| volumes::keeping_their_template(members, observed));
        part.apply("etcd", observed, members.into_iter().collect());
        return part;
    }
    let known = identity(observed);
    let members_known = known.iter().flat_map(|known| &known.members);
    let lost: Vec<_> = members_known
        .filter_map(|member| loss(observed, member))
        .collect();
    let mut replacing = match care {
        Care::Whole => replacement::plan(valid, observed, !lost.is_empty(), now),
        Care::AsItIs | Care::Held | Care::Asleep | Care::Awaited => Replacing::default(),
    };
    // Whoever made the claim of a lost volume anew: it is not that volume. One is made where the member that
    // had it is no member any more.
    let is_kept = |object: &Object| {
        let is_lost = lost.iter().any(|loss| loss.is_of(object));
        !is_lost || replacing.makes(object)
    };
    part.apply(
        "etcd volumes",
        observed,
        volumes::keeping_their_size(base.into_iter().filter(is_kept).collect(), observed),
    );
    let members = members.map(|members| volumes::keeping_their_template(members, observed));
    part.apply("etcd", observed, members.into_iter().collect());
    if care == Care::Asleep {
        part.problem = losses::told(valid, observed, &lost);
        let noted = asleep(observed).filter(|etcd| known != Some(etcd));
        part.actions.extend(noted.map(Action::KeepEtcd));
        return part;
    }
    part.deletions
        .extend(sizes::without_members(valid, observed));
    let is_full = alarm(observed).is_some_and(|told| told.reason == Reason::NoSpace);
    // What is dropped now would be missing in the backup.
    let mut relief = match care {
        Care::Whole => space::plan(valid, observed, is_full),
        Care::AsItIs | Care::Held | Care::Asleep | Care::Awaited => Relief::default(),
    };
    let mut first = None;
    if part.is_settled() && !relief.goes_on() && !replacing.is_due() {
        let may_end = (may_roll, rests && care == Care::Whole);
        let next = members::next(valid, observed, may_end, now);
        part.deletions.extend(next.replace);
        part.waiting = next.waiting;
        first = next.first;
    }
    // After all else, and not while members are ended one by one.
    let is_calm = !relief.goes_on()
        && !replacing.is_due()
        && part.waiting.is_none()
        && replacement::pods_stay(observed);
    let lead = is_calm.then(|| disks::lead(valid, observed, now)).flatten();
    let repairs = replacing.waiting.take().or(relief.waiting.take());
    part.waiting = repairs.or(part.waiting);
    part.problem = losses::told(valid, observed, &lost)
        .or_else(|| differing(observed))
        .or_else(|| replacing.problem.take())
        .or_else(|| pods::lasting_failure(observed, names::ETCD))
        .or_else(|| foreign(observed))
        .or_else(|| alarm(observed))
        .or_else(|| space::low(observed))
        .or_else(|| disks::told(valid, observed));
    if let Some(action) = losses::next(observed).filter(|_| part.is_settled()) {
        part.actions.push(action);
        return part;
    }
    let members = || addresses(valid, observed);
    let is_listed = observed.etcd_listing.is_some();
    if replacing.has_to_be_listed && !is_listed {
        let (members, list) = (members(), true);
        part.actions.push(Action::AskEtcd { members, list });
        return part;
    }
    if observed.etcd == Etcd::NotAsked && is_asked(valid, observed) {
        let (members, list) = (members(), false);
        part.actions.push(Action::AskEtcd { members, list });
        return part;
    }
    if let Some(asks @ Action::AskEtcd { .. }) = first {
        part.actions.push(asks);
        return part;
    }
    match seen(valid, observed) {
        Some(etcd) if known != Some(&etcd) => part.actions.push(Action::KeepEtcd(etcd)),
        // Not before what it writes into is as it should be.
        _ if part.is_settled() => {
            let action = replacing.action.take().or(relief.action.take());
            part.actions.extend(action.or(first).or(lead));
        }
        _ => {}
    }
    part
}

/// When to go on with members whose pods are ended one by one, although nothing happened.
pub(super) fn rolls_again(
    valid: &Validated,
    observed: &Observed,
    now: Timestamp,
) -> Option<Duration> {
    members::next(valid, observed, (true, true), now).again
}

/// What keeps etcd from taking writes, or from being believed; where it was asked and no member answered,
/// what it said before.
pub(super) fn alarm(observed: &Observed) -> Option<Waiting> {
    if observed.etcd != Etcd::NotAsked && observed.etcd.answers().next().is_none() {
        return told_before(observed);
    }
    let raised = observed.etcd.answers();
    let raised = raised
        .filter_map(|(name, member)| Some((name, *member.alarms.first()?)))
        .min_by_key(|(_, alarm)| *alarm);
    let Some((member, alarm)) = raised else {
        return differing(observed);
    };
    let message = match alarm {
        Alarm::Corrupt => format!(
            "members of etcd have different data, and nobody can say which is right; restore from a backup, or \
             replace the odd one of three ({member} says so)"
        ),
        Alarm::NoSpace => space::told_of_alarm(observed, told_before(observed)),
    };
    Some(Waiting {
        reason: alarm.reason(),
        message,
    })
}

/// Members that differ from each other, and none of them from two others.
fn differing(observed: &Observed) -> Option<Waiting> {
    let Comparison::Differ(names) = facts::comparison(observed) else {
        return None;
    };
    Some(Waiting {
        reason: Reason::Corrupt,
        message: format!(
            "{} have different data at one revision, and nobody can say which is right: nothing is replaced; restore \
             from a backup",
            names.join(" and ")
        ),
    })
}

/// The alarm that the status tells of.
fn told_before(observed: &Observed) -> Option<Waiting> {
    let conditions = observed.cluster.status.iter().flat_map(|s| &s.conditions);
    let mut conditions = conditions.filter(|c| c.type_ == ConditionType::EtcdReady.as_str());
    let told = conditions.next()?;
    let mut alarms = [Alarm::Corrupt, Alarm::NoSpace].into_iter();
    let alarm = alarms.find(|alarm| told.reason == alarm.reason())?;
    Some(Waiting {
        reason: alarm.reason(),
        message: told.message.clone(),
    })
}

/// Another cluster than the status knows: nothing was restored, so nobody wanted that.
fn foreign(observed: &Observed) -> Option<Waiting> {
    let known = identity(observed)?.cluster_id.as_ref()?;
    let mut others = observed.etcd.answers();
    let (name, found) = others.find(|(_, member)| member.cluster_id != *known)?;
    Some(Waiting {
        reason: Reason::ForeignData,
        message: format!(
            "{name} is of etcd cluster {}, and this tenant cluster's is {known}: bring the volume back \
             that it had",
            found.cluster_id
        ),
    })
}

/// Whether there is something to be learnt: identifiers that are not known, and alarms, which are looked
/// for while something is wrong and as often as the objects inside are listed.
fn is_asked(valid: &Validated, observed: &Observed) -> bool {
    let ns = observed.tenant_namespace();
    let ready = observed.number("StatefulSet", &ns, names::ETCD, "/status/readyReplicas");
    if ready.or_absent(0).unwrap_or(0) == 0 {
        return false;
    }
    let is_known = identity(observed).is_some_and(|known| {
        let mut members = known.members.iter();
        known.cluster_id.is_some() && members.all(|member| member.id.is_some())
    });
    let restore = observed
        .cluster
        .status
        .as_ref()
        .and_then(|s| s.restore.as_ref());
    // Of one that never answered, its members are known before they run.
    let prepares = restore.is_some_and(|restore| restore.switched && !restore.prepared);
    !is_known
        || prepares
        || observed.list_due
        || space::is_asked(observed)
        || disks::is_asked(valid, observed)
        || falls_asleep(&observed.cluster)
        || (observed.has_been_ready() && !observed.was_ready())
}

/// Whether its writers end and its members are next: what they have then they are to have when it wakes.
fn falls_asleep(cluster: &TenantCluster) -> bool {
    let facts = hibernation::Facts::of(cluster);
    facts.is_some_and(|facts| facts.drained && !facts.quiet)
}

/// What etcd is, as soon as it has a leader: a member that is ready knows one. What was seen once stays.
fn seen(valid: &Validated, observed: &Observed) -> Option<EtcdStatus> {
    let ns = valid.tenant_namespace.as_str();
    let known = identity(observed);
    let ready = observed.number("StatefulSet", ns, names::ETCD, "/status/readyReplicas");
    let Some(ready) = ready.or_absent(0) else {
        return known.cloned();
    };
    if ready == 0 && known.is_none() && !observed.has_been_ready() {
        return None;
    }
    let wanted = i64::from(valid.etcd.replicas);
    // A single member is the one that ran.
    let all_ran = ready >= wanted || (wanted == 1 && (ready > 0 || observed.has_been_ready()));
    let has_run = |member: &str| {
        let mut pods = observed.pods.iter().flatten();
        all_ran || pods.any(|pod| pod.name == member && pod.ready)
    };
    let mut members: Vec<_> = match known {
        Some(known) => known.members.clone(),
        None => claims(valid, observed)?
            .map(|(number, volume_uid)| EtcdMemberStatus {
                name: names::etcd_member(number),
                volume_uid,
                volume: None,
                volume_size: None,
                id: None,
                started: false,
                learner: false,
                last_index: None,
            })
            .collect(),
    };
    // Of one that is being replaced the replacement says it: what is ready may be the one before.
    let replacing = known.and_then(|known| known.replacing.as_ref());
    let is_replaced = |member: &EtcdMemberStatus| {
        member.learner || replacing.is_some_and(|replacing| replacing.member == member.name)
    };
    for member in &mut members {
        member.started |= !is_replaced(member) && has_run(&member.name);
        if loss(observed, member).is_none() {
            let size = volumes::request(observed, &member.name);
            member.volume_size = size.or(member.volume_size.take());
            let volume = volumes::bound_to(observed, &member.name);
            member.volume = volume.or(member.volume.take());
        }
    }
    // What is written once is what the same cluster means; another one is told and not taken for it.
    let mut cluster_id = known.and_then(|known| known.cluster_id.clone());
    for (name, answer) in observed.etcd.answers() {
        let cluster_id = cluster_id.get_or_insert_with(|| answer.cluster_id.clone());
        let member = members.iter_mut().find(|member| member.name == name);
        if let Some(member) = member.filter(|_| answer.cluster_id == *cluster_id) {
            member.id.get_or_insert_with(|| answer.member_id.clone());
        }
    }
    for member in members.iter_mut().filter(|member| !is_replaced(member)) {
        member.last_index = last_index::of(observed, member, cluster_id.as_deref(), true);
    }
    let known = known.cloned().unwrap_or_default();
    Some(EtcdStatus {
        golden_file: known.golden_file.clone().or_else(|| golden_file(observed)),
        cluster_id,
        members,
        ..known
    })
}

/// What its first member began with: only the gate of the pod that did it says so. One that was restored since began with
/// that, and the pod with it.
fn golden_file(observed: &Observed) -> Option<String> {
    let key = Key::new("Pod", &observed.tenant_namespace(), &names::etcd_member(0));
    golden_start::file(observed.objects.get(&key)?)
}

/// What the status says of etcd, and what is to be noted of members that do not run any more.
fn asleep(observed: &Observed) -> Option<EtcdStatus> {
    let mut etcd = identity(observed)?.clone();
    let cluster_id = etcd.cluster_id.clone();
    for member in &mut etcd.members {
        member.last_index = last_index::of(observed, member, cluster_id.as_deref(), false);
    }
    Some(etcd)
}
