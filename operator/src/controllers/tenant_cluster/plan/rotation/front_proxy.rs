//! The authority of the certificate that kube-apiservers show to aggregated API servers.
//!
//! Nothing signs anew before aggregated API servers believe it, and what was dropped is taken out of what those are told.
//! Invariant: who signed the certificate that is shown is read from the certificate itself.

use std::time::Duration;

use api::tenant_cluster::AuthorityTurn;
use kit_objects::known::Known;
use pki::{Key, KeyPair, Store};
use tenant_cp::generations::bundle;
use tenant_cp::names;

use super::aggregated::{TRY_AGAIN, Wanted, ask_or_write, holds, take_out};
use super::seen::{HowFar, Seen, believed, dropped, in_secret, signer, signs_by};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::rotation::facts::Facts;
use crate::rotation::told::{self, Subject};
use crate::tenant_session::aggregated::Field;

const AUTHORITY: &str = names::FRONT_PROXY_CA;
const LEAF: &str = "front-proxy-client";
/// Nobody tells that kube-apiservers have written the ConfigMap: they do within a minute.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
const NOT_ASKED: &str = "whom aggregated API servers believe has not been asked";
const NOT_KNOWN: &str =
    "whom aggregated API servers believe, because the tenant's API does not say";

pub(super) const SUBJECT: Subject = Subject {
    name: "frontProxyCA",
    verifiers: told::SERVERS,
    holders: "kube-apiservers, to show a certificate that is signed by",
};

/// `signs`: [`signs`].
pub(super) fn see(observed: &Observed, signs: u32, how_far: HowFar<'_>) -> Seen {
    let [_, control_plane, _] = how_far.progress;
    let asked = asked(observed);
    let hold = asked.is_some_and(|turn| turn.hold);
    let believed = believed(observed, AUTHORITY);
    let dropped = dropped(observed, AUTHORITY);
    let wanted = bundle(&observed.material.store, AUTHORITY);
    let is_trusted = wanted.is_some() && trusted(observed) == wanted;
    // There is nobody else who could have signed it.
    let is_shown = believed.len() == 1 || signer_of_leaf(observed) == Some(signs);
    let published = is_trusted && is_shown;
    let servers = how_far.is_current(control_plane, published);
    let is_spreading = !published || (how_far.has_other)(names::FRONT_PROXY_HASH);
    let mut verifiers = servers;
    let (mut ask, mut again) = (None, None);
    // Kube-apiservers tell them all the same, within a minute.
    let is_complete = asked.is_some_and(|turn| turn.complete >= Some(turn.generation));
    let is_asked = believed.len() > 1 && !hold && !is_complete;
    if is_asked && servers == Known::Known(true) {
        (verifiers, again) = match &observed.aggregated {
            None => {
                ask = ask_or_write(how_far, None);
                (Known::Unknown { why: NOT_ASKED }, None)
            }
            Some(Err(_)) => (Known::Unknown { why: NOT_KNOWN }, Some(TRY_AGAIN)),
            Some(Ok(told)) => {
                let wanted = wanted.as_deref().unwrap_or_default();
                match holds(&told.front_proxies, wanted) {
                    true => (Known::Known(true), None),
                    false => (Known::Known(false), Some(LOOK_AGAIN)),
                }
            }
        };
    }
    let mut facts = Facts {
        wanted: asked.map(|turn| turn.generation),
        hold,
        believed,
        dropped,
        signs,
        verifiers,
        holders: servers,
        outstanding: Known::Absent,
        untold: Known::Absent,
        is_spreading,
        busy: how_far.busy,
    };
    let to_take_out = Wanted {
        authority: AUTHORITY,
        name: SUBJECT.name,
        field: Field::FrontProxies,
        bundle: wanted.as_deref(),
    };
    let (take_out, later) = take_out(observed, &to_take_out, &mut facts, how_far);
    Seen {
        facts,
        published: (published, true),
        notes: Vec::new(),
        ask: ask.or(take_out),
        again: again.or(later),
        signed_until: None,
        believed_since: None,
        told_since: None,
    }
}

fn asked(observed: &Observed) -> Option<&AuthorityTurn> {
    observed.cluster.spec.rotation.front_proxy_ca.as_ref()
}

/// The one that signs now: it signed the certificate that kube-apiservers show.
pub(super) fn signs(observed: &Observed) -> Option<u32> {
    let wanted = asked(observed).map(|turn| turn.generation);
    signs_by(&believed(observed, AUTHORITY), wanted, || {
        [signer_of_leaf(observed), None]
    })
}

/// Whom new kube-apiservers would believe.
fn trusted(observed: &Observed) -> Option<String> {
    in_secret(observed, names::API_SERVER, &format!("{AUTHORITY}.crt"))
}

/// The generation that signed the certificate which new kube-apiservers would show.
fn signer_of_leaf(observed: &Observed) -> Option<u32> {
    let certificate = in_secret(observed, names::API_SERVER, &format!("{LEAF}.crt"))?;
    let key = Key::new(String::new());
    let leaf = Store::from([(LEAF.to_owned(), KeyPair { certificate, key })]);
    signer(observed, AUTHORITY, (LEAF, leaf))
}
