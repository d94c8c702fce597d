//! The authority of the cluster, by which everybody believes the kube-apiserver: as a server, and kubelets as a client.
//!
//! Believing it are components, addons and the operator, whose Secrets and pods are made anew; the kubeconfig; pods and nodes
//! inside, by `kube-root-ca.crt` and `cluster-info`. A node keeps what it was told when it joined. What it signed have
//! kube-apiservers alone, and they show the cross-certificate beside it, so that whoever believes the oldest generation
//! alone believes them until that is dropped.
//! Where a key of before was stolen there is no cross-certificate: nodes are told before the new one signs, and once more when it
//! is the only one.
//! Invariant: since when machines are made that believe a generation is written into its Secret before it signs; it is never
//! taken back, because whoever believes a later one believes the oldest, too.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenant_cluster::{ClusterAuthorityTurn, NodesOfBefore};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kit_objects::known::Known;
use kit_objects::object::Key as ObjectKey;
use pki::{Key, KeyPair, Store};
use tenant_cp::certificates::{self, OF_CLUSTER};
use tenant_cp::generations::{authority_name, bundle};
use tenant_cp::names;

use super::aggregated::{TRY_AGAIN, certificates as parts, holds, is_told_over};
use super::seen::{HowFar, Seen, believed, dropped, in_secret, signer, signs_by};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::types::Action;
use crate::rotation::facts::Facts;
use crate::rotation::kubelets::CLUSTER;
use crate::rotation::told::Subject;

const AUTHORITY: &str = names::CA;
/// The file by which a client of the tenant's API believes it.
const FILE: &str = "ca.crt";
/// Nobody tells that the kube-controller-manager has written `kube-root-ca.crt`: it does within seconds.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How often nodes that no Machine is of are looked at again: nothing tells of them.
const LOOK_AT_NODES: Duration = Duration::from_mins(10);
const NOT_ASKED: &str = "whom pods and nodes are told to believe has not been asked";
const NOT_KNOWN: &str =
    "whom pods and nodes are told to believe, because the tenant's API does not say";
const NOT_WRITTEN: &str = "since when machines believe the new one is not written down yet";
const NOT_CROSSED: &str = "its Secret has no certificate of it that was signed by the oldest one, without which nodes and \
                           pods would not believe it; set spec.rotation.clusterCA.generation to a new number";

pub(super) const SUBJECT: Subject = Subject {
    name: CLUSTER,
    verifiers: "components, addons, the kubeconfig and what pods and new nodes are told",
    holders: "kube-apiservers, to show certificates that are signed by",
};

/// `signs`: [`signs`].
pub(super) fn see(observed: &Observed, signs: u32, how_far: HowFar<'_>) -> Seen {
    let [_, control_plane, _] = how_far.progress;
    let asked = asked(observed);
    let wanted = asked.map(|turn| turn.generation);
    let hold = asked.is_some_and(|turn| turn.hold);
    let is_complete = is_complete(asked);
    let believed = believed(observed, AUTHORITY);
    let dropped = dropped(observed, AUTHORITY);
    let is_turned = believed.len() > 1 || !dropped.is_empty();
    // There is nobody else who could have signed.
    let are_shown = !is_turned || are_shown(observed, signs);
    let has_bundle = !is_turned || have_bundle(observed, &dropped);
    let published = (are_shown && has_bundle, has_bundle);
    let servers = how_far.is_current(control_plane, published.0);
    let mut facts = Facts {
        wanted,
        hold,
        believed,
        dropped,
        signs,
        verifiers: servers,
        holders: servers,
        outstanding: Known::Absent,
        untold: Known::Absent,
        is_spreading: !published.0 || (how_far.has_other)(names::CLUSTER_CA_HASH),
        busy: how_far.busy,
    };
    let mut seen = Seen {
        published,
        notes: Vec::new(),
        ask: None,
        again: None,
        signed_until: None,
        believed_since: since(observed, signs).map(|since| since.to_string()),
        told_since: None,
        facts: facts.clone(),
    };
    if facts.believed.len() > 1 {
        verified(observed, (&mut facts, &mut seen), asked, how_far);
        if facts.wanted == Some(signs) && facts.holders == Known::Known(true) && !is_complete {
            nodes(observed, (&mut facts, &mut seen), asked, how_far);
        }
    } else if is_turned && !facts.is_spreading && !is_told_over(observed, CLUSTER, signs) {
        let is_compromised = is_compromised(asked) && wanted == Some(signs);
        // Once it is noted it was seen of everybody.
        let since = alone_since(observed, &facts).filter(|_| is_compromised);
        if since.is_none() {
            let everybody = everybody(observed, published, is_complete, how_far);
            let told = told(observed, everybody, &mut seen, how_far);
            facts.is_spreading = told != Known::Known(true);
        }
        if !facts.is_spreading && is_compromised {
            alone(observed, (&mut facts, &mut seen), (asked, since), how_far);
        }
    }
    seen.facts = facts;
    seen
}

/// Whether everybody believes all generations, and the wanted one may sign.
fn verified(
    observed: &Observed,
    (facts, seen): (&mut Facts, &mut Seen),
    asked: Option<&ClusterAuthorityTurn>,
    how_far: HowFar<'_>,
) {
    let is_complete = is_complete(asked);
    let later = facts.believed.iter().skip(1);
    let unnoted: Vec<u32> = later
        .copied()
        .filter(|generation| since(observed, *generation).is_none())
        .collect();
    // Once it is noted it was seen of everybody, and nobody believes less until something is dropped.
    facts.verifiers = programs(seen.published, how_far);
    if !unnoted.is_empty() && !facts.hold {
        let everybody = everybody(observed, seen.published, is_complete, how_far);
        facts.verifiers = told(observed, everybody, seen, how_far);
        if facts.verifiers == Known::Known(true) {
            let now = observed.kubelets.until(how_far.now).to_string();
            let note = |generation| (generation, names::BELIEVED_SINCE, now.clone());
            seen.notes = unnoted.into_iter().map(note).collect();
            facts.verifiers = Known::Unknown { why: NOT_WRITTEN };
        }
    }
    let Some(wanted) = facts.wanted.filter(|wanted| *wanted != facts.signs) else {
        return;
    };
    if !is_compromised(asked) {
        if !is_crossed(observed, wanted, how_far.now) {
            facts.verifiers = Known::Unknown { why: NOT_CROSSED };
        }
    } else if let Some(since) = since(observed, wanted).filter(|_| !is_complete) {
        // No cross-certificate would let nodes of before believe what it signs.
        let before = of_before(observed, facts, seen, (since, how_far));
        let (what, or) = by_nodes(asked);
        facts.untold = before.and_then(|nodes| {
            Known::Known(format!(
                "nodes to be {what} that joined before they were told of generation {wanted}, which signs when they are \
                 gone; {or} spec.rotation.clusterCA.complete to {wanted}, and they are cut off then: {nodes}"
            ))
        });
        seen.told_since = (facts.untold != Known::Absent).then(|| since.to_string());
    }
}

/// What nodes are in use that believe others than the one that signs, which is the only one now, because a key of before was
/// stolen: whoever has it would be believed by them.
fn alone(
    observed: &Observed,
    (facts, seen): (&mut Facts, &mut Seen),
    (asked, since): (Option<&ClusterAuthorityTurn>, Option<Timestamp>),
    how_far: HowFar<'_>,
) {
    let signs = facts.signs;
    let Some(since) = since else {
        if !facts.hold {
            let now = observed.kubelets.until(how_far.now);
            let now = now.max(last_dropped(observed, facts)).to_string();
            seen.notes = vec![(signs, names::BELIEVED_ALONE_SINCE, now)];
        }
        facts.untold = Known::Unknown { why: NOT_WRITTEN };
        return;
    };
    let before = of_before(observed, facts, seen, (since, how_far));
    let (what, or) = by_nodes(asked);
    let mend = or.strip_suffix(", or").map(|mend| format!("; {mend}"));
    let mend = mend.unwrap_or_default();
    facts.untold = before.and_then(|nodes| {
        Known::Known(format!(
            "nodes to be {what} that joined when others than generation {signs} were believed, one of which was \
             stolen{mend}: {nodes}"
        ))
    });
    seen.told_since = (facts.untold != Known::Absent).then(|| since.to_string());
}

/// Since when machines are made that believe nobody but the one that signs, as its Secret says; none where something was
/// dropped after that.
fn alone_since(observed: &Observed, facts: &Facts) -> Option<Timestamp> {
    let since = noted(observed, facts.signs, names::BELIEVED_ALONE_SINCE)?;
    (since >= last_dropped(observed, facts)).then_some(since)
}

/// When the last of the others was dropped.
fn last_dropped(observed: &Observed, facts: &Facts) -> Timestamp {
    let dropped = facts.dropped.iter();
    let times = dropped.filter_map(|generation| noted(observed, *generation, names::DROPPED));
    times.max().unwrap_or(Timestamp::MIN)
}

/// What nodes are in use of machines that were made before then.
fn of_before(
    observed: &Observed,
    facts: &Facts,
    seen: &mut Seen,
    (since, how_far): (Timestamp, HowFar<'_>),
) -> Known<String> {
    let kubelets = &observed.kubelets;
    let before = kubelets.of_before(since);
    let is_asked = !facts.hold && how_far.busy.is_none() && kubelets.are_to_be_asked(since);
    let address = how_far.api.filter(|_| is_asked);
    let ask = address.map(|address| Action::AskNodes { address });
    seen.ask = seen.ask.take().or(ask);
    // Machines tell by themselves.
    let looks = kubelets.nodes.is_some() && before != Known::Absent;
    seen.again = seen.again.or(looks.then_some(LOOK_AT_NODES));
    before
}

/// What becomes of nodes of before, and what else a user may have become of them, for people.
fn by_nodes(asked: Option<&ClusterAuthorityTurn>) -> (&'static str, &'static str) {
    match asked.map(|turn| turn.nodes) {
        Some(NodesOfBefore::Replace) => ("replaced", "set"),
        Some(NodesOfBefore::InPlace) => (
            "told in place, or replaced,",
            "set spec.rotation.clusterCA.nodes to Replace, or",
        ),
        Some(NodesOfBefore::Wait) | None => (
            "replaced",
            "set spec.rotation.clusterCA.nodes to Replace or InPlace, or",
        ),
    }
}

/// Whether Covey's own programs, and the kubeconfig, believe all generations and nothing else.
fn everybody(
    observed: &Observed,
    published: (bool, bool),
    is_complete: bool,
    how_far: HowFar<'_>,
) -> Known<bool> {
    let programs = programs(published, how_far);
    if programs != Known::Known(true) {
        return programs;
    }
    let kubeconfig = match is_complete {
        true => Known::Known(true),
        false => kubeconfig(observed),
    };
    match kubeconfig {
        Known::Known(true) => (how_far.are_addons_current)(),
        other => other,
    }
}

/// The same of the control plane and its controllers.
fn programs(published: (bool, bool), how_far: HowFar<'_>) -> Known<bool> {
    let [_, control_plane, controllers] = how_far.progress;
    match how_far.is_current(control_plane, published.0) {
        Known::Known(true) => how_far.is_current(controllers, published.1),
        other => other,
    }
}

/// Whether pods and nodes are told the same, where `everybody` believes it.
fn told(
    observed: &Observed,
    everybody: Known<bool>,
    seen: &mut Seen,
    how_far: HowFar<'_>,
) -> Known<bool> {
    if everybody != Known::Known(true) {
        return everybody;
    }
    match &observed.roots {
        None => {
            let address = how_far.api.filter(|_| how_far.busy.is_none());
            seen.ask = address.map(|address| Action::AskRoots { address });
            Known::Unknown { why: NOT_ASKED }
        }
        Some(Err(_)) => {
            seen.again = Some(TRY_AGAIN);
            Known::Unknown { why: NOT_KNOWN }
        }
        Some(Ok(told)) => {
            let wanted = bundle(&observed.material.store, AUTHORITY).unwrap_or_default();
            let is_same = |told: &String| holds(told, &wanted) && holds(&wanted, told);
            let are_same = told.iter().all(is_same);
            seen.again = (!are_same).then_some(LOOK_AGAIN);
            Known::Known(are_same)
        }
    }
}

/// What nodes are in use that believe none but older ones.
fn nodes(
    observed: &Observed,
    (facts, seen): (&mut Facts, &mut Seen),
    asked: Option<&ClusterAuthorityTurn>,
    how_far: HowFar<'_>,
) {
    if facts.believed.first() == Some(&facts.signs) {
        return;
    }
    let Some(since) = since(observed, facts.signs) else {
        facts.outstanding = Known::Unknown { why: NOT_WRITTEN };
        return;
    };
    let before = of_before(observed, facts, seen, (since, how_far));
    let (what, or) = by_nodes(asked);
    let signs = facts.signs;
    facts.outstanding = before.and_then(|nodes| {
        Known::Known(format!(
            "nodes to be {what} that joined before they were told of generation {signs}; {or} \
             spec.rotation.clusterCA.complete to {signs}, and they are cut off then: {nodes}"
        ))
    });
}

fn is_complete(asked: Option<&ClusterAuthorityTurn>) -> bool {
    asked.is_some_and(|turn| turn.complete >= Some(turn.generation))
}

/// Whether the wanted generation is made because a key of before was stolen.
fn is_compromised(asked: Option<&ClusterAuthorityTurn>) -> bool {
    asked.is_some_and(|turn| turn.compromised == Some(turn.generation))
}

fn asked(observed: &Observed) -> Option<&ClusterAuthorityTurn> {
    observed.cluster.spec.rotation.cluster_ca.as_ref()
}

/// The one that signs now: it signed the certificate that kube-apiservers show.
pub(super) fn signs(observed: &Observed) -> Option<u32> {
    let wanted = asked(observed).map(|turn| turn.generation);
    let [server, client] = OF_CLUSTER;
    signs_by(&believed(observed, AUTHORITY), wanted, || {
        [signer_of(observed, server), signer_of(observed, client)]
    })
}

/// The generation that signed a certificate which new kube-apiservers would show.
fn signer_of(observed: &Observed, leaf: &str) -> Option<u32> {
    let certificate = in_secret(observed, names::API_SERVER, &format!("{leaf}.crt"))?;
    let key = Key::new(String::new());
    let held = Store::from([(leaf.to_owned(), KeyPair { certificate, key })]);
    signer(observed, AUTHORITY, (leaf, held))
}

/// Whether new kube-apiservers would show nothing but what this one signed, with what makes everybody believe it.
fn are_shown(observed: &Observed, signs: u32) -> bool {
    let beside = observed.material.shown_beside().unwrap_or_default();
    OF_CLUSTER.iter().all(|leaf| {
        let shown = in_secret(observed, names::API_SERVER, &format!("{leaf}.crt"));
        let shown = shown.unwrap_or_default();
        let (_, with) = pki::first_certificate(&shown);
        beside == with && signer_of(observed, leaf) == Some(signs)
    })
}

/// Whether whoever believes the oldest one alone would believe what this one signs.
fn is_crossed(observed: &Observed, generation: u32, now: Timestamp) -> bool {
    let material = &observed.material;
    let name = authority_name(AUTHORITY, generation);
    let Some(oldest) = material.oldest(AUTHORITY).filter(|oldest| **oldest != name) else {
        return true;
    };
    let (own, signer) = (material.store.get(&name), material.store.get(oldest));
    let (Some(own), Some(signer)) = (own, signer) else {
        return false;
    };
    // Nobody believes one that has ended.
    let has_ended = pki::not_after(&signer.certificate).is_some_and(|end| end <= now);
    let crossed = material.crossed.get(&name);
    let crossed = crossed.and_then(|crossed| crossed.get(oldest));
    has_ended || crossed.is_some_and(|crossed| pki::is_crossed(crossed, own, signer))
}

/// Whether all Secrets that say whom to believe the tenant's API by have every generation and nothing else.
fn have_bundle(observed: &Observed, dropped: &BTreeSet<u32>) -> bool {
    let Some(wanted) = bundle(&observed.material.store, AUTHORITY) else {
        return false;
    };
    let secrets = dropped.iter();
    let secrets = secrets.map(|number| authority_name(AUTHORITY, *number));
    let gone = secrets.filter_map(|secret| in_secret(observed, &secret, FILE));
    let known: BTreeSet<_> = gone
        .chain([wanted.clone()])
        .flat_map(|it| parts(&it))
        .collect();
    let mut told = certificates::consumers().filter_map(|it| in_secret(observed, it, FILE));
    // In some it is another authority.
    told.all(|told| told == wanted || parts(&told).is_disjoint(&known))
}

/// Whether the kubeconfig of the administrator has every generation and nothing else.
fn kubeconfig(observed: &Observed) -> Known<bool> {
    let metadata = &observed.cluster.metadata;
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let name = metadata.name.clone().unwrap_or_default();
    let key = ObjectKey::new("Secret", &namespace, &api::names::kubeconfig_secret(&name));
    let wanted = bundle(&observed.material.store, AUTHORITY).unwrap_or_default();
    let wanted = format!("certificate-authority-data: {}\n", STANDARD.encode(wanted));
    observed.look_up(&key).and_then(|live| {
        let value = live["data"]["value"].as_str();
        let value = value.and_then(|value| STANDARD.decode(value).ok());
        let value = value.and_then(|value| String::from_utf8(value).ok());
        Known::Known(value.is_some_and(|value| value.contains(&wanted)))
    })
}

/// Since when machines are made that believe a generation, as its Secret says.
fn since(observed: &Observed, generation: u32) -> Option<Timestamp> {
    noted(observed, generation, names::BELIEVED_SINCE)
}

/// The time in an annotation of its Secret.
fn noted(observed: &Observed, generation: u32, annotation: &str) -> Option<Timestamp> {
    let ns = observed.tenant_namespace();
    let secret = authority_name(AUTHORITY, generation);
    let live = observed.find("Secret", &ns, &secret).there()?;
    let since = live["metadata"]["annotations"][annotation].as_str()?;
    since.parse().ok()
}
