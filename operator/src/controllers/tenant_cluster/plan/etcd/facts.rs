//! What a replacement is decided by, from what was observed.
//!
//! Invariant: nothing is looked for at rest: etcd's list of members is asked for only where a member does not
//! serve, or where the status tells of one that is not whole.

use api::Reason;
use jiff::Timestamp;
use kit_objects::known::Known;
use kit_objects::object::Key;
use serde_json::Value;
use tenant_cp::{Validated, names};

use super::claim::claim;
use super::disks;
use super::identity::SEATS;
use super::sizes::{is_calm, is_unasked};
use crate::controllers::tenant_cluster::observed::{Etcd, Observed};
use crate::etcd_replacement::comparison::{Comparison, compare};
use crate::etcd_replacement::facts::{Facts, MEMBERS, Pod, Refusal, Seat, Set};
use crate::etcd_replacement::number::is_misplaced;
use crate::pod_failures;
use crate::tenant_session::etcd::answers::Alarm;

/// Whether something may have to be done, so that etcd's list of members has to be known; `is_lost`: the
/// claim of a member is not the one that the status knows.
pub(super) fn has_to_be_listed(
    valid: &Validated,
    observed: &Observed,
    is_lost: bool,
    now: Timestamp,
) -> bool {
    let Some(known) = observed
        .cluster
        .status
        .as_ref()
        .and_then(|s| s.etcd.as_ref())
    else {
        return false;
    };
    if known.cluster_id.is_none() || known.members.is_empty() || observed.pods.is_none() {
        return false;
    }
    let wanted = usize::try_from(valid.etcd.wanted).unwrap_or(0);
    if known.members.len() != wanted || known.replacing.is_some() || is_one_left(valid, observed) {
        return true;
    }
    if wanted != MEMBERS {
        return false;
    }
    let is_unready = |name: &str| match pod(observed, name) {
        Known::Known(pod) => !pod.ready,
        Known::Absent => true,
        Known::Unknown { .. } => false,
    };
    let mut members = known.members.iter();
    let mut answers = observed.etcd.answers();
    is_lost
        || is_one_misplaced(valid, observed)
        || disks::to_replace(valid, observed, now).is_some()
        || members.any(|member| member.learner || is_unready(&member.name))
        || answers.any(|(_, answer)| answer.alarms.contains(&Alarm::Corrupt))
}

/// Whether a member is to have a volume of another class.
fn is_one_misplaced(valid: &Validated, observed: &Observed) -> bool {
    let Some(class) = &valid.etcd.storage_class_name else {
        return false;
    };
    let mut wanted = SEATS.filter(|number| *number < valid.etcd.wanted);
    wanted.any(|number| match seat(valid, observed, number).claim {
        Known::Known(claim) => is_misplaced(Some(class), &claim),
        Known::Absent | Known::Unknown { .. } => false,
    })
}

/// Whether a claim is there of a member that is not wanted, and it does not say that it is only kept.
fn is_one_left(valid: &Validated, observed: &Observed) -> bool {
    let mut unwanted = SEATS.filter(|number| *number >= valid.etcd.wanted);
    unwanted.any(|number| match seat(valid, observed, number).claim {
        Known::Known(claim) => !claim.kept && !claim.terminating,
        Known::Absent | Known::Unknown { .. } => false,
    })
}

/// Everything that is decided by; `may_begin`: nothing else comes first; `is_told`: members that start are told
/// what the status says.
pub(super) fn facts(
    valid: &Validated,
    observed: &Observed,
    (may_begin, is_told): (bool, bool),
    now: Timestamp,
) -> Facts {
    let known = observed
        .cluster
        .status
        .as_ref()
        .and_then(|s| s.etcd.clone());
    let listing = observed.etcd_listing.as_ref();
    Facts {
        now,
        patience: observed.etcd_patience,
        may_begin: may_begin && valid.etcd.auto_replace,
        may_resize: may_begin,
        is_on_the_way: valid.etcd.servers != valid.etcd.wanted,
        is_calm: is_calm(observed),
        is_unasked: is_unasked(valid, observed),
        class: valid.etcd.storage_class_name.clone(),
        set: set(observed),
        is_told,
        known: known.unwrap_or_default(),
        seats: SEATS.map(|number| seat(valid, observed, number)).collect(),
        listed: listing.and_then(|listing| listing.members.clone()),
        odd: match comparison(observed) {
            Comparison::Odd(name) => Some(name),
            Comparison::Unknown | Comparison::Same | Comparison::Differ(_) => None,
        },
        slow: disks::to_replace(valid, observed, now),
    }
}

/// Where a StatefulSet says the class of claims that it makes.
const CLASS_OF_CLAIMS: &str = "/spec/volumeClaimTemplates/0/spec/storageClassName";

fn set(observed: &Observed) -> Known<Set> {
    let ns = observed.tenant_namespace();
    let set = observed.find("StatefulSet", &ns, names::ETCD);
    set.and_then(|set| match text(set, "/metadata/uid") {
        Some(uid) => Known::Known(Set {
            uid: uid.to_owned(),
            class: text(set, CLASS_OF_CLAIMS).map(str::to_owned),
        }),
        None => Known::Unknown {
            why: "the StatefulSet has no UID",
        },
    })
}

/// Whether members have the same data, as far as that was asked.
pub(super) fn comparison(observed: &Observed) -> Comparison {
    let Some(listing) = &observed.etcd_listing else {
        return Comparison::Unknown;
    };
    let disowned = observed.pods.iter().flatten().filter(|pod| pod.disowned);
    let disowned: Vec<_> = disowned.map(|pod| pod.name.as_str()).collect();
    compare(&listing.hashes, &disowned)
}

fn seat(valid: &Validated, observed: &Observed, number: i32) -> Seat {
    let name = names::etcd_member(number);
    let answer = match &observed.etcd {
        Etcd::NotAsked => None,
        Etcd::Asked(answers) => answers.get(&name).and_then(|answer| answer.clone().ok()),
    };
    Seat {
        wanted: number < valid.etcd.wanted,
        peer_url: names::etcd_peer_url(number),
        claim: claim(observed, number),
        pod: pod(observed, &name),
        answer,
        name,
    }
}

pub(super) fn pod(observed: &Observed, name: &str) -> Known<Pod> {
    if observed.pods.is_none() {
        return Known::Unknown {
            why: "pods were not listed",
        };
    }
    let key = Key::new("Pod", &observed.tenant_namespace(), name);
    let Some(pod) = observed.objects.get(&key) else {
        return Known::Absent;
    };
    let Some(uid) = text(pod, "/metadata/uid") else {
        return Known::Unknown {
            why: "the pod has no UID",
        };
    };
    let ready = pod["status"]["conditions"].as_array();
    let mut ready = ready.into_iter().flatten();
    let ready = ready.find(|condition| condition["type"] == "Ready");
    Known::Known(Pod {
        uid: uid.to_owned(),
        ready: pod_failures::is_ready(pod),
        since: ready.and_then(|ready| time(ready, "/lastTransitionTime")),
        terminating: !pod["metadata"]["deletionTimestamp"].is_null(),
        created: time(pod, "/metadata/creationTimestamp"),
        refusal: pod_failures::refusal_of_gate(pod).map(|reason| match reason {
            Reason::VolumeLost | Reason::Damaged | Reason::OutdatedData => Refusal::Lost,
            Reason::OtherMember | Reason::OtherClaim => Refusal::OfAnother,
            _ => Refusal::Other,
        }),
    })
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

fn time(value: &Value, pointer: &str) -> Option<Timestamp> {
    text(value, pointer)?.parse().ok()
}
