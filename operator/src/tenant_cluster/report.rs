//! Tells people: one status write when something changed, Events, metrics.
//!
//! Invariant: a status that is as it was is not written.

use api::{ConditionStatus, ConditionType, TenantCluster, TenantClusterStatus, set_condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::errors::Class;
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::apply::Error;
use super::observed::Observed;
use super::plan::{Notice, Plan};
use crate::FIELD_MANAGER;
use crate::context::Context;
use crate::tell;

/// Writes the status if it changed, and publishes the plan's Events.
///
/// # Errors
/// [`Error::Own`] and [`Error::Fence`]; Events never fail a reconcile.
pub async fn report(ctx: &Context, plan: &Plan, observed: &mut Observed) -> Result<(), Error> {
    write_status(ctx, observed, plan.status.clone()).await?;
    for notice in &plan.events {
        publish(ctx, &observed.cluster, notice).await;
    }
    Ok(())
}

/// Says in the condition Degraded and in an Event why a reconcile failed. That this fails too is
/// only logged: it is what is wrong most of the time.
pub async fn failure(ctx: &Context, namespace: &str, name: &str, class: Class, message: &str) {
    let clusters = Api::<TenantCluster>::namespaced(ctx.client.clone(), namespace);
    let Ok(Some(cluster)) = clusters.get_opt(name).await else {
        return;
    };
    let before = cluster.status.clone().unwrap_or_default();
    let told = before.conditions.iter().any(|c| {
        c.type_ == ConditionType::Degraded.as_str()
            && c.status == ConditionStatus::True.as_str()
            && c.reason == class.reason()
    });
    if told && matches!(class, Class::Transient | Class::Conflict) {
        // The words differ with the request that failed first. A write for each of them would wake
        // the reconcile again at once, whatever its backoff says.
        return;
    }
    let mut status = before.clone();
    let generation = cluster.metadata.generation;
    for type_ in [ConditionType::Degraded, ConditionType::Progressing] {
        let now = Time(Timestamp::now());
        let (list, value) = (&mut status.conditions, ConditionStatus::True);
        set_condition(list, type_, value, class.reason(), message, generation, now);
    }
    if status == before {
        return;
    }
    let notice = Notice {
        warning: true,
        reason: class.reason(),
        message: message.to_owned(),
    };
    publish(ctx, &cluster, &notice).await;
    if let Err(error) = write(ctx, &cluster, &status).await {
        tracing::warn!(
            error = kit::errors::chain(&error),
            "could not write why the reconcile of TenantCluster {namespace}/{name} failed"
        );
    }
}

async fn publish(ctx: &Context, cluster: &TenantCluster, notice: &Notice) {
    tell::publish(&ctx.events, &cluster.object_ref(&()), notice).await;
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
    let object = json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
        "kind": "TenantCluster",
        // With the UID, so that a namesake made since we looked does not get this status.
        "metadata": { "name": cluster.name_any(), "namespace": cluster.namespace(),
                      "uid": cluster.uid() },
        "status": status,
    });
    let written = kit::apply::apply_status(&ctx.client, &object, FIELD_MANAGER, true)
        .await
        .map_err(|source| Error::Write {
            stage: "status",
            source,
        })?;
    Ok(written.metadata.resource_version)
}
