//! Validation of `spec.controlPlane.authentication`: what the kube-apiserver would not take it refuses to
//! start with.
//!
//! Invariant: what is let through is what `apiserver/pkg/apis/apiserver/validation` lets through.

use std::collections::BTreeSet;

use api::{Reason, TenantCluster};

use crate::problem::Problem;
use crate::text::url;
use crate::validate::certificate;

pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    const FIELD: &str = "spec.controlPlane.authentication.issuers";
    let issuers = &tc.spec.control_plane.authentication.issuers;
    if !issuers.is_empty() && !tc.spec.addons.konnectivity.enabled {
        problems.push(Problem::new(
            FIELD,
            Reason::KonnectivityMissing,
            "the API server asks issuers from the tenant cluster's nodes, and reaches none without \
             konnectivity: set spec.addons.konnectivity.enabled to true, or remove the issuers",
        ));
    }
    let mut seen = BTreeSet::new();
    for (number, issuer) in issuers.iter().enumerate() {
        let mut add = |field: &str, reason: Reason, message: String| {
            let field = format!("{FIELD}[{number}].{field}");
            problems.push(Problem::new(field, reason, message));
        };
        let discovery = issuer.discovery_url.as_deref();
        for (field, address) in [
            ("url", Some(issuer.url.as_str())),
            ("discoveryURL", discovery),
        ] {
            let Some(address) = address else { continue };
            match url::endpoint(address) {
                Err(message) => add(field, Reason::URLMalformed, message),
                Ok(_) if !address.starts_with("https://") => {
                    let message = format!("{address} is not safe: begin with https://");
                    add(field, Reason::URLMalformed, message);
                }
                Ok(_) => {}
            }
        }
        if discovery.is_some_and(|d| d.trim_end_matches('/') == issuer.url.trim_end_matches('/')) {
            let message = "it is the same as url: remove it".to_owned();
            add("discoveryURL", Reason::URLTwice, message);
        }
        if issuer.url.starts_with("https://kubernetes.default.svc") {
            let message = format!(
                "{} is the tenant cluster itself, whose ServiceAccounts are known anyhow: remove it",
                issuer.url
            );
            add("url", Reason::IssuerIsCluster, message);
        }
        if !seen.insert(&issuer.url) {
            let message = format!("{} is named twice: put it into one entry", issuer.url);
            add("url", Reason::IssuerTwice, message);
        }
        let audiences: BTreeSet<_> = issuer.audiences.iter().collect();
        if audiences.len() < issuer.audiences.len() || audiences.is_empty() {
            let message = "name each audience once, and one at least".to_owned();
            add("audiences", Reason::AudiencesMalformed, message);
        }
        if let Some(pem) = &issuer.certificate_authority
            && let Some(message) = certificate::problem(pem)
        {
            add(
                "certificateAuthority",
                Reason::CertificateMalformed,
                message.to_owned(),
            );
        }
        for (field, prefix) in [
            ("usernamePrefix", &issuer.username_prefix),
            ("groupsPrefix", &issuer.groups_prefix),
        ] {
            if prefix
                .as_ref()
                .is_some_and(|prefix| prefix.starts_with("system:"))
            {
                let message = "system: is Kubernetes' own: choose another".to_owned();
                add(field, Reason::PrefixReserved, message);
            }
        }
    }
}
