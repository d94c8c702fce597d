//! What is written into the status of a replacement.
//!
//! Invariant: a claim stands there with the member whose data it has, never with another one's.

use api::tenant_cluster::{EtcdMemberStatus, EtcdReplacement, EtcdStatus};
use kit_objects::known::Known;

use crate::etcd_replacement::facts::{Claim, Facts, Pod, Seat};

/// The status with this member being replaced.
pub(super) fn begun(facts: &Facts, seat: &Seat) -> EtcdStatus {
    EtcdStatus {
        last_replacement: Some(facts.now.to_string()),
        ..to_be_stopped(facts, seat, None)
    }
}

/// The status with a member being replaced that serves, and so has to be stopped first: by this pod it is known whether it
/// was.
pub(super) fn to_be_stopped(facts: &Facts, seat: &Seat, pod: Option<&Pod>) -> EtcdStatus {
    EtcdStatus {
        replacing: Some(EtcdReplacement {
            member: seat.name.clone(),
            pod_uid: pod.map(|pod| pod.uid.clone()),
        }),
        ..facts.known.clone()
    }
}

/// The status with something else of one member.
pub(super) fn with(
    facts: &Facts,
    seat: &Seat,
    change: impl FnOnce(&mut EtcdMemberStatus),
) -> EtcdStatus {
    let mut status = facts.known.clone();
    let of_it = |member: &EtcdMemberStatus| member.name == seat.name;
    if !status.members.iter().any(of_it) {
        status.members.push(EtcdMemberStatus {
            name: seat.name.clone(),
            ..EtcdMemberStatus::default()
        });
        status.members.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let mut members = status.members.iter_mut();
    if let Some(member) = members.find(|member| of_it(member)) {
        change(member);
    }
    status
}

/// The status with a member that was added on an empty volume.
pub(super) fn added(
    facts: &Facts,
    seat: &Seat,
    (id, claim): (&str, &Claim),
    pod_uid: Option<String>,
) -> EtcdStatus {
    let status = with(facts, seat, |member| {
        member.volume_uid.clone_from(&claim.uid);
        member.volume.clone_from(&claim.volume);
        become_another(member, id);
        member.started = false;
        member.learner = true;
    });
    EtcdStatus {
        replacing: Some(EtcdReplacement {
            member: seat.name.clone(),
            pod_uid,
        }),
        // The one before was removed by now.
        last_replacement: Some(facts.now.to_string()),
        ..status
    }
}

/// The status without a member that was removed and is not wanted.
pub(super) fn without(facts: &Facts, seat: &Seat) -> EtcdStatus {
    let mut status = facts.known.clone();
    status.members.retain(|member| member.name != seat.name);
    status.replacing = status.replacing.filter(|r| r.member != seat.name);
    EtcdStatus {
        last_replacement: Some(facts.now.to_string()),
        ..status
    }
}

/// The status with a member that serves, and was not known to.
pub(super) fn adopted(facts: &Facts, seat: &Seat, id: &str) -> EtcdStatus {
    with(facts, seat, |member| {
        if let Known::Known(claim) = &seat.claim {
            member.volume_uid.clone_from(&claim.uid);
            member.volume.clone_from(&claim.volume);
        }
        become_another(member, id);
        member.started = true;
        member.learner = false;
    })
}

/// What the one before had is not what this one has to have.
fn become_another(member: &mut EtcdMemberStatus, id: &str) {
    if member.id.as_deref() != Some(id) {
        member.id = Some(id.to_owned());
        member.last_index = None;
    }
}

/// The same at the end of its replacement.
pub(super) fn served(facts: &Facts, seat: &Seat) -> EtcdStatus {
    let id = facts.entry(seat).map(|entry| entry.id.clone());
    let status = match id {
        Some(id) => adopted(facts, seat, &id),
        None => facts.known.clone(),
    };
    EtcdStatus {
        replacing: None,
        last_replacement: Some(facts.now.to_string()),
        ..status
    }
}
