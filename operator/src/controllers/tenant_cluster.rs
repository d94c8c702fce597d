//! Reconciles TenantClusters: observe → validate → plan → apply → report.
//!
//! One reconcile plans and applies until nothing is left to do or something has to be waited for,
//! so a creation does not go through the queue between its steps.
//!
//! Invariant: it does not matter why a reconcile was called, nor where the last one was cut off.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{Reason, TenantCluster};
use jiff::Timestamp;
use kit::panics::Panicked;
use kit_client::errors::{Class, Classify};
use kube::ResourceExt;
use kube::runtime::controller::Action as Requeue;
use kube::runtime::reflector::ObjectRef;

pub mod apply;
pub mod observe;
pub mod observed;
pub mod part_name;
pub mod plan;
pub mod report;
#[cfg(test)]
mod tests;

use crate::context::Context;
use crate::hibernation;
use crate::state;
use observed::{Failure, Observed};
use part_name::PartName;
use plan::{Action, Plan};

/// More steps than any creation needs; reaching it is a bug in a plan, and is reported as one.
const MAX_STEPS: usize = 32;
/// More steps in a row than any part needs. One that goes on and on (somebody changes what we write)
/// is left, so that it holds up no other.
const MAX_STEPS_OF_A_PART: usize = 8;

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed.
    #[error("observe")]
    Observe(#[source] observe::Error),
    /// Writing failed.
    #[error("apply")]
    Apply(#[source] apply::Error),
    /// Parts could not be carried out; all others were.
    #[error("{}", sentences(.0))]
    Parts(BTreeMap<PartName, Failure>),
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
            // What goes away by itself is tried again soon, whatever else is wrong.
            Self::Parts(failures) => failures
                .values()
                .map(|failure| failure.class)
                .min()
                .unwrap_or(Class::Bug),
            Self::Endless => Class::Bug,
        }
    }
}

fn sentences(failures: &BTreeMap<PartName, Failure>) -> String {
    let each: Vec<_> = failures
        .iter()
        .map(|(part, failure)| format!("{part}: {}", failure.message))
        .collect();
    each.join("; ")
}

/// One reconcile, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(cluster: Arc<TenantCluster>, ctx: Arc<Context>) -> Result<Requeue, Error> {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let (key, state) = (state::key_of(&*cluster), &ctx.cluster_state);
    let work = run_to_end(&ctx, &namespace, &name);
    let result = state.measure(&ctx.progress, &key, work).await;
    let uid = cluster.identity_uid().to_owned();
    if let Err(error) = &result {
        let class = error.class();
        if state.is_told(&key, class) {
            let message = kit_client::errors::chain(error);
            report::failure(&ctx, &namespace, &name, class, &message).await;
        }
        if matches!(class, Class::Invalid | Class::Bug) && ctx.rollout_queue.started(&uid) {
            ctx.trigger_next();
        }
    }
    // Whether it is being rolled out was seen, as far as it can be.
    if ctx.rollout_queue.saw(&uid, || ctx.own_cluster_uids()) {
        ctx.trigger_next();
    }
    let found = ctx.stores.clusters.get(&ObjectRef::from_obj(&*cluster));
    if found.is_none_or(|found| found.uid() != cluster.uid()) {
        // It went meanwhile: what was begun for it since is forgotten too.
        ctx.forget_identity(&cluster);
    }
    Ok(state.succeeded(&key, result?.and_then(|plan| plan.requeue_after)))
}

async fn run_to_end(ctx: &Context, namespace: &str, name: &str) -> Result<Option<Plan>, Error> {
    let now = Timestamp::now();
    let Some(mut observed) = Box::pin(observe::observe(ctx, namespace, name, now))
        .await
        .map_err(Error::Observe)?
    else {
        return Ok(None);
    };
    watch_secrets(ctx, &observed);
    leave_alone(ctx, &observed);
    let settings = ctx.reserved_ranges.settings();
    let mut steps = Steps::default();
    for _ in 0..MAX_STEPS {
        let now = Timestamp::now();
        let plan = plan::plan(&observed, &settings, now);
        if steps.take(&plan, &mut observed) {
            continue;
        }
        if plan.is_settled() {
            report::report(ctx, &plan, &mut observed)
                .await
                .map_err(Error::Apply)?;
            ctx.cluster_state.metrics.waiting(
                &uid(&observed),
                plan.waiting_on.as_ref().map(|w| w.reason.as_str()),
            );
            give_place_back(ctx, &observed, &plan);
            // Not earlier: what it answers to a question it may be too slow for to write.
            if matches!(observed.tenant, observed::Tenant::Answers { .. }) {
                ctx.recovery_probes.forget(&uid(&observed));
            }
            return match observed.failures.is_empty() {
                true => Ok(Some(plan)),
                false => Err(Error::Parts(observed.failures)),
            };
        }
        let was_ready = observed.has_been_ready();
        let applied = apply::apply(ctx, &plan, &mut observed, now)
            .await
            .map_err(Error::Apply)?;
        tracing::debug!(
            tenant.name = name,
            tenant.namespace = namespace,
            writes = applied.writes,
            parts = ?steps.now(&plan),
            "step of TenantCluster {namespace}/{name}"
        );
        if plan.actions().any(|a| *a == Action::RemoveFinalizer) {
            return Ok(None);
        }
        if !was_ready && matches!(observed.tenant, observed::Tenant::Answers { .. }) {
            on_ready(ctx, &observed);
        }
        if applied.observe_again {
            let again = Box::pin(observe::observe(ctx, namespace, name, Timestamp::now())).await;
            let Some(next) = again.map_err(Error::Observe)? else {
                return Ok(None);
            };
            let before = std::mem::replace(&mut observed, next);
            observed.failures = before.failures;
            observed.budget = before.budget;
            observed.etcd = before.etcd;
            observed.etcd_listing = before.etcd_listing;
            observed.etcd_steps = before.etcd_steps;
            observed.etcd_space = before.etcd_space;
            observed.turn = before.turn;
            observed.preflight = before.preflight;
            observed.usage = before.usage;
            observed.held_tokens = before.held_tokens;
            observed.kubelets.nodes = before.kubelets.nodes;
            // What was just made may not have been seen yet.
            observed.upgrade_snapshot = observed.upgrade_snapshot.or(before.upgrade_snapshot);
            watch_secrets(ctx, &observed);
            leave_alone(ctx, &observed);
        }
    }
    Err(Error::Endless)
}

/// How many steps in a row each part had something to do.
#[derive(Default)]
struct Steps(BTreeMap<PartName, usize>);

impl Steps {
    /// Counts a plan; true when a part of it is given up, so that it has to be planned anew.
    fn take(&mut self, plan: &Plan, observed: &mut Observed) -> bool {
        let mut gave_up = false;
        for part in &plan.parts {
            let steps = self.0.entry(part.name).or_default();
            *steps = if part.is_settled() { 0 } else { *steps + 1 };
            if *steps > MAX_STEPS_OF_A_PART {
                let left: Vec<_> = part.objects().map(|o| o.key().to_string()).collect();
                let failure = Failure {
                    class: Class::Bug,
                    message: format!(
                        "it does not come to an end; somebody changes what Covey writes, again and \
                         again: {}",
                        left.join(", ")
                    ),
                };
                observed.failures.insert(part.name, failure);
                gave_up = true;
            }
        }
        gave_up
    }

    /// Parts with something to do, for the log.
    fn now(&self, plan: &Plan) -> Vec<PartName> {
        let busy = plan.parts.iter().filter(|part| !part.is_settled());
        busy.map(|part| part.name).collect()
    }
}

/// When to try again after a failure: the class decides.
pub fn error_policy(cluster: Arc<TenantCluster>, error: &Error, ctx: Arc<Context>) -> Requeue {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let class = error.class();
    let wait = ctx.cluster_state.retry(&state::key_of(&*cluster), class);
    let message = kit_client::errors::chain(error);
    tracing::warn!(
        tenant.name = name,
        tenant.namespace = namespace,
        error.class = class.label(),
        error = message,
        retry_seconds = wait.as_secs_f64(),
        "reconcile of TenantCluster {namespace}/{name} failed"
    );
    Requeue::requeue(wait)
}

/// One that cannot start now (its spec is refused, it waits for an address) must not keep others
/// from starting; nor one whose rollout came to an end, or that is halted.
fn give_place_back(ctx: &Context, observed: &Observed, plan: &Plan) {
    if needs_no_place(observed, plan) && ctx.rollout_queue.done(&uid(observed)) {
        ctx.trigger_next();
    }
}

/// Whether neither a start nor a rollout is under way, or asked for, for certain.
fn needs_no_place(observed: &Observed, plan: &Plan) -> bool {
    let started = observed.started();
    // What goes on where nobody can look goes on; after a while the place is given up all the same.
    if started.is_unknown() && observed.cluster.metadata.deletion_timestamp.is_none() {
        return false;
    }
    let waiting = plan.waiting_on.as_ref();
    let queues = waiting.is_some_and(|w| w.reason == Reason::WaitingForStart);
    match observed.has_been_ready() {
        true => plan.rollout.is_none(),
        false => started.there().is_none() && !queues,
    }
}

fn on_ready(ctx: &Context, observed: &Observed) {
    // A creation costs more than a burst, and what comes after it is not to wait for that.
    ctx.throttle.forgive(&uid(observed));
    if let Some(created) = &observed.cluster.metadata.creation_timestamp {
        let elapsed = Timestamp::now().duration_since(created.0);
        ctx.cluster_state
            .metrics
            .ready_after(Duration::try_from(elapsed).unwrap_or_default());
    }
}

/// Whoever asks one that sleeps would wake it, or asks for nothing: what was begun at its API and etcd ends.
fn leave_alone(ctx: &Context, observed: &Observed) {
    if hibernation::is_left_alone(&observed.cluster) {
        let uid = uid(observed);
        ctx.tenants.forget(&uid);
        ctx.startup_probes.forget(&uid);
        ctx.recovery_probes.forget(&uid);
        ctx.etcd_looks.rest(&uid);
    }
}

fn watch_secrets(ctx: &Context, observed: &Observed) {
    let ns = observed.tenant_namespace();
    let binding = observed.find("RoleBinding", &ns, api::names::OPERATOR_BINDING);
    if binding.there().is_some() && observed.cluster.metadata.deletion_timestamp.is_none() {
        ctx.secrets
            .ensure(&uid(observed), &ns, &ObjectRef::from_obj(&observed.cluster));
    }
}

fn uid(observed: &Observed) -> String {
    observed.cluster.identity_uid().to_owned()
}
