//! Tells people: one status write when something changed, and Events.
//!
//! Invariant: a status that is as it was is not written.

use api::{NodePool, NodePoolStatus};
use jiff::Timestamp;
use kit::events::Notice;
use kit_client::errors::Class;
use kube::{Api, Resource};

use super::apply::Error;
use super::observed::Observed;
use super::plan::Plan;
use crate::context::Context;
use crate::status;
use crate::status::reason_of;

/// Writes the status if it changed.
///
/// # Errors
/// [`Error::Write`] and [`Error::Fence`].
pub async fn report(ctx: &Context, plan: &Plan, observed: &mut Observed) -> Result<(), Error> {
    status(ctx, &plan.status, observed).await
}

/// Writes this status if it is another one.
///
/// # Errors
/// [`Error::Write`] and [`Error::Fence`].
pub(super) async fn status(
    ctx: &Context,
    status: &NodePoolStatus,
    observed: &mut Observed,
) -> Result<(), Error> {
    if observed.pool.status.as_ref() != Some(status) {
        let version = write(ctx, &observed.pool, status).await?;
        observed.pool.metadata.resource_version = version;
        observed.pool.status = Some(status.clone());
    }
    Ok(())
}

/// Publishes a plan's Events; they never fail a reconcile.
pub async fn events(ctx: &Context, plan: &Plan, pool: &NodePool) {
    for notice in &plan.events {
        ctx.pool_state
            .events
            .publish(&pool.object_ref(&()), notice)
            .await;
    }
}

/// Says in the condition Degraded and in an Event why a reconcile failed. That this fails too is
/// only logged: it is what is wrong most of the time.
pub async fn failure(ctx: &Context, namespace: &str, name: &str, class: Class, message: &str) {
    let pools = Api::<NodePool>::namespaced(ctx.client.clone(), namespace);
    let Ok(Some(pool)) = pools.get_opt(name).await else {
        return;
    };
    let mut status = pool.status.clone().unwrap_or_default();
    let (generation, now) = (pool.metadata.generation, Timestamp::now());
    let Some(conditions) = status::failing(&status.conditions, class, message, generation, now)
    else {
        return;
    };
    status.conditions = conditions;
    let notice = Notice::warning(reason_of(class), message);
    ctx.pool_state
        .events
        .publish(&pool.object_ref(&()), &notice)
        .await;
    if let Err(error) = write(ctx, &pool, &status).await {
        tracing::warn!(
            error = kit_client::errors::chain(&error),
            "could not write why the reconcile of NodePool {namespace}/{name} failed"
        );
    }
}

/// Writes the status; gives the new resource version.
async fn write(
    ctx: &Context,
    pool: &NodePool,
    status: &NodePoolStatus,
) -> Result<Option<String>, Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let written = status::write_status(&ctx.client, pool, status).await;
    written.map_err(Error::Write)
}
