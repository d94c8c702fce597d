//! One watch that is kept for as long as the process runs, and told of event by event.
//!
//! Invariant: what cannot be decoded is logged and left out, so that one broken object stops nobody;
//! an API that is away is tried again and again, and nothing is concluded from its silence.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use kit_client::backoff::Backoff;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::runtime::{WatchStreamExt, utils};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// Objects of one page of a list: whole pages are in memory at a time.
const PAGE: u32 = 50;
/// Seconds after which a watch is begun anew: one whose connection died without a word is noticed
/// that late at the latest.
const LASTS: u32 = 120;

/// Tells of everything that `config` selects, until it is dropped. `watch` is what logs call it.
pub fn keep<K>(
    api: Api<DeserializeGuard<K>>,
    config: Config,
    watch: impl Debug + Send + Sync + 'static,
    tell: impl FnMut(Event<K>) + Send + 'static,
) -> BoxFuture<'static, ()>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    keep_heeding(api, config, watch, tell, || {})
}

/// As [`keep`], and calls `interrupted` each time that the watch breaks off or cannot be begun. That
/// it goes on again nobody tells while nothing changes: ask the API.
pub fn keep_heeding<K>(
    api: Api<DeserializeGuard<K>>,
    config: Config,
    watch: impl Debug + Send + Sync + 'static,
    mut tell: impl FnMut(Event<K>) + Send + 'static,
    mut interrupted: impl FnMut() + Send + 'static,
) -> BoxFuture<'static, ()>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = config.page_size(PAGE).timeout(LASTS);
    Box::pin(async move {
        let mut events = watcher(api, config).backoff(Patience::default()).boxed();
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(Event::Init) => Some(Event::Init),
                Ok(Event::InitDone) => Some(Event::InitDone),
                Ok(Event::InitApply(object)) => decoded(object, &watch).map(Event::InitApply),
                Ok(Event::Apply(object)) => decoded(object, &watch).map(Event::Apply),
                Ok(Event::Delete(object)) => decoded(object, &watch).map(Event::Delete),
                Err(error) => {
                    let error = kit_client::errors::chain(&error);
                    tracing::warn!(?watch, error, "watch is interrupted");
                    interrupted();
                    None
                }
            };
            if let Some(event) = event {
                tell(event);
            }
        }
    })
}

fn decoded<K>(guard: DeserializeGuard<K>, watch: &impl Debug) -> Option<K> {
    match guard.0 {
        Ok(object) => Some(object),
        Err(error) => {
            tracing::error!(
                ?watch,
                error = error.error,
                "cannot read {}/{}; correct it with kubectl edit",
                error.metadata.namespace.unwrap_or_default(),
                error.metadata.name.unwrap_or_default(),
            );
            None
        }
    }
}

/// Tries again soon: what comes back should be seen within seconds, and it is one process per
/// tenant cluster.
#[derive(Debug, Default)]
struct Patience {
    attempt: u32,
}

const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = BACKOFF.next(self.attempt, rand::random());
        self.attempt = self.attempt.saturating_add(1);
        // Never at once: an API that refuses quickly must not be asked in a loop.
        Some(wait.max(Duration::from_millis(100)))
    }
}

impl utils::Backoff for Patience {
    fn reset(&mut self) {
        self.attempt = 0;
    }
}
