//! One watch that comes back by itself, and leaves a tenant that does not answer in peace.
//!
//! Invariant: between two tries there is a wait that grows with the failures in a row, and none is
//! made while the tenant's breaker is open.

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use kit_client::backoff::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::tenant_session::breaker::Breaker;

/// 0.2 s doubling up to 30 s.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));

/// What stands between a watch and its tenant.
#[derive(Clone)]
pub(in crate::tenant_session) struct Gate {
    pub(in crate::tenant_session) uid: String,
    pub(in crate::tenant_session) breaker: Breaker,
    /// Told when the connection fails, so that somebody finds out what is the matter.
    pub(in crate::tenant_session) lost: mpsc::UnboundedSender<()>,
}

/// The events of a watch, for ever.
pub(super) fn watched<K>(
    api: Api<K>,
    config: watcher::Config,
    gate: Gate,
) -> BoxStream<'static, Event<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let events = watcher(api, config).boxed();
    let again = stream::unfold(
        (events, 0, gate),
        |(mut events, mut failures, gate)| async move {
            loop {
                match events.next().await? {
                    Ok(event) => {
                        // `Init` comes before the list has been asked for.
                        if !matches!(event, Event::Init) {
                            failures = 0;
                        }
                        return Some((event, (events, failures, gate)));
                    }
                    Err(error) => {
                        tracing::debug!(
                            error = kit_client::errors::chain(&error),
                            tenant.uid = gate.uid,
                            "watch inside a tenant cluster is interrupted"
                        );
                        // Of one that is known not to answer nobody needs to hear again.
                        if !is_answer(&error) && !gate.breaker.is_open(&gate.uid) {
                            // Fails only when the other end is gone, and this task with it.
                            let _ = gate.lost.send(());
                        }
                        tokio::time::sleep(BACKOFF.next(failures, rand::random())).await;
                        failures = failures.saturating_add(1);
                        gate.breaker.closed(&gate.uid).await;
                    }
                }
            }
        },
    );
    again.boxed()
}

/// Whether the API answered, if only with a refusal.
fn is_answer(error: &watcher::Error) -> bool {
    let source = match error {
        watcher::Error::InitialListFailed(source)
        | watcher::Error::WatchStartFailed(source)
        | watcher::Error::WatchFailed(source) => source,
        _ => return true,
    };
    matches!(source, kube::Error::Api(_))
}
