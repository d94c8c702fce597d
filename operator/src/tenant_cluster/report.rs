//! Tells people: one status write when something changed, Events, metrics.
//!
//! Invariant: a status that is as it was is not written.

use api::TenantClusterStatus;
use kit::events::{Event, Severity};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::apply::Error;
use super::observed::Observed;
use super::plan::Plan;
use crate::FIELD_MANAGER;
use crate::context::Context;

/// Writes the status if it changed, and publishes the plan's Events.
///
/// # Errors
/// [`Error::Own`] and [`Error::Fence`]; Events never fail a reconcile.
pub async fn report(ctx: &Context, plan: &Plan, observed: &mut Observed) -> Result<(), Error> {
    write_status(ctx, observed, plan.status.clone()).await?;
    let regarding = observed.cluster.object_ref(&());
    for notice in &plan.events {
        let event = Event {
            severity: if notice.warning { Severity::Warning } else { Severity::Normal },
            reason: notice.reason.to_owned(),
            message: notice.message.clone(),
            action: "Reconcile".to_owned(),
        };
        ctx.events.publish(&regarding, &event).await;
    }
    Ok(())
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
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let name = observed.cluster.name_any();
    let object = json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
        "kind": "TenantCluster",
        "metadata": { "name": name, "namespace": observed.cluster.namespace(),
                      // A namesake made since we looked must not get this status.
                      "uid": observed.cluster.uid() },
        "status": status,
    });
    let written = kit::apply::apply_status(&ctx.client, &object, FIELD_MANAGER, true)
        .await
        .map_err(|source| Error::Write { stage: "status", source })?;
    observed.cluster.metadata.resource_version = written.metadata.resource_version;
    observed.cluster.status = Some(status);
    Ok(())
}
