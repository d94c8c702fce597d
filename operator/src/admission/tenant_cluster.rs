//! The answer to one AdmissionReview about a TenantCluster.
//!
//! Invariant: what was wrong before, or said before, is neither held against a change nor said
//! again.

use api::TenantCluster;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use tenant_cp::validate::{admit, left_behind, transition_warnings, warnings};

use super::Judge;
use super::answer::{Kind, Opinion, answer};

const KIND: Kind = Kind {
    name: "TenantCluster",
    short: "tc",
};

/// Judges one request.
#[must_use]
pub fn judge(request: &AdmissionRequest<DynamicObject>, judge: &Judge) -> AdmissionResponse {
    answer(&KIND, request, |old, new| opinion(old, new, judge))
}

fn opinion(old: Option<&TenantCluster>, new: &TenantCluster, judge: &Judge) -> Opinion {
    let mut problems = admit(old, new, &(judge.clusters)(), &judge.settings);
    let pools = (judge.pools)();
    let known = old.map(|old| left_behind(old, &pools)).unwrap_or_default();
    let behind = left_behind(new, &pools).into_iter();
    problems.extend(behind.filter(|problem| !known.contains(problem)));
    let mut said = warnings(new, &judge.settings);
    if let Some(old) = old {
        said.retain(|warning| !warnings(old, &judge.settings).contains(warning));
        said.extend(transition_warnings(old, new));
    }
    Opinion {
        problems,
        warnings: said,
    }
}
