//! Tells people: one status write when something changed, Events, metrics.
//!
//! Invariant: a status that is as it was is not written.

use api::{TenantCluster, TenantClusterStatus};
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

/// Writes the status if it changed, and publishes the plan's Events.
///
/// # Errors
/// [`Error::Own`] and [`Error::Fence`]; Events never fail a reconcile.
pub async fn report(ctx: &Context, plan: &Plan, observed: &mut Observed) -> Result<(), Error> {
    write_status(ctx, observed, plan.status.clone()).await?;
    let contested = ctx.contested_network(&observed.cluster);
    let contested = contested.map(|problem| Notice::warning(problem.reason, problem.to_string()));
    for notice in plan.events.iter().chain(&contested) {
        publish(ctx, &observed.cluster, notice).await;
    }
    Ok(())
}

/// Publishes an Event about a TenantCluster.
pub(super) async fn publish(ctx: &Context, cluster: &TenantCluster, notice: &Notice) {
    let events = &ctx.cluster_state.events;
    events.publish(&cluster.object_ref(&()), notice).await;
}

/// Says in the condition Degraded and in an Event why a reconcile failed. That this fails too is
/// only logged: it is what is wrong most of the time.
pub async fn failure(ctx: &Context, namespace: &str, name: &str, class: Class, message: &str) {
    let clusters = Api::<TenantCluster>::namespaced(ctx.client.clone(), namespace);
    let Ok(Some(cluster)) = clusters.get_opt(name).await else {
        return;
    };
    let mut status = cluster.status.clone().unwrap_or_default();
    let (generation, now) = (cluster.metadata.generation, Timestamp::now());
    let Some(conditions) = status::failing(&status.conditions, class, message, generation, now)
    else {
        return;
    };
    status.conditions = conditions;
    let notice = Notice::warning(reason_of(class), message);
    publish(ctx, &cluster, &notice).await;
    if let Err(error) = write(ctx, &cluster, &status).await {
        tracing::warn!(
            error = kit_client::errors::chain(&error),
            "could not write why the reconcile of TenantCluster {namespace}/{name} failed"
        );
    }
}

/// Writes the status if it changed.
pub(super) async fn write_status(
    ctx: &Context,
    observed: &mut Observed,
    status: TenantClusterStatus,
) -> Result<(), Error> {
    if observed.cluster.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let version = write(ctx, &observed.cluster, &status).await?;
    observed.cluster.metadata.resource_version = version;
    observed.cluster.status = Some(status);
    Ok(())
}

/// Writes the status; gives the new resource version.
async fn write(
    ctx: &Context,
    cluster: &TenantCluster,
    status: &TenantClusterStatus,
) -> Result<Option<String>, Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    status::write_status(&ctx.client, cluster, status)
        .await
        .map_err(|source| Error::Write {
            stage: "status",
            source,
        })
}
