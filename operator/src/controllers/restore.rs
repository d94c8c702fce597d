//! Reconciles Restores, of which there are dry ones so far: observe (the TenantCluster, and what the process that backs
//! it up finds in the backup) → plan → write the status.
//!
//! Invariant: nothing is stopped, and nothing but the status is written; what was found is not looked for again.

use std::sync::Arc;
use std::time::Duration;

use api::Restore;
use jiff::Timestamp;
use kit_client::errors::Classify;
use kube::ResourceExt;
use kube::runtime::controller::Action as Requeue;

pub mod observe;
pub mod plan;
#[cfg(test)]
mod tests;

use crate::context::Context;
use crate::controllers::tenant_backup::error::Error;
use crate::{state, status};

/// One reconcile, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(restore: Arc<Restore>, ctx: Arc<Context>) -> Result<Requeue, Error> {
    let (key, state) = (state::key_of(&*restore), &ctx.restore_state);
    let work = step(&ctx, &restore);
    let again = state.measure(&ctx.progress, &key, work).await?;
    Ok(state.succeeded(&key, again))
}

async fn step(ctx: &Context, restore: &Restore) -> Result<Option<Duration>, Error> {
    if restore.metadata.deletion_timestamp.is_some() || plan::is_over(restore) {
        return Ok(None);
    }
    let observed = observe::observe(ctx, restore).await?;
    let plan = plan::plan(restore, &observed, Timestamp::now());
    if restore.status.as_ref() != Some(&plan.status) {
        ctx.leadership.ensure().map_err(Error::Fence)?;
        let written = status::write_status(&ctx.client, restore, &plan.status).await;
        written.map_err(Error::Status)?;
    }
    Ok(plan.again.and_then(|again| Duration::try_from(again).ok()))
}

/// When to try again after a failure: the class decides.
pub fn error_policy(restore: Arc<Restore>, error: &Error, ctx: Arc<Context>) -> Requeue {
    let class = error.class();
    let key = state::key_of(&*restore);
    tracing::warn!(
        restore.name = restore.name_any(),
        restore.namespace = restore.namespace().unwrap_or_default(),
        error.class = class.label(),
        error = kit_client::errors::chain(error),
        "reconcile of Restore {key} failed"
    );
    Requeue::requeue(ctx.restore_state.retry(&key, class))
}
