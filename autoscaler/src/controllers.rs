//! Controllers: what is kept right without being asked.
//!
//! | Module | What it keeps right |
//! |---|---|
//! | [`bounds`] | sizes of pools whose bounds were edited |
//! | [`scale_down`] | whether the Cluster Autoscaler may take a node away |
//! | [`priorities`] | which pools grow first |
//! | [`refusals`] | what a NodePool says of itself that cannot be carried out |
//!
//! Invariant: each decides in a pure `due`, and none knows another.

pub mod bounds;
pub mod priorities;
pub mod refusals;
pub mod scale_down;

use std::sync::Arc;

use crate::context::Context;

/// Runs all of them. Ends never.
pub async fn run(ctx: Arc<Context>) {
    tokio::join!(
        bounds::run(Arc::clone(&ctx)),
        scale_down::run(Arc::clone(&ctx)),
        priorities::run(Arc::clone(&ctx)),
        refusals::run(ctx),
    );
}
