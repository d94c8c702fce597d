//! The authority of the certificate that kube-apiservers show to aggregated API servers.
//!
//! Aggregated API servers believe who stands in the ConfigMap `extension-apiserver-authentication`; kube-apiservers only add
//! to it what they believe themselves, each minute and when it changes
//! (`pkg/controlplane/controller/clusterauthenticationtrust`, 1.36). So nothing signs anew before it stands there, and what
//! was dropped is taken out once the last kube-apiserver is gone that would add it again.
//! Invariant: who signed the certificate that is shown is read from the certificate itself.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenant_cluster::{RotationPhase, Turn};
use kit_objects::known::Known;
use pki::{Key, KeyPair, Store};
use tenant_cp::generations::{authority_name, bundle};
use tenant_cp::names;

use super::seen::{HowFar, Seen, believed, dropped, in_secret, signer, signs_by};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::types::Action;
use crate::rotation::facts::Facts;
use crate::rotation::told::Subject;

const AUTHORITY: &str = names::FRONT_PROXY_CA;
const LEAF: &str = "front-proxy-client";
/// Nobody tells that kube-apiservers have written the ConfigMap: they do within a minute.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
const TRY_AGAIN: Duration = Duration::from_secs(60);
const NOT_ASKED: &str = "whom aggregated API servers believe has not been asked";
const NOT_KNOWN: &str =
    "whom aggregated API servers believe, because the tenant's API does not say";

pub(super) const SUBJECT: Subject = Subject {
    name: "frontProxyCA",
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
    let mut is_spreading = !published || (how_far.has_other)(names::FRONT_PROXY_HASH);
    let mut verifiers = servers;
    let (mut ask, mut again) = (None, None);
    let look = |write| {
        let api = how_far.api.filter(|_| how_far.busy.is_none());
        api.map(|address| Action::FrontProxies { address, write })
    };
    if believed.len() > 1 && !hold && servers == Known::Known(true) {
        (verifiers, again) = match &observed.front_proxies {
            None => {
                ask = look(None);
                (Known::Unknown { why: NOT_ASKED }, None)
            }
            Some(Err(_)) => (Known::Unknown { why: NOT_KNOWN }, Some(TRY_AGAIN)),
            Some(Ok(told)) => match holds(told, wanted.as_deref().unwrap_or_default()) {
                true => (Known::Known(true), None),
                false => (Known::Known(false), Some(LOOK_AGAIN)),
            },
        };
    }
    // Where it is told that it is over it was looked at.
    let is_over = is_told_over(observed, signs);
    if believed.len() == 1 && !dropped.is_empty() && !is_spreading && !is_over {
        is_spreading = true;
        match &observed.front_proxies {
            None => ask = look(None),
            Some(Err(_)) => again = Some(TRY_AGAIN),
            Some(Ok(told)) if has_any(told, &gone(observed, &dropped)) => ask = look(wanted),
            Some(Ok(_)) => is_spreading = false,
        }
    }
    let facts = Facts {
        wanted: asked.map(|turn| turn.generation),
        hold,
        believed,
        dropped,
        signs,
        verifiers,
        holders: servers,
        outstanding: Known::Absent,
        is_spreading,
        busy: how_far.busy,
    };
    Seen {
        facts,
        published: (published, true),
        notes: Vec::new(),
        ask,
        again,
        signed_until: None,
    }
}

fn asked(observed: &Observed) -> Option<&Turn> {
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

/// Certificates of generations that were dropped.
fn gone(observed: &Observed, dropped: &BTreeSet<u32>) -> String {
    let secrets = dropped
        .iter()
        .map(|number| authority_name(AUTHORITY, *number));
    let certificates = secrets.filter_map(|secret| in_secret(observed, &secret, "ca.crt"));
    certificates.collect::<Vec<_>>().join("\n")
}

/// Whether all certificates of the second text are in the first one.
fn holds(told: &str, wanted: &str) -> bool {
    let (told, wanted) = (certificates(told), certificates(wanted));
    wanted.is_subset(&told)
}

fn has_any(told: &str, gone: &str) -> bool {
    let (told, gone) = (certificates(told), certificates(gone));
    !gone.is_disjoint(&told)
}

/// What stands between the first and last line of each certificate of a PEM file, without spaces.
fn certificates(pem: &str) -> BTreeSet<String> {
    let parts = pem.split("-----BEGIN CERTIFICATE-----").skip(1);
    let bodies = parts.filter_map(|part| part.split("-----END").next());
    bodies
        .map(|body| body.split_whitespace().collect())
        .collect()
}

fn is_told_over(observed: &Observed, signs: u32) -> bool {
    let mut told = observed
        .cluster
        .status
        .iter()
        .flat_map(|status| &status.rotation);
    let told = told.find(|told| told.name == SUBJECT.name);
    told.is_some_and(|told| told.phase == RotationPhase::Idle && told.believed == [signs])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(body: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
    }

    #[test]
    fn certificates_are_known_again_however_their_lines_are_broken() {
        let both = pem("QUJD\nREVG") + &pem("WFla");
        assert!(holds(&both, &pem("QUJDREVG")) && holds(&both, &both) && holds(&both, ""));
        assert!(!holds(&pem("WFla"), &both));
        assert!(has_any(&both, &pem("WFla")) && !has_any(&both, &pem("QUJD")));
        assert!(!has_any(&both, "") && !has_any("nonsense", &both));
    }
}
