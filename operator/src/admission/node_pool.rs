//! The answer to one AdmissionReview about a NodePool.
//!
//! Invariant: what was wrong before, or said before, is neither held against a change nor said
//! again.

use api::NodePool;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use tenant_cp::quota::admit::Seen;
use tenant_cp::validate::{admit_pool, pool_warnings};

use super::review::{self, Kind, Opinion};
use super::validator::Validator;

const KIND: Kind = Kind {
    name: "NodePool",
    short: "np",
};

/// Reviews one request.
#[must_use]
pub fn review(
    request: &AdmissionRequest<DynamicObject>,
    validator: &Validator,
) -> AdmissionResponse {
    review::review(&KIND, request, |old, new| opinion(old, new, validator))
}

fn opinion(old: Option<&NodePool>, new: &NodePool, validator: &Validator) -> Opinion {
    let clusters = (validator.clusters)();
    let mut warnings = pool_warnings(new, &clusters);
    if let Some(old) = old {
        let before = pool_warnings(old, &clusters);
        warnings.retain(|warning| !before.contains(warning));
    }
    let settings = (validator.settings)();
    let (pools, quotas) = ((validator.pools)(), (validator.quotas)());
    let mut problems = admit_pool(old, new, &clusters, &settings);
    let seen = Seen {
        clusters: &clusters,
        pools: &pools,
        quotas: &quotas,
    };
    problems.extend(seen.admit_pool(old, new, &settings));
    Opinion { problems, warnings }
}
