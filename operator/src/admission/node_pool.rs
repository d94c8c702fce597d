//! The answer to one AdmissionReview about a NodePool.
//!
//! Invariant: what was wrong before, or said before, is neither held against a change nor said
//! again.

use api::NodePool;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use tenant_cp::validate::{admit_pool, pool_warnings};

use super::Judge;
use super::answer::{Kind, Opinion, answer};

const KIND: Kind = Kind {
    name: "NodePool",
    short: "np",
};

/// Judges one request.
#[must_use]
pub fn judge(request: &AdmissionRequest<DynamicObject>, judge: &Judge) -> AdmissionResponse {
    answer(&KIND, request, |old, new| opinion(old, new, judge))
}

fn opinion(old: Option<&NodePool>, new: &NodePool, judge: &Judge) -> Opinion {
    let clusters = (judge.clusters)();
    let mut warnings = pool_warnings(new, &clusters);
    if let Some(old) = old {
        let before = pool_warnings(old, &clusters);
        warnings.retain(|warning| !before.contains(warning));
    }
    Opinion {
        problems: admit_pool(old, new, &clusters, &judge.settings),
        warnings,
    }
}
