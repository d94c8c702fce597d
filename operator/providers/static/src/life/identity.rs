//! Whether a machine is the one that it was, and whether it is listed once.
//!
//! Invariant: a machine without a machine-id is like none, and of two Hosts that are one machine exactly one is not
//! a duplicate.

use api::{Host, names};
use kube::ResourceExt;

use super::observed::Twin;

/// Machine-ids that the machine of a Host may have; empty: any, since none was seen yet.
#[must_use]
pub fn expected(host: &Host) -> Vec<String> {
    let status = host.status.as_ref();
    let known = status.and_then(|status| status.facts.as_ref());
    let Some(known) = known.map(|facts| facts.machine_id.clone()) else {
        return Vec::new();
    };
    let accepted = host
        .annotations()
        .get(names::ANNOTATION_ACCEPT_MACHINE_ID)
        .filter(|accepted| !accepted.is_empty());
    std::iter::once(known).chain(accepted.cloned()).collect()
}

/// What a person is told of another machine.
#[must_use]
pub(super) fn changed(host: &Host, machine_id: &str) -> String {
    let known = expected(host).into_iter().next().unwrap_or_default();
    format!(
        "the machine has the machine-id {machine_id} instead of {known}: it was installed anew, or it is another one; \
         if that was meant, kubectl annotate host {} {}={machine_id}",
        host.name_any(),
        names::ANNOTATION_ACCEPT_MACHINE_ID,
    )
}

/// Who goes first of two Hosts that are one machine: the one that a Machine has, then the older one.
fn order(twin: &Twin) -> impl Ord {
    (!twin.is_claimed, twin.created, twin.uid.clone())
}

/// Why `this` is not used: another Host is the same machine and goes first. None: it is the only one, or the
/// first.
#[must_use]
pub fn duplicate(this: &Twin, others: &[Twin]) -> Option<String> {
    let same = |other: &&Twin| {
        let is_same = |a: &str, b: &str| !a.is_empty() && a == b;
        other.uid != this.uid
            && (is_same(&other.machine_id, &this.machine_id)
                || is_same(&other.host_key, &this.host_key))
    };
    let first = others
        .iter()
        .filter(same)
        .min_by_key(|other| order(other))?;
    if order(this) <= order(first) {
        return None;
    }
    let whom = match first.namespace == this.namespace {
        true => format!("Host {}", first.name),
        // Names of other people's namespaces are none of theirs.
        false => "a Host of another namespace".to_owned(),
    };
    let what = match first.machine_id == this.machine_id {
        true => format!("machine-id {}", this.machine_id),
        false => format!("host key {}", this.host_key),
    };
    Some(format!(
        "{whom} has the same {what}: delete one of both; or, if the disk of this machine is a copy of that one's, give \
         it a machine-id and host keys of its own"
    ))
}
