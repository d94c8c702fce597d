//! Reconciles TenantQuotas: what of them is used, and who may ask again now.
//!
//! Invariant: nothing but their status is written, and only when it changes; it is computed from the
//! stores and from what was granted, so a reconcile asks nobody.

use std::sync::Arc;
use std::time::Duration;

use api::TenantQuota;
use jiff::Timestamp;
use kit_client::errors::Classify as _;
use kube::runtime::controller::Action as Requeue;

pub mod plan;
#[cfg(test)]
mod tests;

use crate::context::Context;
use crate::controllers::status_only::{self, Error};
use crate::state;

/// How long changes of what is used are throttled: fifty tenant clusters that are created together are
/// a few writes.
pub const PERIOD: Duration = Duration::from_millis(500);

/// One reconcile, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(quota: Arc<TenantQuota>, ctx: Arc<Context>) -> Result<Requeue, Error> {
    let (key, state) = (state::key_of(&*quota), &ctx.quota_state);
    let work = write(&ctx, &quota);
    state.measure(&ctx.progress, &key, work).await?;
    Ok(state.succeeded(&key, None))
}

async fn write(ctx: &Context, quota: &Arc<TenantQuota>) -> Result<(), Error> {
    let wanted = plan::plan(quota, &ctx.used_of(quota), Timestamp::now());
    // First, so that a status that cannot be written holds up nobody.
    ctx.trigger_refused(quota);
    if quota.status.as_ref() == Some(&wanted) {
        return Ok(());
    }
    status_only::write(ctx, &**quota, &wanted).await
}

/// When to try again after a failure: the class decides.
pub fn error_policy(quota: Arc<TenantQuota>, error: &Error, ctx: Arc<Context>) -> Requeue {
    let class = error.class();
    let key = state::key_of(&*quota);
    tracing::warn!(
        quota.name = quota.metadata.name,
        error.class = class.label(),
        error = kit_client::errors::chain(error),
        "reconcile of TenantQuota {key} failed"
    );
    Requeue::requeue(ctx.quota_state.retry(&key, class))
}
