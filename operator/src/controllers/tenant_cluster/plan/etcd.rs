//! etcd: its volumes, its Services, its members.
//!
//! Invariant: nothing is ever bootstrapped twice. Once its members had a leader, the status knows their
//! volumes, members that have run do not start without data ([`EtcdIdentity`]), and a volume that is lost
//! is reported and not made anew.

use std::net::IpAddr;

use api::tenant_cluster::{EtcdMemberStatus, EtcdStatus};
use api::{ConditionType, Reason};
use kit_objects::known::Known;
use kit_objects::object::Object;
use tenant_cp::Validated;
use tenant_cp::certificates::{EtcdIdentity, EtcdMember, InitialClusterState};
use tenant_cp::names;

mod members;
pub(super) mod volumes;

use super::pods;
use super::types::{Action, Part};
use crate::controllers::tenant_cluster::observed::{Etcd, Observed};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;
use crate::tenant_session::etcd::Alarm;

pub(super) fn plan(
    valid: &Validated,
    observed: &Observed,
    base: Vec<Object>,
    members: Option<Object>,
    may_roll: bool,
) -> Part {
    let mut part = Part::new(PartName::Etcd);
    let known = identity(observed);
    let members_known = known.iter().flat_map(|known| &known.members);
    let lost: Vec<_> = members_known
        .filter_map(|member| loss(observed, member))
        .collect();
    // Whoever made the claim of a lost volume anew: it is not that volume.
    let is_kept = |object: &Object| !lost.iter().any(|loss| loss.is_of(object));
    part.apply(
        "etcd volumes",
        observed,
        volumes::keeping_their_size(base.into_iter().filter(is_kept).collect(), observed),
    );
    part.apply("etcd", observed, members.into_iter().collect());
    if may_roll && part.is_settled() {
        let next = members::next(valid, observed);
        part.deletions.extend(next.replace);
        part.waiting = next.waiting;
    }
    part.problem = told(valid, &lost)
        .or_else(|| pods::lasting_failure(observed, names::ETCD))
        .or_else(|| foreign(observed))
        .or_else(|| alarm(observed));
    if observed.etcd == Etcd::NotAsked && is_asked(observed) {
        let members = addresses(valid, observed);
        part.actions.push(Action::AskEtcd { members });
        return part;
    }
    if let Some(etcd) = seen(valid, observed)
        && known != Some(&etcd)
    {
        part.actions.push(Action::KeepEtcd(etcd));
    }
    part
}

/// What keeps etcd from taking writes, or from being believed; where it was asked and no member answered,
/// what it said before.
pub(super) fn alarm(observed: &Observed) -> Option<Waiting> {
    if observed.etcd != Etcd::NotAsked && observed.etcd.answers().next().is_none() {
        return told_before(observed);
    }
    let raised = observed.etcd.answers();
    let (member, alarm) = raised
        .filter_map(|(name, member)| Some((name, *member.alarms.first()?)))
        .min_by_key(|(_, alarm)| *alarm)?;
    let what = match alarm {
        Alarm::Corrupt => {
            "members of etcd have different data, and nobody can say which is right; restore from a \
             backup, or replace the odd one of three"
        }
        Alarm::NoSpace => {
            "etcd's database has its most bytes, and only reads and deletions go on; delete what is not \
             needed, make spec.etcd.storage.size (and quotaBackendBytes) larger, then compact, defragment and take the alarm away"
        }
    };
    Some(Waiting {
        reason: alarm.reason(),
        message: format!("{what} ({member} says so)"),
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
fn is_asked(observed: &Observed) -> bool {
    let ns = observed.tenant_namespace();
    let ready = observed.number("StatefulSet", &ns, names::ETCD, "/status/readyReplicas");
    if ready.or_absent(0).unwrap_or(0) == 0 {
        return false;
    }
    let is_known = identity(observed).is_some_and(|known| {
        let mut members = known.members.iter();
        known.cluster_id.is_some() && members.all(|member| member.id.is_some())
    });
    !is_known || observed.list_due || (observed.has_been_ready() && !observed.was_ready())
}

/// The members' Services.
fn addresses(valid: &Validated, observed: &Observed) -> Vec<(String, IpAddr)> {
    let ns = valid.tenant_namespace.as_str();
    let address = |number| {
        let name = names::etcd_member(number);
        let ip = observed.text("Service", ns, &name, "/spec/clusterIP");
        let ip = ip.there()?.parse().ok()?;
        Some((name, ip))
    };
    (0..valid.etcd.replicas).filter_map(address).collect()
}

/// What the members and the gates before them are told; none before every member has its claim.
pub(super) fn told_to_members(valid: &Validated, observed: &Observed) -> Option<EtcdIdentity> {
    let state = match observed.has_been_bootstrapped() {
        true => InitialClusterState::Existing,
        false => InitialClusterState::New,
    };
    let members = match identity(observed) {
        Some(known) => known.members.iter().map(of_status).collect(),
        None => claims(valid, observed)?
            .map(|(number, claim_uid)| EtcdMember {
                name: names::etcd_member(number),
                claim_uid,
                member_id: None,
                may_start_empty: state == InitialClusterState::New,
            })
            .collect(),
    };
    Some(EtcdIdentity {
        state,
        cluster_id: identity(observed).and_then(|known| known.cluster_id.clone()),
        members,
    })
}

fn of_status(member: &EtcdMemberStatus) -> EtcdMember {
    EtcdMember {
        name: member.name.clone(),
        claim_uid: member.volume_uid.clone(),
        member_id: member.id.clone(),
        may_start_empty: !member.started,
    }
}

fn identity(observed: &Observed) -> Option<&EtcdStatus> {
    observed.cluster.status.as_ref()?.etcd.as_ref()
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
                volume_size: None,
                id: None,
                started: false,
            })
            .collect(),
    };
    for member in &mut members {
        member.started |= has_run(&member.name);
        if loss(observed, member).is_none() {
            let size = volumes::request(observed, &member.name);
            member.volume_size = size.or(member.volume_size.take());
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
    Some(EtcdStatus {
        cluster_id,
        members,
    })
}

/// UIDs of the members' claims: of all of them or none, because one that is not seen yet is no member
/// without a volume.
fn claims(
    valid: &Validated,
    observed: &Observed,
) -> Option<impl Iterator<Item = (i32, String)> + use<>> {
    let ns = valid.tenant_namespace.as_str();
    let uid = |number| {
        let claim = names::etcd_volume(number);
        let uid = observed.text("PersistentVolumeClaim", ns, &claim, "/metadata/uid");
        Some((number, uid.there()?.to_owned()))
    };
    let uids: Option<Vec<_>> = (0..valid.etcd.replicas).map(uid).collect();
    Some(uids?.into_iter())
}

/// How a member's volume is lost, for certain.
struct Loss {
    claim: String,
    how: How,
}

enum How {
    /// There is no claim.
    Gone,
    /// The claim is another one of the same name.
    Replaced,
    /// Somebody deleted the claim; it goes with the pod that uses it.
    Going,
}

impl Loss {
    fn is_of(&self, object: &Object) -> bool {
        object.kind == "PersistentVolumeClaim" && object.name == self.claim
    }
}

fn loss(observed: &Observed, member: &EtcdMemberStatus) -> Option<Loss> {
    let claim = names::volume_of(&member.name);
    let ns = observed.tenant_namespace();
    let how = match observed.find("PersistentVolumeClaim", &ns, &claim) {
        Known::Absent => How::Gone,
        Known::Known(live) if live["metadata"]["uid"] != member.volume_uid.as_str() => {
            How::Replaced
        }
        Known::Known(live) if !live["metadata"]["deletionTimestamp"].is_null() => How::Going,
        Known::Known(_) | Known::Unknown { .. } => return None,
    };
    Some(Loss { claim, how })
}

fn told(valid: &Validated, lost: &[Loss]) -> Option<Waiting> {
    if lost.is_empty() {
        return None;
    }
    let each: Vec<_> = lost
        .iter()
        .map(|loss| {
            let how = match loss.how {
                How::Gone => "is gone",
                How::Replaced => "was deleted, and another one has its name",
                How::Going => "is being deleted by somebody and goes with the pod that uses it",
            };
            format!("{} {how}", loss.claim)
        })
        .collect();
    let all = i32::try_from(lost.len()).is_ok_and(|lost| lost >= valid.etcd.replicas);
    let then = match all {
        true => {
            "the data of the tenant cluster went with it, and no empty one is made in its place; \
             restore it from a backup, or delete this TenantCluster and create it anew"
        }
        false => "the other members serve on; the lost one does not start over an empty volume",
    };
    Some(Waiting {
        reason: Reason::VolumeLost,
        message: format!(
            "PersistentVolumeClaim {} in namespace {}: {then}",
            each.join("; "),
            valid.tenant_namespace
        ),
    })
}
