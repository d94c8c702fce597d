//! Reconciles Snapshots: observe (the TenantCluster, and what the process that backs it up says) → plan → apply.
//!
//! Invariant: what the next step goes by is in the status before anything is asked, so a crash between any two steps leads
//! to the same snapshot. Nothing in a target is deleted here.

use std::sync::Arc;
use std::time::Duration;

use api::Snapshot;
use jiff::Timestamp;
use kit_client::errors::Classify;
use kube::ResourceExt;
use kube::runtime::controller::Action as Requeue;

pub mod observe;
pub mod plan;
#[cfg(test)]
mod tests;

use self::plan::{Ask, plan};
use crate::context::Context;
use crate::controllers::tenant_backup::error::Error;
use crate::controllers::tenant_backup::report;
use crate::{state, status};

/// One reconcile, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(snapshot: Arc<Snapshot>, ctx: Arc<Context>) -> Result<Requeue, Error> {
    let (key, state) = (state::key_of(&*snapshot), &ctx.snapshot_state);
    let work = step(&ctx, &snapshot);
    let again = state.measure(&ctx.progress, &key, work).await?;
    Ok(state.succeeded(&key, again))
}

/// One step: a status that changed is written, which wakes this again; else what is due is asked.
async fn step(ctx: &Context, snapshot: &Snapshot) -> Result<Option<Duration>, Error> {
    if snapshot.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let (observed, address) = observe::observe(ctx, snapshot).await?;
    let plan = plan(snapshot, &observed, Timestamp::now());
    if snapshot.status.as_ref() != Some(&plan.status) {
        ctx.leadership.ensure().map_err(Error::Fence)?;
        let written = status::write_status(&ctx.client, snapshot, &plan.status).await;
        written.map_err(Error::Status)?;
    } else if let (Some(ask), Some(address)) = (&plan.ask, address) {
        ctx.leadership.ensure().map_err(Error::Fence)?;
        match ask {
            Ask::Full { after } => {
                if let Err(why) = report::ask_full(address, after.as_deref()).await {
                    tracing::debug!("no snapshot could be asked for: {why}");
                }
            }
            Ask::Keep { full, until_ms } => {
                report::ask_of(address, full, Some(*until_ms)).await;
            }
        }
    }
    Ok(plan.again.and_then(|again| Duration::try_from(again).ok()))
}

/// When to try again after a failure: the class decides.
pub fn error_policy(snapshot: Arc<Snapshot>, error: &Error, ctx: Arc<Context>) -> Requeue {
    let class = error.class();
    let key = state::key_of(&*snapshot);
    tracing::warn!(
        snapshot.name = snapshot.name_any(),
        snapshot.namespace = snapshot.namespace().unwrap_or_default(),
        error.class = class.label(),
        error = kit_client::errors::chain(error),
        "reconcile of Snapshot {key} failed"
    );
    Requeue::requeue(ctx.snapshot_state.retry(&key, class))
}
