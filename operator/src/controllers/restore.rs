//! Reconciles Restores: observe (the TenantCluster, and what the process that backs it up finds in the backup) → plan →
//! write the status. Who cares for the TenantCluster carries one out that is not dry, and says in its status how far it is.
//!
//! Invariant: nothing is stopped here, and nothing but the status is written, and what a TenantCluster gets of another one
//! that it becomes ([`into`]); what was found is looked for again only where
//! etcd has become another one since.

use std::sync::Arc;
use std::time::Duration;

use api::Restore;
use jiff::Timestamp;
use kit_client::errors::Classify;
use kube::ResourceExt;
use kube::runtime::controller::Action as Requeue;
use kube::runtime::reflector::ObjectRef;

pub mod into;
pub mod observe;
pub mod orphans;
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
        let is_other = restore
            .spec
            .from
            .as_ref()
            .is_some_and(|from| from.cluster_uid.is_some());
        if !restore.spec.dry_run || is_other {
            // It may be the next, or not be waited for any more. Fails only once the controllers have ended.
            let namespace = restore.namespace().unwrap_or_default();
            let cluster = ObjectRef::new(&restore.spec.cluster_name).within(&namespace);
            let _ = ctx.triggers.clusters.send(cluster.clone());
            let _ = ctx.triggers.backups.send(cluster);
        }
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
