//! Watches on one object each, which retry by themselves.
//!
//! Invariant: a watch that fails is logged and opened again; nobody takes that for an object that is gone.

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use kit_client::errors::chain;
use kube::runtime::{WatchStreamExt as _, watcher};

/// The same watch without its errors.
pub(super) fn steady<K: Send>(
    watch: impl Stream<Item = Result<Option<K>, watcher::Error>> + Send,
) -> impl Stream<Item = Option<K>> + Send {
    watch
        .default_backoff()
        .inspect_err(|error| tracing::warn!(error = chain(error), "a watch of the webhook failed"))
        .filter_map(|seen| std::future::ready(seen.ok()))
}
