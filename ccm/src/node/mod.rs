//! Looks after one node: observe → plan → apply, until nothing is left to do.
//!
//! Invariant: it does not matter why a node is looked at, nor where the last look was cut off.

pub mod apply;
pub mod plan;
pub mod pulse;
#[cfg(test)]
mod tests;

use tokio::time::Instant;

use crate::error::Error;
use crate::queue::Key;
use crate::run::Context;

/// More steps than any life needs; reaching it is a bug in the plan.
const MAX_STEPS: usize = 8;

/// One look, from the top. What is not in memory is gone, and needs nothing.
///
/// # Errors
/// See [`Error`]; its class decides when to try again.
pub async fn reconcile(ctx: &Context, name: &str) -> Result<(), Error> {
    let Some(mut observed) = ctx.world.node(name, ctx.settings.zones) else {
        ctx.nodes.waiting(name, None);
        return Ok(());
    };
    let uid = observed.node.uid.clone();
    observed.waited = ctx.pulses.waited(&uid, Instant::now());
    for _ in 0..MAX_STEPS {
        let plan = plan::plan(&observed);
        let done = match &plan.action {
            Some(action) => apply::apply(ctx, action, &mut observed).await?,
            None => false,
        };
        apply::tell(ctx, &observed.node, &plan.events).await;
        if plan.waiting_on == Some(plan::VOLUMES_ATTACHED)
            && let Some(wait) = ctx.pulses.wait(&uid, Instant::now())
        {
            ctx.queue.add_after(Key::Node(name.to_owned()), wait);
        }
        if plan.action.is_none() || done {
            ctx.nodes.waiting(name, plan.waiting_on);
            return Ok(());
        }
    }
    Err(Error::Endless("node"))
}
