//! Brings pools within their bounds after these were edited: nobody else may change `replicas` then.
//!
//! Invariant: it acts only when `replicas` lies outside, and names nobody: who goes when a user
//! lowers the most is the operator's choice, as in any pool that is made smaller by hand.

use std::sync::Arc;
use std::time::Duration;

use crate::node_group::{self, decide};
use crate::run::Context;
use crate::world::State;

/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(2);

/// Groups whose size lies outside of their bounds.
#[must_use]
pub fn outside(state: &State) -> Vec<String> {
    let outside = node_group::groups(state).filter(|group| {
        let within = group.min()..=group.max();
        !within.contains(&group.pool.replicas)
    });
    outside.map(|group| group.pool.group.clone()).collect()
}

/// Keeps pools within their bounds. Ends never.
pub async fn keep(ctx: Arc<Context>) {
    let mut changes = ctx.world.changes();
    ctx.world.listed().await;
    loop {
        changes.mark_unchanged();
        let mut failed = false;
        for id in ctx.world.look(outside) {
            let change = ctx
                .store
                .change(&id, |group, state| Ok(decide::bring_within(group, state)));
            if let Err(error) = change.await {
                let error = kit::errors::chain(&error);
                tracing::warn!(error, "could not bring {id} within its bounds");
                failed = true;
            }
        }
        if failed {
            tokio::time::sleep(PAUSE).await;
        } else {
            // The sender is the world's, so waiting cannot fail.
            let _ = changes.changed().await;
        }
    }
}
