//! Keeps a store of one kind of object in step with the API server.
//!
//! Invariant: every change that reached a store is followed by a wake-up; a lost connection is
//! taken up again within seconds and leaves the store as it was.

use std::{fmt::Debug, hash::Hash, sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        utils::Backoff,
        watcher::{self, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

/// The lab's API server is on this machine and starts in seconds: no need to wait ever longer.
struct Steady;

impl Iterator for Steady {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(500))
    }
}

impl Backoff for Steady {
    fn reset(&mut self) {}
}

/// Watches the objects of `api` for as long as the process lives. `trim` takes out what the agent
/// never reads, to keep the store small.
pub(super) fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    changed: Arc<Notify>,
    trim: fn(&mut K),
) -> Store<K>
where
    K: Resource<DynamicType: Clone + Default + Eq + Hash + Debug + Unpin + Send + Sync>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let (store, writer) = reflector::store();
    tokio::spawn(async move {
        let events = watcher(api, config).modify(move |object| {
            object.meta_mut().managed_fields = None;
            trim(object);
        });
        let mut events = reflector::reflector(writer, events).backoff(Steady).boxed();
        loop {
            match events.try_next().await {
                // The events of a first list reach the store with its last one.
                Ok(Some(watcher::Event::Init | watcher::Event::InitApply(_))) => {}
                Ok(Some(_)) => changed.notify_one(),
                Ok(None) => return,
                Err(error) => {
                    let kind = std::any::type_name::<K>()
                        .rsplit("::")
                        .next()
                        .unwrap_or_default();
                    tracing::warn!(kind, %error, "watch interrupted, trying again");
                }
            }
        }
    });
    store
}
