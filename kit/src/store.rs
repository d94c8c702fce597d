//! Reflector store: all objects of a kind, kept up to date for as long as the process runs.
//!
//! Invariant: what cannot be decoded is logged and left as it was in the store, also when everything is
//! listed anew, so that one broken object stops nobody and nobody takes it for gone; managed fields are not
//! kept.

use std::fmt::Debug;

use futures::{Stream, StreamExt};
use kube::core::{DeserializeGuard, ObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
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
    keep(events, writer, &mut on_change).await;
}

async fn keep<K>(
    events: impl Stream<Item = Result<Event<DeserializeGuard<K>>, watcher::Error>> + Send,
    writer: Writer<K>,
    on_change: &mut (impl FnMut(&K, bool) + Send),
) where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    let known = writer.as_reader();
    let valid = events.filter_map(|event| std::future::ready(decoded(event, &known)));
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

/// What can be decoded; of the rest, which is logged, what was known before, where that is to stay or goes.
fn decoded<K>(
    event: Result<Event<DeserializeGuard<K>>, watcher::Error>,
    known: &Store<K>,
) -> Option<Result<Event<K>, watcher::Error>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let kind = K::kind(&());
    let decode = |guard: DeserializeGuard<K>| match guard.0 {
        Ok(mut object) => {
            object.meta_mut().managed_fields = None;
            Ok(object)
        }
        Err(error) => {
            tracing::error!(
                error = error.error,
                "cannot read {kind} {}/{}; correct it with kubectl edit",
                error.metadata.namespace.as_deref().unwrap_or_default(),
                error.metadata.name.as_deref().unwrap_or_default(),
            );
            Err(Box::new(error.metadata))
        }
    };
    let before = |meta: Box<ObjectMeta>| {
        let object = ObjectRef::<K>::new(meta.name.as_deref()?);
        let object = match &meta.namespace {
            Some(namespace) => object.within(namespace),
            None => object,
        };
        let before = known.get(&object)?;
        // Not another one of the same name.
        (before.meta().uid == meta.uid).then(|| (*before).clone())
    };
    match event {
        Ok(Event::Apply(guard)) => decode(guard).ok().map(|c| Ok(Event::Apply(c))),
        // A list says what there is: what it does not name is gone.
        Ok(Event::InitApply(guard)) => match decode(guard) {
            Ok(object) => Some(Ok(Event::InitApply(object))),
            Err(meta) => before(meta).map(|c| Ok(Event::InitApply(c))),
        },
        Ok(Event::Delete(guard)) => match decode(guard) {
            Ok(object) => Some(Ok(Event::Delete(object))),
            Err(meta) => before(meta).map(|c| Ok(Event::Delete(c))),
        },
        Ok(Event::Init) => Some(Ok(Event::Init)),
        Ok(Event::InitDone) => Some(Ok(Event::InitDone)),
        Err(error) => {
            tracing::warn!(error = crate::errors::chain(&error), "watch on {kind}s");
            Some(Err(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn guard(name: &str, uid: &str, readable: bool) -> DeserializeGuard<ConfigMap> {
        let data = match readable {
            true => json!({}),
            false => json!("no map"),
        };
        let meta = json!({ "name": name, "namespace": "users", "uid": uid });
        serde_json::from_value(json!({ "metadata": meta, "data": data })).unwrap()
    }

    /// Names that are in the store after these events.
    async fn names(events: Vec<Event<DeserializeGuard<ConfigMap>>>) -> Vec<String> {
        let (store, writer) = reflector::store();
        let events = stream::iter(events.into_iter().map(Ok));
        keep(events, writer, &mut |_: &ConfigMap, _| {}).await;
        let mut names: Vec<_> = store.state().iter().map(|c| c.name_any()).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn what_cannot_be_read_any_more_stays_as_it_was_also_when_all_is_listed_anew() {
        let listed = |readable| {
            [
                Event::Init,
                Event::InitApply(guard("a", "1", readable)),
                Event::InitApply(guard("b", "2", true)),
                Event::InitDone,
            ]
        };
        let mut events = Vec::from(listed(true));
        events.push(Event::Apply(guard("a", "1", false)));
        assert_eq!(names(events.clone()).await, ["a", "b"]);
        events.extend(listed(false));
        assert_eq!(names(events.clone()).await, ["a", "b"]);
        events.push(Event::Delete(guard("a", "1", false)));
        assert_eq!(names(events).await, ["b"]);
    }

    #[tokio::test]
    async fn one_of_the_same_name_that_cannot_be_read_is_not_the_one_before() {
        let events = vec![
            Event::Init,
            Event::InitApply(guard("a", "1", true)),
            Event::InitDone,
            Event::Init,
            Event::InitApply(guard("a", "another", false)),
            Event::InitDone,
        ];
        assert!(names(events).await.is_empty());
    }
}
