//! Reflector store: all objects of a kind, kept up to date for as long as the process runs.
//!
//! Invariant: what cannot be decoded is logged and left as it was in the store, so that one broken
//! object stops nobody; managed fields are not kept.

use std::fmt::Debug;

use futures::StreamExt;
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, store::Writer};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

/// Keeps a store up to date, and tells of each object that is there or changed (true) or went. Ends
/// never.
pub async fn run<K>(client: Client, writer: Writer<K>, mut on_change: impl FnMut(&K, bool) + Send)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let api = Api::<DeserializeGuard<K>>::all(client);
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let valid = events.filter_map(|event| std::future::ready(decoded(event)));
    reflector::reflector(writer, valid)
        .for_each(|event| {
            match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => on_change(&object, true),
                Ok(Event::Delete(object)) => on_change(&object, false),
                Ok(Event::Init | Event::InitDone) | Err(_) => {}
            }
            std::future::ready(())
        })
        .await;
}

/// What can be decoded; the rest is logged and left as it was in the store, so that one broken
/// object stops nobody.
fn decoded<K: Resource<DynamicType = ()>>(
    event: Result<Event<DeserializeGuard<K>>, watcher::Error>,
) -> Option<Result<Event<K>, watcher::Error>> {
    let kind = K::kind(&());
    let decode = |guard: DeserializeGuard<K>| match guard.0 {
        Ok(mut object) => {
            object.meta_mut().managed_fields = None;
            Some(object)
        }
        Err(error) => {
            tracing::error!(
                error = error.error,
                "cannot read {kind} {}/{}; correct it with kubectl edit",
                error.metadata.namespace.unwrap_or_default(),
                error.metadata.name.unwrap_or_default(),
            );
            None
        }
    };
    match event {
        Ok(Event::Apply(guard)) => decode(guard).map(|c| Ok(Event::Apply(c))),
        Ok(Event::InitApply(guard)) => decode(guard).map(|c| Ok(Event::InitApply(c))),
        Ok(Event::Delete(guard)) => decode(guard).map(|c| Ok(Event::Delete(c))),
        Ok(Event::Init) => Some(Ok(Event::Init)),
        Ok(Event::InitDone) => Some(Ok(Event::InitDone)),
        Err(error) => {
            tracing::warn!(error = crate::errors::chain(&error), "watch on {kind}s");
            Some(Err(error))
        }
    }
}
