//! The answer to one AdmissionReview about a TenantCluster.
//!
//! Invariant: what was wrong before, or said before, is neither held against a change nor said
//! again.

use api::TenantCluster;
use jiff::Timestamp;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use tenant_cp::quota::admit::Seen;
use tenant_cp::validate::maintenance::{admit_hold, admit_version};
use tenant_cp::validate::{admit, left_behind, transition_warnings, warnings};

use super::review::{self, Kind, Opinion};
use super::validator::Validator;

const KIND: Kind = Kind {
    name: "TenantCluster",
    short: "tc",
};

/// Reviews one request.
#[must_use]
pub fn review(
    request: &AdmissionRequest<DynamicObject>,
    validator: &Validator,
) -> AdmissionResponse {
    review::review(&KIND, request, |old, new| opinion(old, new, validator))
}

fn opinion(old: Option<&TenantCluster>, new: &TenantCluster, validator: &Validator) -> Opinion {
    let settings = (validator.settings)();
    let (clusters, pools) = ((validator.clusters)(), (validator.pools)());
    let quotas = (validator.quotas)();
    let mut problems = admit(old, new, &clusters, &settings);
    let now = Timestamp::now();
    problems.extend(admit_hold(old, new, now));
    problems.extend(admit_version(old, new, &settings, now));
    let seen = Seen {
        clusters: &clusters,
        pools: &pools,
        quotas: &quotas,
    };
    problems.extend(seen.admit_cluster(old, new, &settings));
    let known = old.map(|old| left_behind(old, &pools)).unwrap_or_default();
    let behind = left_behind(new, &pools).into_iter();
    problems.extend(behind.filter(|problem| !known.contains(problem)));
    let mut said = warnings(new, &settings);
    if let Some(old) = old {
        said.retain(|warning| !warnings(old, &settings).contains(warning));
        said.extend(transition_warnings(old, new));
    }
    Opinion {
        problems,
        warnings: said,
    }
}
