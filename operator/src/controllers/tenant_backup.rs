//! Backups of TenantClusters' etcd: observe (what is in the tenant namespace, the target and its Secrets, and what the
//! process says of itself) → plan → apply. What is found is told to who writes the status ([`crate::backups`]).
//!
//! Invariant: nothing of the control plane is touched, and nothing that goes wrong here holds it up. What runs keeps
//! running where its target or a Secret is lost; claims and data keys are never deleted.

use std::sync::Arc;
use std::time::Duration;

use api::TenantCluster;
use jiff::Timestamp;
use kit_client::errors::Classify;
use kube::ResourceExt;
use kube::runtime::controller::Action as Requeue;
use kube::runtime::reflector::ObjectRef;

pub mod apply;
pub mod error;
pub mod identity;
pub mod observe;
pub mod plan;
pub mod report;
pub mod restore_test;
#[cfg(test)]
mod tests;

pub use self::error::Error;
use crate::backups::{Said, concerns};
use crate::context::Context;
use crate::state;

/// How long changes of a TenantCluster are throttled: its status is written often while it starts.
pub const PERIOD: Duration = Duration::from_secs(1);
/// Steps of one reconcile: keys, certificate, wrapping, identity, objects, a test, and a look.
const MAX_STEPS: usize = 8;

/// One reconcile, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(cluster: Arc<TenantCluster>, ctx: Arc<Context>) -> Result<Requeue, Error> {
    let (key, state) = (state::key_of(&*cluster), &ctx.backup_state);
    if !concerns(&cluster) || cluster.spec.paused || cluster.metadata.deletion_timestamp.is_some() {
        // What runs of a test runs on, and holds up nobody else's.
        ctx.backups.end_test(cluster.identity_uid());
        return Ok(state.succeeded(&key, None));
    }
    let work = run_to_end(&ctx, &cluster);
    let again = state.measure(&ctx.progress, &key, work).await?;
    Ok(state.succeeded(&key, again))
}

async fn run_to_end(
    ctx: &Context,
    cluster: &Arc<TenantCluster>,
) -> Result<Option<Duration>, Error> {
    let settings = ctx.reserved_ranges.settings();
    let Some(mut observed) = observe::observe(ctx, cluster, &settings).await? else {
        return Ok(None);
    };
    for _ in 0..MAX_STEPS {
        let now = Timestamp::now();
        let plan = plan::plan(&observed, &settings, now);
        if plan.is_settled() {
            let uid = cluster.identity_uid().to_owned();
            match plan.tests {
                true => ctx.backups.hold_test(&uid),
                false => ctx.backups.end_test(&uid),
            }
            let saved = observed.saved_keys(now);
            let is_news = ctx.backups.publish_saved(&uid, saved);
            tell(ctx, cluster, plan.said, is_news);
            return Ok(plan.again.and_then(|again| Duration::try_from(again).ok()));
        }
        ctx.leadership.ensure().map_err(Error::Fence)?;
        apply::apply(ctx, &plan, &mut observed, &settings, now).await?;
    }
    Err(Error::Endless)
}

/// Tells, and has it said where it is news.
fn tell(ctx: &Context, cluster: &Arc<TenantCluster>, said: Option<Said>, is_news: bool) {
    let uid = cluster.identity_uid().to_owned();
    let is_said = said.is_some_and(|said| ctx.backups.publish(&uid, said));
    if is_said || is_news {
        let cluster = ObjectRef::from_obj(&**cluster);
        ctx.throttle.call(&state::key(&cluster));
        // Fails only once the controller has ended.
        let _ = ctx.triggers.clusters.send(cluster);
    }
}

/// When to try again after a failure: the class decides.
pub fn error_policy(cluster: Arc<TenantCluster>, error: &Error, ctx: Arc<Context>) -> Requeue {
    let class = error.class();
    let key = state::key_of(&*cluster);
    tracing::warn!(
        tenant.name = cluster.name_any(),
        tenant.namespace = cluster.namespace().unwrap_or_default(),
        error.class = class.label(),
        error = kit_client::errors::chain(error),
        "backup of TenantCluster {key} could not be cared for"
    );
    Requeue::requeue(ctx.backup_state.retry(&key, class))
}
