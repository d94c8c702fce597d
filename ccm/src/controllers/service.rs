//! Controller of one Service of the tenant cluster: observe → plan → apply, until nothing is left.
//!
//! Invariant: it does not matter why a Service is reconciled, nor where the last reconcile was cut
//! off; nothing waits here for an address, and what an API refuses holds up nothing else.

use api::Reason;
use kit::events::Notice;
use kit_client::errors::{Class, Classify as _};
use tokio::time::Instant;

use crate::cache::triggers::Key;
use crate::context::Context;
use crate::error::Error;

use self::plan::types::Action;

pub mod apply;
pub mod observe;
pub mod plan;
#[cfg(test)]
mod tests;

/// More steps than any life needs; reaching it is a bug in the plan.
const MAX_STEPS: usize = 12;
/// Failures in a row after which people are told of one that may go away by itself.
const TOLD_AFTER: u32 = 3;

/// One reconcile of the Service with this UID, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(ctx: &Context, uid: &str) -> Result<(), Error> {
    observe::settle(ctx, uid).await?;
    let mut observed = observe::observe(ctx, uid);
    let mut errors = Vec::new();
    for _ in 0..MAX_STEPS {
        let plan = plan::plan(&observed, &ctx.settings);
        for action in &plan.actions {
            if observed.leaves_out(action) {
                continue;
            }
            match Box::pin(apply::apply(ctx, action, &mut observed, plan.takes_out)).await {
                Ok(false) => {}
                // What follows was decided on an object that looks different now.
                Ok(true) => break,
                Err(error) if error.is_refusal() => {
                    errors.push(error);
                    if matches!(action, Action::ApplyMirror(_)) {
                        ctx.on_change(ctx.cache.release(uid).as_slice());
                    }
                    if observed.refuse(action) {
                        break;
                    }
                }
                Err(error) => {
                    if matches!(action, Action::ApplyMirror(_)) {
                        ctx.cache.doubt(uid);
                    }
                    return Err(error.after(errors));
                }
            }
        }
        if plan.actions.is_empty() {
            apply::publish(ctx, &observed, &plan.events).await;
            apply::complain(ctx, &observed, &plan.complaints).await;
            ctx.services
                .waiting(uid, plan.waiting_on.map(Reason::as_str));
            let waits = plan.waiting_on == Some(Reason::NoAddressYet);
            ctx.pending.without_address(uid, waits, Instant::now());
            return Error::all(errors).map_or(Ok(()), Err);
        }
        if plan
            .actions
            .iter()
            .all(|action| !observed.leaves_out(action))
        {
            apply::publish(ctx, &observed, &plan.events).await;
        }
    }
    Err(Error::Endless("Service").after(errors))
}

/// Only what takes endpoints out that traffic still goes to; the rest is left for the Service's next turn,
/// which comes after those who came before it. Nothing is waited for here but the answers to those writes, so
/// a dead machine is out of all load balancers whatever else there is to do.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn take_out(ctx: &Context, uid: &str) -> Result<(), Error> {
    let mut observed = observe::observe(ctx, uid);
    let plan = plan::plan(&observed, &ctx.settings);
    let mut errors = Vec::new();
    for action in plan.actions.iter().filter(|action| action.is_of_slices()) {
        if !plan.takes_out || observed.leaves_out(action) {
            continue;
        }
        match Box::pin(apply::apply(ctx, action, &mut observed, true)).await {
            Err(error) if error.is_refusal() => {
                errors.push(error);
                observed.refuse(action);
            }
            Err(error) => return Err(error.after(errors)),
            Ok(_) => {}
        }
    }
    ctx.queue.add(Key::Service(uid.to_owned()));
    Error::all(errors).map_or(Ok(()), Err)
}

/// Tells people of a failure that does not go away by itself.
pub async fn failed(ctx: &Context, uid: &str, error: &Error, failures: u32) {
    let lasting = matches!(error.class(), Class::Invalid | Class::Bug);
    if lasting || failures == TOLD_AFTER {
        let message = format!("Error syncing load balancer: {}", error.told());
        let notice = Notice::warning(Reason::SyncLoadBalancerFailed, message);
        apply::publish(ctx, &observe::observe(ctx, uid), &[notice]).await;
    }
}
