//! Reconciles Restores: observe (the TenantCluster, and what the process that backs it up finds in the backup) → plan →
//! write the status. Who cares for the TenantCluster carries one out that is not dry, and says in its status how far it is.
//!
//! Invariant: nothing is stopped here, and nothing but the status is written, and what a TenantCluster gets of another one
//! that it becomes ([`into`]); nothing is deleted but volumes and snapshots that it does not know, once that was decided
//! ([`crate::restoring::volumes`]); what was found is looked for again only where etcd has become another one since.

use std::sync::Arc;
use std::time::Duration;

use api::{Reason, Restore, RestoreStatus};
use jiff::Timestamp;
use kit::events::Notice;
use kit_client::errors::Classify;
use kube::runtime::controller::Action as Requeue;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Resource as _, ResourceExt};

mod inside;
pub mod into;
pub mod observe;
pub mod orphans;
pub mod plan;
#[cfg(test)]
mod tests;

use self::plan::Observed;
use crate::context::Context;
use crate::controllers::tenant_backup::error::Error;
use crate::restoring::volumes::to_delete;
use crate::{state, status};

/// Objects that point nowhere that an Event names.
const TOLD: usize = 5;

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
    delete_volumes(ctx, restore, &observed).await?;
    let plan = plan::plan(restore, &observed, Timestamp::now());
    tell_missing(ctx, restore, &plan.status).await;
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

/// Deletes volumes and snapshots that are to go. What they are is known from a look just now; the Restore is read anew for
/// it, because what follows cannot be undone.
async fn delete_volumes(
    ctx: &Context,
    restore: &Restore,
    observed: &Observed,
) -> Result<(), Error> {
    let inside = observed.cluster.as_ref().and_then(|cluster| {
        let status = cluster.status.as_ref()?;
        status.namespace.as_ref()
    });
    let (Some((look, since)), Some(inside)) = (&observed.volumes, inside) else {
        return Ok(());
    };
    if to_delete(restore, look, *since).is_empty() {
        return Ok(());
    }
    let namespace = restore.namespace().unwrap_or_default();
    let restores = Api::<Restore>::namespaced(ctx.client.clone(), &namespace);
    let live = restores.get_opt(&restore.name_any()).await;
    let live = live.map_err(|source| Error::Read {
        what: "the Restore",
        source: Box::new(source),
    })?;
    let Some(live) = live.filter(|live| live.metadata.uid == restore.metadata.uid) else {
        return Ok(());
    };
    inside::delete(ctx, inside, &to_delete(&live, look, *since)).await
}

/// Tells of what is found to point nowhere, before the status says it.
async fn tell_missing(ctx: &Context, restore: &Restore, wanted: &RestoreStatus) {
    let before = restore.status.as_ref().map(|status| &status.missing);
    if wanted.missing.is_empty() || before == Some(&wanted.missing) {
        return;
    }
    let many = wanted.missing.len();
    let named = wanted.missing.iter().take(TOLD);
    let named: Vec<_> = named.map(|missing| missing.name.as_str()).collect();
    let message = format!(
        "PersistentVolumes or VolumeSnapshotContents of the tenant cluster have nothing behind them: {}{}; see status.missing",
        named.join(", "),
        if many > TOLD { " and others" } else { "" },
    );
    let notice = Notice::warning(Reason::VolumesMissing, message);
    let events = &ctx.restore_state.events;
    events
        .publish_by_reason(&restore.object_ref(&()), &notice)
        .await;
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
