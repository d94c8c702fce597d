//! The status of a TenantQuota. No I/O, no clock, no chance.
//!
//! Invariant: it is a function of the quota and of what is used, so a status that is as it was stays so.

use api::{ConditionStatus, ConditionType, Reason, TenantQuota, TenantQuotaStatus, set_condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tenant_cp::amounts::Amounts;
use tenant_cp::quota::exceeded::overdrawn;

/// The status as it should be.
#[must_use]
pub fn plan(quota: &TenantQuota, used: &Amounts, now: Timestamp) -> TenantQuotaStatus {
    let mut status = quota.status.clone().unwrap_or_default();
    let generation = quota.metadata.generation;
    status.observed_generation = generation;
    status.used = Some(used.used());
    let beyond = overdrawn(quota, used);
    let (value, reason, message) = match beyond.is_empty() {
        true => (ConditionStatus::False, Reason::WithinLimits, String::new()),
        false => (
            ConditionStatus::True,
            Reason::AboveLimits,
            format!(
                "{}; nothing is stopped and nothing grows: delete or shrink what is not needed, or \
                 raise the quota",
                beyond.join("; ")
            ),
        ),
    };
    set_condition(
        &mut status.conditions,
        ConditionType::Exceeded,
        value,
        reason,
        &message,
        generation,
        Time(now),
    );
    status
}
