//! Controller of one node: observe → plan → apply, until nothing is left to do.
//!
//! Invariant: it does not matter why a node is reconciled, nor where the last reconcile was cut off.

pub mod apply;
pub mod observe;
pub mod plan;
#[cfg(test)]
mod tests;

use api::Reason;
use tokio::time::Instant;

use crate::cache::triggers::Key;
use crate::context::Context;
use crate::error::Error;

/// More steps than any life needs; reaching it is a bug in the plan.
const MAX_STEPS: usize = 8;

/// One reconcile, from the top. What is not in memory is gone, and needs nothing.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(ctx: &Context, name: &str) -> Result<(), Error> {
    let Some(mut observed) = observe::observe(ctx, name) else {
        ctx.nodes.waiting(name, None);
        return Ok(());
    };
    let uid = observed.node.uid.clone();
    for _ in 0..MAX_STEPS {
        let plan = plan::plan(&observed);
        let done = match &plan.action {
            Some(action) => apply::apply(ctx, action, &mut observed).await?,
            None => false,
        };
        apply::publish(ctx, &observed.node, &plan.events).await;
        if plan.waiting_on == Some(plan::VOLUMES_ATTACHED)
            && let Some(wait) = ctx.heartbeats.wait(&uid, Instant::now())
        {
            ctx.queue.add_after(Key::Node(name.to_owned()), wait);
        }
        if plan.action.is_none() || done {
            ctx.nodes.waiting(name, plan.waiting_on.map(Reason::as_str));
            return Ok(());
        }
    }
    Err(Error::Endless("node"))
}
