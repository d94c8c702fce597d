//! The authority of machinery's client certificates.
//!
//! Believing it are the kube-apiservers (`--client-ca-file`). What it signed have components, addons and the operator, whose
//! pods are made anew, because nobody sees when one reads its pair again; and kubelets, whose certificates Covey cannot
//! replace: they last for a year, or until their machine is replaced.
//! Invariant: when one signed for the last time is written into its Secret before anything depends on it, and what is
//! written there of one that signs again counts for nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenant_cluster::{NodeAuthorityTurn, NodesOfBefore};
use jiff::{SignedDuration, Timestamp};
use kit_objects::known::Known;
use pki::{Key, KeyPair, Store};
use serde_json::Value;
use tenant_cp::flags::controller_manager::{LONGEST_SIGNED_HOURS, SIGNING_KUBELETS};
use tenant_cp::generations::{authority_name, of_authority};
use tenant_cp::{certificates, names};

use super::seen::{
    HowFar, Seen, believed, dropped, files_of, has_all_clients, has_all_signers, has_clients_of,
    in_secret, signer, signs_by,
};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::types::Action;
use crate::rotation::facts::Facts;
use crate::rotation::kubelets::NAME;
use crate::rotation::told::{self, Subject};

const AUTHORITY: &str = names::CLIENT_CA;
/// The certificate that says who signs, before anything else does: it is written before all others.
const LEAF: &str = "operator";
/// How much clocks of nodes may differ.
const SPARE: SignedDuration = SignedDuration::from_mins(10);
/// How often nodes that no Machine is of are looked at again: nothing tells of them.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(10);
const NOT_WRITTEN: &str = "when the one of before signed last is not written down yet";

pub(super) const SUBJECT: Subject = Subject {
    name: NAME,
    verifiers: told::SERVERS,
    holders: "components, addons and the operator, to have certificates that are signed by",
};

/// `signs`: [`signs`].
pub(super) fn see(observed: &Observed, signs: u32, how_far: HowFar<'_>) -> Seen {
    let [_, control_plane, controllers] = how_far.progress;
    let asked = asked(observed);
    let wanted = asked.map(|turn| turn.generation);
    let hold = asked.is_some_and(|turn| turn.hold);
    let believed = believed(observed, AUTHORITY);
    let dropped = dropped(observed, AUTHORITY);
    // There is nobody else who could have signed.
    let are_signed = believed.len() <= 1 || are_all_signed(observed, signs);
    let others: BTreeSet<u32> = believed.iter().copied().filter(|it| *it != signs).collect();
    // Nobody shows what it signs before it stands nowhere any more that it signs nothing.
    let sign: BTreeSet<u32> = [signs].into_iter().chain(wanted).collect();
    let sign = sign.intersection(&believed).filter(|_| !others.is_empty());
    let stale = sign.filter(|it| signed_until(observed, **it).is_some());
    let mut notes: Vec<_> = stale
        .map(|it| (*it, names::SIGNED_UNTIL, String::new()))
        .collect();
    let are_signed = are_signed && notes.is_empty();
    let published = (
        has_all_clients(observed) && are_signed,
        has_all_signers(observed, AUTHORITY) && are_signed,
    );
    let verifiers = how_far.is_current(control_plane, published.0);
    let is_current = verifiers == Known::Known(true)
        && how_far.is_current(controllers, published.1) == Known::Known(true);
    let are_noted = others
        .iter()
        .all(|it| signed_until(observed, *it).is_some());
    let holders = match is_current {
        // It was seen once, and nothing is signed by another one since, whatever is rolled out or asleep.
        _ if are_signed && are_noted => Known::Known(true),
        false => Known::Known(false),
        true => (how_far.are_addons_current)(),
    };
    let is_at_target = wanted == Some(signs);
    let (mut outstanding, mut ask, mut again) = (Known::Absent, None, None);
    if is_at_target && holders == Known::Known(true) && !others.is_empty() {
        let now = observed.kubelets.until(how_far.now);
        let mut until = Timestamp::MIN;
        for other in &others {
            let end = signed_until(observed, *other).unwrap_or_else(|| {
                notes.push((*other, names::SIGNED_UNTIL, now.to_string()));
                now
            });
            until = until.max(end);
        }
        if !notes.is_empty() {
            outstanding = Known::Unknown { why: NOT_WRITTEN };
        }
        let is_complete = asked.is_some_and(|turn| turn.complete >= Some(turn.generation));
        let last = end_of_certificates(until, now);
        if notes.is_empty() && !is_complete && last > how_far.now {
            let kubelets = &observed.kubelets;
            let before = kubelets.of_before(until);
            let is_asked = !hold && how_far.busy.is_none() && kubelets.are_to_be_asked(until);
            ask = how_far.api.filter(|_| is_asked);
            let left = last.duration_since(how_far.now);
            again = Some(match kubelets.nodes {
                Some(_) => left.min(LOOK_AGAIN),
                // Machines tell by themselves.
                None => left,
            });
            again = again.filter(|_| before != Known::Absent);
            outstanding = waits(before, last, signs, asked);
        }
    }
    let signed_until = last_signed(observed, signs, &others, &dropped);
    let facts = Facts {
        wanted,
        hold,
        believed,
        dropped,
        signs,
        verifiers,
        holders,
        outstanding,
        untold: Known::Absent,
        is_spreading: !has_clients_of(observed, AUTHORITY)
            || (how_far.has_other)(names::CLIENT_CA_HASH),
        busy: how_far.busy,
    };
    Seen {
        facts,
        published,
        notes,
        ask: ask.map(|address| Action::AskNodes { address }),
        again: again.and_then(|again| Duration::try_from(again).ok()),
        signed_until,
        believed_since: None,
        told_since: None,
    }
}

fn asked(observed: &Observed) -> Option<&NodeAuthorityTurn> {
    observed.cluster.spec.rotation.client_ca.as_ref()
}

/// When the last certificate of a kubelet ends that was signed until then.
fn end_of_certificates(until: Timestamp, now: Timestamp) -> Timestamp {
    let longest = SignedDuration::from_hours(LONGEST_SIGNED_HOURS) + SPARE;
    // One of a clock that went wrong lets nobody wait longer than it takes from now on.
    until
        .min(now)
        .checked_add(longest)
        .unwrap_or(Timestamp::MAX)
}

/// What kubelets may have yet, for people.
fn waits(
    before: Known<String>,
    last: Timestamp,
    signs: u32,
    asked: Option<&NodeAuthorityTurn>,
) -> Known<String> {
    let (what, or) = match asked.map(|turn| turn.nodes) {
        Some(NodesOfBefore::Replace) => ("replaced", "set"),
        Some(NodesOfBefore::InPlace) => (
            "told in place, or replaced,",
            "set spec.rotation.clientCA.nodes to Replace, or",
        ),
        Some(NodesOfBefore::Wait) | None => (
            "replaced",
            "set spec.rotation.clientCA.nodes to Replace or InPlace, or",
        ),
    };
    before.and_then(|nodes| {
        Known::Known(format!(
            "nodes to be {what} whose kubelets may have a certificate of before, or {last}, when the last of those ends; \
             {or} spec.rotation.clientCA.complete to {signs}, and they are refused then: {nodes}"
        ))
    })
}

/// Whether there is another one than the one that signs.
pub(in super::super) fn are_several(observed: &Observed) -> bool {
    believed(observed, AUTHORITY).len() > 1
}

/// The one that signs now: the kube-controller-managers say it by a flag, the operator's certificate by what is in it.
pub(super) fn signs(observed: &Observed) -> Option<u32> {
    let wanted = asked(observed).map(|turn| turn.generation);
    signs_by(&believed(observed, AUTHORITY), wanted, || {
        [told_by_flag(observed), signer_of_leaf(observed)]
    })
}

fn told_by_flag(observed: &Observed) -> Option<u32> {
    let ns = observed.tenant_namespace();
    let live = observed
        .find("Deployment", &ns, names::CONTROLLERS)
        .there()?;
    let files = files_of(&live["spec"]["template"], SIGNING_KUBELETS);
    of_authority(files.first()?.strip_suffix(".crt")?, AUTHORITY)
}

fn signer_of_leaf(observed: &Observed) -> Option<u32> {
    signer_in(observed, names::OPERATOR_CLIENT, LEAF)
}

/// The generation that signed the certificate of this name in a Secret; none where that is none of them.
fn signer_in(observed: &Observed, secret: &str, leaf: &str) -> Option<u32> {
    let certificate = in_secret(observed, secret, &format!("{leaf}.crt"))?;
    let key = Key::new(String::new());
    let held = Store::from([(leaf.to_owned(), KeyPair { certificate, key })]);
    signer(observed, AUTHORITY, (leaf, held))
}

/// Whether the Secrets of all who show a certificate of this authority have one of the generation that signs.
fn are_all_signed(observed: &Observed, signs: u32) -> bool {
    let ns = observed.tenant_namespace();
    let mut secrets = certificates::consumers();
    secrets.all(|secret| {
        let Some(live) = observed.find("Secret", &ns, secret).there() else {
            return true;
        };
        let mut leaves = pairs(live);
        leaves.all(|leaf| signer_in(observed, secret, leaf).is_none_or(|by| by == signs))
    })
}

/// Names of the certificates in a Secret that have their key beside them: they are shown, or sign.
fn pairs(secret: &Value) -> impl Iterator<Item = &str> {
    let data = secret["data"].as_object();
    let files = data.into_iter().flatten();
    let certificates = files.filter_map(|(file, _)| file.strip_suffix(".crt"));
    certificates.filter(move |name| secret["data"][format!("{name}.key")].is_string())
}

/// Until when a generation signed, as its Secret says; none where it may sign.
fn signed_until(observed: &Observed, generation: u32) -> Option<Timestamp> {
    let ns = observed.tenant_namespace();
    let secret = authority_name(AUTHORITY, generation);
    let live = observed.find("Secret", &ns, &secret).there()?;
    let until = live["metadata"]["annotations"][names::SIGNED_UNTIL].as_str()?;
    until.parse().ok()
}

/// Until when any other one signed.
fn last_signed(
    observed: &Observed,
    signs: u32,
    others: &BTreeSet<u32>,
    dropped: &BTreeSet<u32>,
) -> Option<String> {
    let others = others.iter().chain(dropped).filter(|it| **it != signs);
    let until = others.filter_map(|it| signed_until(observed, *it)).max();
    until.map(|until| until.to_string())
}
