//! Reconciles AccessGrants: observe → plan → apply.
//!
//! Invariant: rights inside a tenant cluster go with the grant that gave them, and a grant never lasts longer than was asked
//! for, wherever a reconcile was cut off; a tenant cluster that does not answer costs a bounded wait.

use std::sync::Arc;
use std::time::Duration;

use api::AccessGrant;
use jiff::Timestamp;
use kit_client::errors::{Class, Classify};
use kube::runtime::controller::Action as Requeue;
use kube::{Api, ResourceExt};

mod apply;
pub mod error;
mod observe;
pub mod observed;
pub mod plan;
mod secret;
#[cfg(test)]
mod tests;
mod token;

use self::error::Error;
use crate::context::Context;
use crate::state;

/// One reconcile, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(grant: Arc<AccessGrant>, ctx: Arc<Context>) -> Result<Requeue, Error> {
    let (key, state) = (state::key_of(&*grant), &ctx.access_grant_state);
    let work = step(&ctx, &grant);
    let again = state.measure(&ctx.progress, &key, work).await?;
    Ok(state.succeeded(&key, again))
}

async fn step(ctx: &Context, grant: &AccessGrant) -> Result<Option<Duration>, Error> {
    // Live: one that was deleted a moment ago gets no rights any more.
    let namespace = grant.namespace().unwrap_or_default();
    let grants = Api::<AccessGrant>::namespaced(ctx.client.clone(), &namespace);
    let live = grants.get_opt(&grant.name_any()).await;
    let live = live.map_err(|source| Error::Read {
        what: "the AccessGrant",
        source: Box::new(source),
    })?;
    let Some(live) = live else {
        return Ok(None);
    };
    let now = Timestamp::now();
    let seen = Box::pin(observe::observe(ctx, &live, now)).await?;
    let plan = plan::plan(&live, &seen.observed, &ctx.settings.access, now);
    Box::pin(apply::apply(ctx, &live, &seen, &plan, now)).await?;
    Ok(plan.again.and_then(|again| Duration::try_from(again).ok()))
}

/// When to try again after a failure: the class decides.
pub fn error_policy(grant: Arc<AccessGrant>, error: &Error, ctx: Arc<Context>) -> Requeue {
    let class = error.class();
    let key = state::key_of(&*grant);
    if class != Class::Conflict {
        tracing::warn!(
            grant.name = grant.name_any(),
            grant.namespace = grant.namespace().unwrap_or_default(),
            error.class = class.label(),
            error = kit_client::errors::chain(error),
            "reconcile of AccessGrant {key} failed"
        );
    }
    Requeue::requeue(ctx.access_grant_state.retry(&key, class))
}
