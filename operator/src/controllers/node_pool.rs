//! Reconciles NodePools: observe → plan → apply → report.
//!
//! Invariant: it does not matter why a reconcile was called, nor where the last one was cut off;
//! the tenant's API is never asked: how nodes do is read from the Machines.

use std::sync::Arc;
use std::time::Duration;

use api::NodePool;
use jiff::Timestamp;
use kit::panics::Panicked;
use kit_client::errors::{Class, Classify};
use kube::ResourceExt;
use kube::runtime::controller::Action as Requeue;

pub mod apply;
pub mod nodes;
pub mod observe;
pub mod observed;
pub mod plan;
pub mod report;
#[cfg(test)]
mod tests;

use crate::context::Context;
use crate::state;
use plan::{Action, Plan};

/// More steps than any change needs; reaching it is a bug in a plan, and is reported as one.
const MAX_STEPS: usize = 8;

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
    #[error("a plan does not come to an end; it goes on to write {0}")]
    Endless(String),
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
            Self::Endless(_) => Class::Bug,
        }
    }
}

/// One reconcile, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(pool: Arc<NodePool>, ctx: Arc<Context>) -> Result<Requeue, Error> {
    let (key, state) = (state::key_of(&*pool), &ctx.pool_state);
    let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
    let work = run_to_end(&ctx, &namespace, &name);
    let result = state.measure(&ctx.progress, &key, work).await;
    if let Err(error) = &result {
        let class = error.class();
        if state.is_told(&key, class) {
            let message = kit_client::errors::chain(error);
            report::failure(&ctx, &namespace, &name, class, &message).await;
        }
    }
    Ok(state.succeeded(&key, result?.and_then(|plan| plan.requeue_after)))
}

async fn run_to_end(ctx: &Context, namespace: &str, name: &str) -> Result<Option<Plan>, Error> {
    let observed = observe::observe(ctx, namespace, name).await;
    let Some(mut observed) = observed.map_err(Error::Observe)? else {
        return Ok(None);
    };
    let uid = observed.pool.uid().unwrap_or_default();
    for _ in 0..MAX_STEPS {
        let plan = plan::plan(&observed, Timestamp::now());
        if plan.is_settled() {
            let reported = report::report(ctx, &plan, &mut observed).await;
            reported.map_err(Error::Apply)?;
            report::events(ctx, &plan, &observed.pool).await;
            let waiting = plan.waiting_on.as_ref().map(|w| w.reason.as_str());
            ctx.pool_state.metrics.waiting(&uid, waiting);
            return Ok(Some(plan));
        }
        let applied = apply::apply(ctx, &plan, &mut observed).await;
        applied.map_err(Error::Apply)?;
        report::events(ctx, &plan, &observed.pool).await;
        tracing::debug!(
            pool.name = name,
            pool.namespace = namespace,
            creations = plan.creations.len(),
            deletions = plan.deletions.len(),
            "step of NodePool {namespace}/{name}"
        );
        if plan.actions.contains(&Action::RemoveFinalizer) {
            ctx.pool_state.forget(&format!("{namespace}/{name}"), &uid);
            return Ok(None);
        }
    }
    let left = plan::plan(&observed, Timestamp::now());
    let made = left.creations.iter().map(|o| o.name.clone());
    let rest = left.changes.iter().map(|c| c.name.clone());
    let gone = left.deletions.iter().map(|d| d.name.clone());
    let all: Vec<_> = made.chain(rest).chain(gone).collect();
    Err(Error::Endless(all.join(", ")))
}

/// When to try again after a failure: the class decides.
pub fn error_policy(pool: Arc<NodePool>, error: &Error, ctx: Arc<Context>) -> Requeue {
    let class = error.class();
    let key = state::key_of(&*pool);
    tracing::warn!(
        pool.name = pool.name_any(),
        pool.namespace = pool.namespace().unwrap_or_default(),
        error.class = class.label(),
        error = kit_client::errors::chain(error),
        "reconcile of NodePool {key} failed"
    );
    Requeue::requeue(ctx.pool_state.retry(&key, class))
}

/// How long changes of Machines are throttled before their pool is reconciled again: a hundred
/// machines that boot together are a few reconciles, not a hundred.
pub const PERIOD: Duration = Duration::from_millis(500);
