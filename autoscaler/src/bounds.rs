//! Brings pools within their bounds after these were edited: nobody else may change `replicas` then.
//!
//! Invariant: it acts only when `replicas` lies outside, and names nobody: who goes when a user
//! lowers the most is the operator's choice, as in any pool that is made smaller by hand.

use std::sync::Arc;

use crate::node_group::{self, Group, decide};
use crate::run::Context;
use crate::world::State;

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
    let store = &ctx.store;
    let bring = |id: String| async move {
        let within = |group: Group<'_>, state: &State| Ok(decide::bring_within(group, state));
        let brought = store.change(&id, within).await;
        if let Err(error) = &brought {
            let error = kit::errors::chain(error);
            tracing::warn!(error, "could not bring {id} within its bounds");
        }
        brought.is_ok()
    };
    ctx.world.keep(outside, bring).await;
}
