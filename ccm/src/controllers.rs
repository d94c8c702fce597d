//! Controllers of nodes and Services: one reconcile, and when the next one is due if it failed.
//!
//! Invariant: the class of an error alone decides when it is tried again.

use std::time::Duration;

use kit::workqueue::{Priority, Turn};
use kit_client::errors::{Class, Classify};
use tokio::time::Instant;

use crate::cache::triggers::Key;
use crate::context::Context;

pub mod node;
pub mod service;

/// Reconciles whose turn it is; a failure is logged, and queued again.
pub async fn reconcile(ctx: &Context, turn: &Turn<Key>) {
    let Turn { key, age, priority } = turn;
    let in_hand = ctx.progress.begin();
    let now = Instant::now();
    ctx.pending.begin(key, now.checked_sub(*age).unwrap_or(now));
    let failed = match key {
        Key::Node(name) if ctx.settings.nodes => {
            let run = ctx.nodes.begin(*age);
            let result = node::reconcile(ctx, name).await;
            run.finish(result.as_ref().err().map(Classify::class));
            result
                .err()
                .map(|e| (e.class(), kit_client::errors::chain(&e)))
        }
        Key::Service(uid) if ctx.settings.services => {
            let run = ctx.services.begin(*age);
            let result = match priority {
                Priority::Urgent => service::take_out(ctx, uid).await,
                Priority::High | Priority::Normal => service::reconcile(ctx, uid).await,
            };
            run.finish(result.as_ref().err().map(Classify::class));
            if let Err(error) = &result
                && *priority != Priority::Urgent
            {
                service::failed(ctx, uid, error, ctx.attempts.count(key) + 1).await;
            }
            result
                .err()
                .map(|e| (e.class(), kit_client::errors::chain(&e)))
        }
        Key::LoadBalancers => {
            ctx.queue_balanced();
            None
        }
        Key::Node(_) | Key::Service(_) => None,
    };
    drop(in_hand);
    // What is urgent leaves the rest to another turn, which says whether all of it is done.
    if *priority != Priority::Urgent || *key == Key::LoadBalancers {
        ctx.pending
            .end(key, failed.as_ref().map(|(class, _)| *class));
    }
    let Some((class, error)) = failed else {
        ctx.attempts.reset(key);
        return;
    };
    let wait = ctx.attempts.failed(key);
    let wait = match class {
        Class::Conflict => wait.min(Duration::from_millis(200)),
        Class::Transient => wait,
        Class::Invalid | Class::Bug => wait.max(Duration::from_secs(5)),
    };
    tracing::warn!(
        key = ?key, error.class = class.label(), error,
        "reconciling {} failed; again in {} ms", key.name(), wait.as_millis()
    );
    ctx.queue.add_after_with(key.clone(), wait, *priority);
}
