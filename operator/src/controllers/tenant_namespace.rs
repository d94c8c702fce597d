//! Reconciles tenant namespaces whose TenantCluster is gone: they are told of, and removed in the end.
//!
//! While its TenantCluster is there, a tenant namespace is that one's work, and nothing is asked here.
//! Invariant: that a TenantCluster is absent is said by the API itself, by consistent reads, never by a
//! store; whatever fails says nothing.

use std::sync::Arc;

use api::{Reason, TenantCluster, names};
use jiff::Timestamp;
use kit::lease::NotLeader;
use kit::panics::Panicked;
use kit_client::errors::{Class, Classify};
use kit_client::write::Deletion;
use kit_objects::kinds;
use kube::api::{Patch, PatchParams, PropagationPolicy};
use kube::runtime::controller::Action as Requeue;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

pub mod plan;
#[cfg(test)]
mod tests;

use crate::FIELD_MANAGER;
use crate::context::Context;
use crate::orphans::TenantNamespace;
use crate::standby::takeover;
use crate::state;
use plan::{Action, Owner, Plan, Presence};

/// Metadata of a TenantCluster.
type ClusterMeta = kube::api::PartialObjectMeta<TenantCluster>;

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another replica leads.
    #[error("tenant namespaces are another replica's work now")]
    Fence(#[source] NotLeader),
    /// The API did not say what there is.
    #[error("read {0}")]
    Read(&'static str, #[source] Box<kube::Error>),
    /// The mark could not be written.
    #[error("mark the namespace")]
    Mark(#[source] Box<kube::Error>),
    /// It could not be deleted.
    #[error("delete the namespace")]
    Remove(#[source] kit_client::write::Error),
    /// It panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Panicked(panicked) => panicked.class(),
            Self::Fence(_) => Class::Transient,
            Self::Read(_, source) | Self::Mark(source) => source.class(),
            Self::Remove(source) => source.class(),
        }
    }
}

/// One reconcile, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(
    namespace: Arc<TenantNamespace>,
    ctx: Arc<Context>,
) -> Result<Requeue, Error> {
    let (key, state) = (state::key_of(&*namespace), &ctx.namespace_state);
    let work = look(&ctx, &namespace);
    let plan = state.measure(&ctx.progress, &key, work).await?;
    Ok(state.succeeded(&key, plan.requeue_after))
}

async fn look(ctx: &Context, seen: &TenantNamespace) -> Result<Plan, Error> {
    if is_in_order(ctx, seen) {
        note(ctx, seen, &Plan::default());
        return Ok(Plan::default());
    }
    let namespaces = Api::<TenantNamespace>::all(ctx.client.clone());
    let live = namespaces.get_opt(&seen.name_any()).await;
    let Some(live) = live.map_err(|e| Error::Read("the namespace", Box::new(e)))? else {
        return Ok(Plan::default());
    };
    let presence = match plan::owner(&live.metadata) {
        Some(owner) => presence(ctx, &owner).await?,
        None => Presence::Unknown,
    };
    let remove_after = ctx.settings.orphans.remove_after();
    let plan = plan::plan(&live.metadata, presence, remove_after, Timestamp::now());
    carry_out(ctx, &live, &plan).await?;
    note(ctx, &live, &plan);
    Ok(plan)
}

/// Whether it is another's work, or nobody's. A store that is late only says so for too long: when it
/// hears that the TenantCluster is gone, the namespace is looked at again.
fn is_in_order(ctx: &Context, seen: &TenantNamespace) -> bool {
    let Some(owner) = plan::owner(&seen.metadata) else {
        return true;
    };
    let key = ObjectRef::<TenantCluster>::new(owner.name).within(owner.namespace);
    let bears = |cluster: &TenantCluster| cluster.identity_uid() == owner.uid;
    let found = ctx.stores.clusters.get(&key);
    let there = found.is_some_and(|found| bears(&found))
        || ctx.stores.clusters.state().iter().any(|found| bears(found));
    seen.metadata.deletion_timestamp.is_some() || there && !plan::is_marked(&seen.metadata)
}

/// Asks for the TenantCluster by its name, and, where that is not it, for all that there are: labels may
/// have been changed, and a kind that is not known just now has no objects either.
async fn presence(ctx: &Context, owner: &Owner<'_>) -> Result<Presence, Error> {
    let failed = |e| Error::Read("TenantClusters", Box::new(e));
    let is_it = |found: &ClusterMeta| {
        found
            .metadata
            .uid
            .as_deref()
            .is_some_and(|uid| owner.is(uid))
    };
    let named = Api::<ClusterMeta>::namespaced(ctx.client.clone(), owner.namespace);
    let found = named.get_opt(owner.name).await.map_err(failed)?;
    if found.as_ref().is_some_and(is_it) {
        return Ok(Presence::Present);
    }
    let is_there = takeover::is_there(&ctx.client, |uid| owner.is(uid)).await;
    Ok(match is_there.map_err(failed)? {
        true => Presence::Present,
        false => Presence::Absent,
    })
}

async fn carry_out(ctx: &Context, live: &TenantNamespace, plan: &Plan) -> Result<(), Error> {
    let name = live.name_any();
    match &plan.action {
        None => {}
        Some(Action::Mark(since)) => write_mark(ctx, live, json!(since.to_string())).await?,
        Some(Action::Unmark) => write_mark(ctx, live, Value::Null).await?,
        Some(Action::Remove) => {
            ctx.leadership.ensure().map_err(Error::Fence)?;
            let deletion = Deletion {
                kind: kinds::NAMESPACE,
                namespace: None,
                name: &name,
                uid: live.metadata.uid.as_deref().unwrap_or_default(),
                // As it was planned on, mark and labels.
                resource_version: live.metadata.resource_version.as_deref(),
                propagation: PropagationPolicy::Background,
            };
            let deleted = kit_client::write::delete(&ctx.client, &deletion).await;
            deleted.map_err(Error::Remove)?;
        }
    }
    let Some(notice) = &plan.notice else {
        return Ok(());
    };
    tracing::warn!(namespace = name, "namespace {name}: {}", notice.message);
    let events = &ctx.namespace_state.events;
    events.publish(&live.object_ref(&()), notice).await;
    Ok(())
}

/// Only onto the namespace as it was planned on.
async fn write_mark(ctx: &Context, live: &TenantNamespace, mark: Value) -> Result<(), Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let patch = json!({ "metadata": {
        "uid": live.metadata.uid,
        "resourceVersion": live.metadata.resource_version,
        "annotations": { names::ANNOTATION_ORPHANED_SINCE: mark },
    } });
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let namespaces = Api::<TenantNamespace>::all(ctx.client.clone());
    let marked = namespaces
        .patch(&live.name_any(), &params, &Patch::Merge(patch))
        .await;
    marked.map(drop).map_err(|e| Error::Mark(Box::new(e)))
}

/// For metrics and `/state`.
fn note(ctx: &Context, namespace: &TenantNamespace, plan: &Plan) {
    let uid = namespace.uid().unwrap_or_default();
    let waits = plan.orphan_since.map(|_| Reason::Orphaned.as_str());
    ctx.namespace_state.metrics.waiting(&uid, waits);
    ctx.orphans.set(&namespace.name_any(), plan.orphan_since);
}

/// A namespace is gone.
pub fn forget(ctx: &Context, namespace: &TenantNamespace) {
    let uid = namespace.uid().unwrap_or_default();
    ctx.namespace_state.forget(&state::key_of(namespace), &uid);
    ctx.orphans.set(&namespace.name_any(), None);
}

/// When to try again after a failure: the class decides.
pub fn error_policy(namespace: Arc<TenantNamespace>, error: &Error, ctx: Arc<Context>) -> Requeue {
    let (class, name) = (error.class(), namespace.name_any());
    tracing::warn!(
        namespace = name,
        error.class = class.label(),
        error = kit_client::errors::chain(error),
        "reconcile of namespace {name} failed"
    );
    let key = state::key_of(&*namespace);
    Requeue::requeue(ctx.namespace_state.retry(&key, class))
}
