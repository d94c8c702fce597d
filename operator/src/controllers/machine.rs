//! Reconciles Machines: observe → plan → apply → report.
//!
//! Invariant: it does not matter why a reconcile was called, nor where the last one was cut off; a
//! tenant whose API does not answer costs a bounded wait and delays nobody else's machines.

use std::sync::Arc;
use std::time::Duration;

use api::machine::MachinePhase;
use api::{Machine, Reason};
use jiff::Timestamp;
use kit::panics::Panicked;
use kit_client::errors::{Class, Classify};
use kube::ResourceExt;
use kube::runtime::controller::Action as Requeue;

mod addresses;
pub mod apply;
pub mod observe;
pub mod observed;
pub mod plan;
pub mod report;
pub mod requests;
#[cfg(test)]
mod tests;

use crate::context::Context;
use crate::state;
use crate::status::reason_of;
use observed::Observed;
use plan::{Action, Plan};

/// More steps than any life needs; reaching it is a bug in a plan, and is reported as one.
const MAX_STEPS: usize = 12;

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed.
    #[error("observe")]
    Observe(#[source] observe::Error),
    /// Writing failed.
    #[error("apply")]
    Apply(#[source] apply::Error),
    /// A plan did not come to an end.
    #[error("a plan does not come to an end")]
    Endless,
    /// It panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Panicked(panicked) => panicked.class(),
            Self::Observe(error) => error.class(),
            Self::Apply(error) => error.class(),
            Self::Endless => Class::Bug,
        }
    }
}

impl Error {
    /// Reason for a condition.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Observe(observe::Error::Provider(error)) => error.reason(),
            Self::Apply(error) => error.reason(),
            other => reason_of(other.class()),
        }
    }
}

/// One reconcile, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(machine: Arc<Machine>, ctx: Arc<Context>) -> Result<Requeue, Error> {
    let (key, state) = (state::key_of(&*machine), &ctx.machine_state);
    let (namespace, name) = (machine.namespace().unwrap_or_default(), machine.name_any());
    let work = run_to_end(&ctx, &namespace, &name);
    let result = state.measure(&ctx.progress, &key, work).await;
    if let Err(error) = &result
        && state.is_told(&key, error.class())
    {
        let message = kit_client::errors::chain(error);
        report::failure(&ctx, &machine, error.reason(), &message).await;
    }
    Ok(state.succeeded(&key, result?.and_then(|plan| plan.requeue_after)))
}

async fn run_to_end(ctx: &Context, namespace: &str, name: &str) -> Result<Option<Plan>, Error> {
    // On the heap: it is large, and whoever waits for a reconcile holds it.
    let observed = Box::pin(observe::observe(ctx, namespace, name)).await;
    let Some(mut observed) = observed.map_err(Error::Observe)? else {
        return Ok(None);
    };
    let uid = observed.machine.uid().unwrap_or_default();
    if observed.home().is_some() {
        let cluster = &observed.machine.spec.cluster_uid;
        ctx.vms
            .ensure(cluster, &observed.machine.tenant_namespace());
    }
    for _ in 0..MAX_STEPS {
        let plan = plan::plan(&observed, Timestamp::now());
        if plan.is_settled() || plan.reports_first() {
            on_ready(ctx, &observed, &plan);
            let reported = report::report(ctx, &plan, &mut observed).await;
            reported.map_err(Error::Apply)?;
        }
        if plan.is_settled() {
            report::events(ctx, &plan, &observed.machine).await;
            let waiting = plan.waiting_on.as_ref().map(|w| w.reason.as_str());
            ctx.machine_state.metrics.waiting(&uid, waiting);
            return Ok(Some(plan));
        }
        let applied = apply::apply(ctx, &plan, &mut observed).await;
        applied.map_err(Error::Apply)?;
        report::events(ctx, &plan, &observed.machine).await;
        tracing::debug!(
            machine.name = name,
            machine.namespace = namespace,
            actions = plan.actions.len(),
            "step of Machine {namespace}/{name}"
        );
        if plan.actions.contains(&Action::RemoveFinalizer) {
            ctx.machine_state
                .forget(&format!("{namespace}/{name}"), &uid);
            ctx.creations.forget(&uid);
            ctx.publications.forget(&uid);
            ctx.remote_publications.forget(&uid);
            return Ok(None);
        }
        if plan.actions.contains(&Action::DeleteSelf) {
            // Its own event brings it back, with all that is needed to let it go.
            return Ok(None);
        }
    }
    Err(Error::Endless)
}

fn on_ready(ctx: &Context, observed: &Observed, plan: &Plan) {
    let status = observed.machine.status.as_ref();
    let ran = status.and_then(|s| s.phase) == Some(MachinePhase::Running);
    let runs = plan.status.phase == Some(MachinePhase::Running);
    let created = observed.machine.metadata.creation_timestamp.as_ref();
    if let Some(created) = created.filter(|_| runs && !ran) {
        let elapsed = Timestamp::now().duration_since(created.0);
        let elapsed = Duration::try_from(elapsed).unwrap_or_default();
        ctx.machine_state.metrics.ready_after(elapsed);
    }
}

/// When to try again after a failure: the class decides.
pub fn error_policy(machine: Arc<Machine>, error: &Error, ctx: Arc<Context>) -> Requeue {
    let class = error.class();
    let key = state::key_of(&*machine);
    tracing::warn!(
        machine.name = machine.name_any(),
        machine.namespace = machine.namespace().unwrap_or_default(),
        error.class = class.label(),
        error = kit_client::errors::chain(error),
        "reconcile of Machine {key} failed"
    );
    Requeue::requeue(ctx.machine_state.retry(&key, class))
}
