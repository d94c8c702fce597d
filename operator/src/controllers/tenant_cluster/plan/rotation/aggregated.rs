//! What aggregated API servers of a tenant cluster believe of an authority that is turned, and how what was dropped is taken
//! out of it.
//!
//! They believe who stands in the ConfigMap `extension-apiserver-authentication`; kube-apiservers only add to it what they
//! believe themselves, each minute and when it changes (`pkg/controlplane/controller/clusterauthenticationtrust`, 1.36). So
//! what was dropped is taken out once the last kube-apiserver is gone that would add it again.
//! Invariant: it is looked at until it was seen to be out.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenant_cluster::RotationPhase;
use tenant_cp::generations::authority_name;

use super::seen::{HowFar, in_secret};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::types::Action;
use crate::rotation::facts::Facts;
use crate::tenant_session::aggregated::{Believed, Field};

pub(super) const TRY_AGAIN: Duration = Duration::from_secs(60);

/// What one field is to say.
pub(super) struct Wanted<'a> {
    /// The authority that is turned.
    pub(super) authority: &'a str,
    /// What `spec.rotation` calls it.
    pub(super) name: &'a str,
    /// The field that names it.
    pub(super) field: Field,
    /// All that it is to name, PEM.
    pub(super) bundle: Option<&'a str>,
}

/// What has to be asked or written, and when again, until nothing of what was dropped stands there. `facts` says then that
/// it spreads no more.
pub(super) fn take_out(
    observed: &Observed,
    wanted: &Wanted<'_>,
    facts: &mut Facts,
    how_far: HowFar<'_>,
) -> (Option<Action>, Option<Duration>) {
    let is_dropped = facts.believed.len() == 1 && !facts.dropped.is_empty();
    // Where it is told that it is over it was looked at.
    if !is_dropped || facts.is_spreading || is_told_over(observed, wanted.name, facts.signs) {
        return (None, None);
    }
    facts.is_spreading = true;
    match &observed.aggregated {
        None => (ask_or_write(how_far, None), None),
        Some(Err(_)) => (None, Some(TRY_AGAIN)),
        Some(Ok(told)) => {
            let gone = gone(observed, wanted.authority, &facts.dropped);
            if has_any(of(told, wanted.field), &gone) {
                let bundle = wanted.bundle.map(str::to_owned);
                return (
                    ask_or_write(how_far, bundle.map(|bundle| (wanted.field, bundle))),
                    None,
                );
            }
            facts.is_spreading = false;
            (None, None)
        }
    }
}

/// Reads what they believe, or writes a field of it.
pub(super) fn ask_or_write(how_far: HowFar<'_>, write: Option<(Field, String)>) -> Option<Action> {
    let api = how_far.api.filter(|_| how_far.busy.is_none());
    api.map(|address| Action::Aggregated { address, write })
}

/// What stands in a field.
pub(super) fn of(told: &Believed, field: Field) -> &str {
    match field {
        Field::Clients => &told.clients,
        Field::FrontProxies => &told.front_proxies,
    }
}

/// Certificates of generations that were dropped.
fn gone(observed: &Observed, authority: &str, dropped: &BTreeSet<u32>) -> String {
    let secrets = dropped
        .iter()
        .map(|number| authority_name(authority, *number));
    let certificates = secrets.filter_map(|secret| in_secret(observed, &secret, "ca.crt"));
    certificates.collect::<Vec<_>>().join("\n")
}

/// Whether all certificates of the second text are in the first one.
pub(super) fn holds(told: &str, wanted: &str) -> bool {
    let (told, wanted) = (certificates(told), certificates(wanted));
    wanted.is_subset(&told)
}

fn has_any(told: &str, gone: &str) -> bool {
    let (told, gone) = (certificates(told), certificates(gone));
    !gone.is_disjoint(&told)
}

/// What stands between the first and last line of each certificate of a PEM file, without spaces.
pub(super) fn certificates(pem: &str) -> BTreeSet<String> {
    let parts = pem.split("-----BEGIN CERTIFICATE-----").skip(1);
    let bodies = parts.filter_map(|part| part.split("-----END").next());
    bodies
        .map(|body| body.split_whitespace().collect())
        .collect()
}

pub(super) fn is_told_over(observed: &Observed, name: &str, signs: u32) -> bool {
    let mut told = observed
        .cluster
        .status
        .iter()
        .flat_map(|status| &status.rotation);
    let told = told.find(|told| told.name == name);
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
