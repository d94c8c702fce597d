//! Tells people: one status write when something changed, and Events.
//!
//! Invariant: a status that is as it was is not written.

use api::{ConditionStatus, ConditionType, NodePool, NodePoolStatus, set_condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::errors::Class;
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::apply::Error;
use super::observed::Observed;
use super::plan::Plan;
use crate::FIELD_MANAGER;
use crate::context::Context;
use crate::tell::{self, Notice};

/// Writes the status if it changed.
///
/// # Errors
/// [`Error::Write`] and [`Error::Fence`].
pub async fn report(ctx: &Context, plan: &Plan, observed: &mut Observed) -> Result<(), Error> {
    if observed.pool.status.as_ref() != Some(&plan.status) {
        let version = write(ctx, &observed.pool, &plan.status).await?;
        observed.pool.metadata.resource_version = version;
        observed.pool.status = Some(plan.status.clone());
    }
    Ok(())
}

/// Publishes a plan's Events; they never fail a reconcile.
pub async fn events(ctx: &Context, plan: &Plan, pool: &NodePool) {
    for notice in &plan.events {
        tell::publish(&ctx.pool_desk.events, &pool.object_ref(&()), notice).await;
    }
}

/// Says in the condition Degraded and in an Event why a reconcile failed. That this fails too is
/// only logged: it is what is wrong most of the time.
pub async fn failure(ctx: &Context, namespace: &str, name: &str, class: Class, message: &str) {
    let pools = Api::<NodePool>::namespaced(ctx.client.clone(), namespace);
    let Ok(Some(pool)) = pools.get_opt(name).await else {
        return;
    };
    let before = pool.status.clone().unwrap_or_default();
    let degraded = ConditionType::Degraded;
    let told = before
        .conditions
        .iter()
        .any(|c| c.type_ == degraded.as_str() && c.status == "True" && c.reason == class.reason());
    if told && matches!(class, Class::Transient | Class::Conflict) {
        // The words differ with the request that failed first, and a write for each of them would
        // wake the reconcile again at once.
        return;
    }
    let mut status = before.clone();
    let generation = pool.metadata.generation;
    for type_ in [degraded, ConditionType::Progressing] {
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
    tell::publish(&ctx.pool_desk.events, &pool.object_ref(&()), &notice).await;
    if let Err(error) = write(ctx, &pool, &status).await {
        tracing::warn!(
            error = kit::errors::chain(&error),
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
    let object = json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
        "kind": "NodePool",
        // With the UID, so that a namesake made since we looked does not get this status.
        "metadata": { "name": pool.name_any(), "namespace": pool.namespace(), "uid": pool.uid() },
        "status": status,
    });
    let written = kit::apply::apply_status(&ctx.client, &object, FIELD_MANAGER, true).await;
    Ok(written.map_err(Error::Write)?.metadata.resource_version)
}
