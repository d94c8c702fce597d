//! Looks after one Service of the tenant cluster: observe → plan → apply, until nothing is left.
//!
//! Invariant: it does not matter why a Service is looked at, nor where the last look was cut off;
//! nothing waits here for an address.

use kit::errors::{Class, Classify as _};

pub mod apply;
pub mod plan;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::run::Context;
use kit::events::Notice;

/// More steps than any life needs; reaching it is a bug in the plan.
const MAX_STEPS: usize = 12;
/// Failures in a row after which people are told of one that may go away by itself.
const TOLD_AFTER: u32 = 3;

/// One look at the Service with this UID, from the top.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(ctx: &Context, uid: &str) -> Result<(), Error> {
    let mut observed = ctx.world.service(uid);
    for _ in 0..MAX_STEPS {
        let plan = plan::plan(&observed, &ctx.settings);
        for action in &plan.actions {
            let again = Box::pin(apply::apply(ctx, action, &mut observed)).await?;
            if again {
                // What follows was decided on an object that looks different now.
                break;
            }
        }
        apply::tell(ctx, &observed, &plan.events).await;
        if plan.actions.is_empty() {
            apply::complain(ctx, &observed, &plan.complaints).await;
            ctx.services.waiting(uid, plan.waiting_on);
            return Ok(());
        }
    }
    Err(Error::Endless("Service"))
}

/// Tells people of a failure that does not go away by itself.
pub async fn failed(ctx: &Context, uid: &str, error: &Error, failures: u32) {
    let lasting = matches!(error.class(), Class::Invalid | Class::Bug);
    if lasting || failures == TOLD_AFTER {
        let message = format!("Error syncing load balancer: {}", kit::errors::chain(error));
        let notice = Notice::warning("SyncLoadBalancerFailed", message);
        apply::tell(ctx, &ctx.world.service(uid), &[notice]).await;
    }
}
