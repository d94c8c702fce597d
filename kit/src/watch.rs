//! One watch that is kept for as long as the process runs, and told of event by event.
//!
//! Invariant: what cannot be decoded is logged and told of as such, so that one broken object stops nobody and
//! nobody takes it for gone; an API that is away is tried again and again, and nothing is concluded from its
//! silence.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use kit_client::backoff::Backoff;
use kube::core::{DeserializeGuard, ObjectMeta};
use kube::runtime::watcher::{self, Config, watcher};
use kube::runtime::{WatchStreamExt, utils};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

pub use self::told::Told;

mod told;

/// Objects of one page of a list: whole pages are in memory at a time.
const PAGE: u32 = 50;
/// Seconds after which a watch is begun anew: one whose connection died without a word is noticed
/// that late at the latest.
const LASTS: u32 = 120;

/// What a watch tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<K> {
    /// A list begins.
    Begin,
    /// An object is there, or is otherwise than it was.
    Applied(K),
    /// An object is there that cannot be read: what was known of it holds, because nobody knows better.
    Unreadable(Box<ObjectMeta>),
    /// An object is gone.
    Deleted(K),
    /// An object is gone that could not be read.
    DeletedUnread(Box<ObjectMeta>),
    /// The list is over: what it did not name is gone.
    End,
}

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
                Ok(event) => Some(told(event, &watch)),
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

fn told<K>(event: watcher::Event<DeserializeGuard<K>>, watch: &impl Debug) -> Event<K> {
    match event {
        watcher::Event::Init => Event::Begin,
        watcher::Event::InitDone => Event::End,
        watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
            decoded(object, watch).map_or_else(Event::Unreadable, Event::Applied)
        }
        watcher::Event::Delete(object) => {
            decoded(object, watch).map_or_else(Event::DeletedUnread, Event::Deleted)
        }
    }
}

fn decoded<K>(guard: DeserializeGuard<K>, watch: &impl Debug) -> Result<K, Box<ObjectMeta>> {
    guard.0.map_err(|error| {
        tracing::error!(
            ?watch,
            error = error.error,
            "cannot read {}/{}; correct it with kubectl edit",
            error.metadata.namespace.as_deref().unwrap_or_default(),
            error.metadata.name.as_deref().unwrap_or_default(),
        );
        Box::new(error.metadata)
    })
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    /// Finding D15: what cannot be read was left out of lists, and so was gone.
    #[test]
    fn what_cannot_be_read_is_told_by_its_metadata() {
        let broken = || {
            let broken = json!({ "metadata": { "name": "a", "uid": "u" }, "data": "no map" });
            serde_json::from_value::<DeserializeGuard<ConfigMap>>(broken).unwrap()
        };
        let meta = ObjectMeta {
            name: Some("a".to_owned()),
            uid: Some("u".to_owned()),
            ..ObjectMeta::default()
        };
        for event in [watcher::Event::InitApply, watcher::Event::Apply] {
            let told = told(event(broken()), &"maps");
            assert_eq!(told, Event::Unreadable(Box::new(meta.clone())));
        }
        let gone = told(watcher::Event::Delete(broken()), &"maps");
        assert_eq!(gone, Event::DeletedUnread(Box::new(meta)));
    }
}
