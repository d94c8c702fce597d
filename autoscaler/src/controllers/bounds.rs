//! Controller of bounds: brings pools within them after they were edited, when nobody else may change
//! `replicas`.
//!
//! Invariant: it acts only when `replicas` lies outside, and names nobody: who goes when a user
//! lowers the most is the operator's choice, as in any pool that is made smaller by hand.

use std::sync::Arc;
use std::time::Duration;

use kit_client::errors::Classify;

use crate::cache::state::State;
use crate::context::Context;
use crate::node_group::{self, Group, decide};

/// Groups whose size lies outside of their bounds.
#[must_use]
pub fn due(state: &State) -> Vec<String> {
    let outside = node_group::groups(state).filter(|group| {
        let within = group.min()..=group.max();
        !within.contains(&group.pool.replicas)
    });
    outside.map(|group| group.pool.group.clone()).collect()
}

/// Keeps pools within their bounds. Ends never.
pub async fn run(ctx: Arc<Context>) {
    let (node_pools, metrics) = (&ctx.node_pools, &ctx.metrics.bounds);
    let bring = |id: String| async move {
        let run = metrics.begin(Duration::ZERO);
        let within = |group: Group<'_>, state: &State| Ok(decide::bring_within(group, state));
        let brought = node_pools.change(&id, within).await;
        run.finish(brought.as_ref().err().map(Classify::class));
        if let Err(error) = &brought {
            let error = kit_client::errors::chain(error);
            tracing::warn!(error, "could not bring {id} within its bounds");
        }
        brought.is_ok()
    };
    ctx.cache.control_loop(due, bring).await;
}
