//! Carries a plan out.
//!
//! Invariant: every write is fenced by the Lease; Machines are created, never applied, so that a
//! namesake of somebody else is an error and not a Machine of ours; deletes hold for what was seen.

use api::{Machine, NodePool, names};
use futures::{StreamExt, stream};
use kit::lease::NotLeader;
use kit_client::errors::{Class, Classify};
use kit_client::write::{self, Deletion};
use kit_objects::kinds;
use kit_objects::object::Object;
use kube::api::{Patch, PatchParams, PostParams, PropagationPolicy};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::observe::api_of;
use super::observed::Observed;
use super::plan::{Action, Change, Plan, Target};
use super::report;
use crate::FIELD_MANAGER;
use crate::context::Context;

/// Writes at the same time.
const PARALLEL_WRITES: usize = 8;

/// Why a plan could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another operator may lead.
    #[error("stop writing")]
    Fence(#[source] NotLeader),
    /// A Machine could not be created or changed.
    #[error("{verb} Machine {name}")]
    Machine {
        /// `create` or `change`.
        verb: &'static str,
        /// Which.
        name: String,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// A Machine could not be deleted, or the status not be written.
    #[error("write")]
    Write(#[source] write::Error),
    /// The finalizers of the NodePool could not be written.
    #[error("write the finalizers of the NodePool")]
    Own(#[source] Box<kube::Error>),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Fence(_) => Class::Transient,
            Self::Machine { source, .. } | Self::Own(source) => source.class(),
            Self::Write(source) => source.class(),
        }
    }
}

/// One write, and what came of it.
enum Written {
    Machine(Box<Machine>),
    Deleted(String),
}

/// Carries a plan out and takes its results into the observation.
///
/// # Errors
/// The first one; what is on its way by then may still arrive.
pub async fn apply(ctx: &Context, plan: &Plan, observed: &mut Observed) -> Result<(), Error> {
    // Without `..`, so that a new part of a plan cannot be forgotten here.
    let Plan {
        before,
        creations,
        changes,
        deletions,
        actions,
        status: _,
        events: _,
        waiting_on: _,
        requeue_after: _,
    } = plan;
    if let Some(status) = before {
        report::status(ctx, status, observed).await?;
    }
    for action in actions {
        write_finalizers(ctx, *action, observed).await?;
    }
    let namespace = observed.pool.namespace().unwrap_or_default();
    let machines = api_of(ctx, &namespace);
    let (ns, machines) = (namespace.as_str(), &machines);
    // Who goes goes first: what follows may depend on the room.
    let writes: Vec<_> = deletions.iter().map(|d| delete(ctx, ns, d)).collect();
    take(
        observed,
        stream::iter(writes).buffer_unordered(PARALLEL_WRITES),
    )
    .await?;
    let writes: Vec<_> = changes.iter().map(|c| change(ctx, machines, c)).collect();
    take(
        observed,
        stream::iter(writes).buffer_unordered(PARALLEL_WRITES),
    )
    .await?;
    let writes: Vec<_> = creations.iter().map(|o| create(ctx, machines, o)).collect();
    take(
        observed,
        stream::iter(writes).buffer_unordered(PARALLEL_WRITES),
    )
    .await
}

/// Takes in what came of writes. The first failure ends it; dropping the rest cuts off what was not
/// begun.
async fn take(
    observed: &mut Observed,
    mut results: impl stream::Stream<Item = Result<Written, Error>> + Unpin,
) -> Result<(), Error> {
    let mut first = None;
    while let Some(result) = results.next().await {
        match result {
            Ok(Written::Machine(machine)) => {
                let name = machine.name_any();
                observed.machines.retain(|m| m.name_any() != name);
                observed.machines.push(*machine);
            }
            Ok(Written::Deleted(name)) => {
                let going = observed
                    .machines
                    .iter_mut()
                    .filter(|m| m.name_any() == name);
                for machine in going {
                    let now = jiff::Timestamp::now();
                    machine
                        .metadata
                        .deletion_timestamp
                        .get_or_insert(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
                }
            }
            Err(error) => {
                first = Some(error);
                break;
            }
        }
    }
    first.map_or(Ok(()), Err)
}

async fn create(ctx: &Context, machines: &Api<Machine>, object: &Object) -> Result<Written, Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let failed = |source| Error::Machine {
        verb: "create",
        name: object.name.clone(),
        source: Box::new(source),
    };
    let machine: Machine = serde_json::from_value(object.value.clone())
        .map_err(|e| failed(kube::Error::SerdeError(e)))?;
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let made = machines.create(&params, &machine).await.map_err(failed)?;
    Ok(Written::Machine(Box::new(made)))
}

async fn change(ctx: &Context, machines: &Api<Machine>, change: &Change) -> Result<Written, Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let changed = machines
        .patch(&change.name, &params, &Patch::Merge(&change.patch))
        .await;
    let machine = changed.map_err(|source| Error::Machine {
        verb: "change",
        name: change.name.clone(),
        source: Box::new(source),
    })?;
    Ok(Written::Machine(Box::new(machine)))
}

async fn delete(ctx: &Context, namespace: &str, target: &Target) -> Result<Written, Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let deletion = Deletion {
        kind: kinds::MACHINE,
        namespace: Some(namespace),
        name: &target.name,
        uid: &target.uid,
        resource_version: Some(&target.resource_version),
        propagation: PropagationPolicy::Background,
    };
    let deleted = write::delete(&ctx.client, &deletion).await;
    deleted.map_err(Error::Write)?;
    Ok(Written::Deleted(target.name.clone()))
}

async fn write_finalizers(
    ctx: &Context,
    action: Action,
    observed: &mut Observed,
) -> Result<(), Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let pool = &observed.pool;
    let mut finalizers = pool.finalizers().to_vec();
    match action {
        Action::AddFinalizer => finalizers.push(names::FINALIZER_NODE_POOL.to_owned()),
        Action::RemoveFinalizer => finalizers.retain(|f| f != names::FINALIZER_NODE_POOL),
    }
    // The resource version makes it a conflict when somebody else changed the list meanwhile.
    let patch = json!({ "metadata": {
        "finalizers": finalizers, "resourceVersion": pool.resource_version(),
    }});
    let pools =
        Api::<NodePool>::namespaced(ctx.client.clone(), &pool.namespace().unwrap_or_default());
    let name = pool.name_any();
    let written = pools
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    match written {
        Ok(pool) => observed.pool = pool,
        // Gone: that is what taking the finalizer off is for.
        Err(kube::Error::Api(status)) if status.code == 404 => {
            observed.pool.metadata.finalizers = Some(finalizers);
        }
        Err(error) => return Err(Error::Own(Box::new(error))),
    }
    Ok(())
}
