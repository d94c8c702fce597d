//! The one comparison with a quota, and the sentence that refuses.
//!
//! Invariant: whoever asks for no more than before is never refused, however far beyond a quota all
//! are together. The sentence names no other tenant cluster: who reads it may not be allowed to know
//! of them.

use api::{Reason, TenantQuota};
use kube::ResourceExt;

use crate::amounts::{Amounts, Resource};
use crate::problem::Problem;

/// Reason of what is refused because of a quota, in answers of admission, conditions and Events.
pub const REASON: Reason = Reason::QuotaExceeded;

/// Whether a quota bounds a namespace.
#[must_use]
pub fn bounds(quota: &TenantQuota, namespace: &str) -> bool {
    quota.spec.namespaces.iter().any(|name| name == namespace)
}

/// What of a quota speaks against growing from `before` to `after` while all others take `others`.
#[must_use]
pub fn exceeded(
    quota: &TenantQuota,
    others: &Amounts,
    before: &Amounts,
    after: &Amounts,
) -> Vec<Problem> {
    let beyond = |resource: &Resource| {
        let asked = after.get(*resource);
        let most = resource.most(quota)?;
        let used = others.get(*resource);
        let grows = asked > before.get(*resource);
        (grows && used.saturating_add(asked) > most).then(|| {
            let message = format!(
                "TenantQuota {} allows {} in its namespaces: {} are used by others and {} are asked \
                 for; ask for less, delete what is not needed any more, or ask an administrator to \
                 raise spec.{} of the quota",
                quota.name_any(),
                resource.describe(most),
                resource.write(used),
                resource.write(asked),
                resource.field(),
            );
            Problem::new("spec", REASON, message)
        })
    };
    Resource::ALL.iter().filter_map(beyond).collect()
}

/// Amounts of which more is taken than a quota allows, for people; empty where there are none.
#[must_use]
pub fn overdrawn(quota: &TenantQuota, used: &Amounts) -> Vec<String> {
    let beyond = |resource: &Resource| {
        let (most, used) = (resource.most(quota)?, used.get(*resource));
        (used > most).then(|| {
            let used = resource.describe(used);
            format!("{used} are used, {} are allowed", resource.write(most))
        })
    };
    Resource::ALL.iter().filter_map(beyond).collect()
}
