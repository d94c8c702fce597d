//! Reflector store: all objects of a kind, kept up to date for as long as the process runs.
//!
//! Invariant: what cannot be decoded is logged and left as it was in the store, also when everything is
//! listed anew, so that one broken object stops nobody and nobody takes it for gone; managed fields are not
//! kept. Whoever is told of an object finds it in the store, and of each that vanished while nobody
//! watched somebody is told.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use kube::api::PartialObjectMeta;
use kube::core::{DeserializeGuard, ObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// Asks a store for a list that is made from now on: what it holds by its watch may be old, however long
/// that watch has been silent. Clones ask for the same store.
#[derive(Clone, Debug)]
pub struct Relist {
    asked: Arc<watch::Sender<u64>>,
    listed: Arc<watch::Sender<u64>>,
}

impl Default for Relist {
    fn default() -> Self {
        Self {
            asked: Arc::new(watch::Sender::new(0)),
            listed: Arc::new(watch::Sender::new(0)),
        }
    }
}

impl Relist {
    /// Waits until the store holds what a consistent list said that was begun after this call, and goes
    /// on from there. Waits for ever while nothing fills the store, or the API does not answer.
    pub async fn now(&self) {
        let mut listed = self.listed.subscribe();
        let mut wanted = 0;
        self.asked.send_modify(|latest| {
            *latest += 1;
            wanted = *latest;
        });
        // The sender is ours, so waiting cannot fail.
        let _ = listed.wait_for(|number| *number >= wanted).await;
    }

    /// One watch after another, each with the number of the question that it answers: it begins with a
    /// list, and ends when another is asked for.
    fn watches<S: Stream>(
        &self,
        mut begin: impl FnMut() -> S,
    ) -> impl Stream<Item = (u64, S::Item)> {
        let asked = Arc::clone(&self.asked);
        let one = move || {
            let mut asked = asked.subscribe();
            let number = *asked.borrow_and_update();
            let another = async move {
                // Fails only with the sender, which is held above.
                let _ = asked.wait_for(|latest| *latest > number).await;
            };
            let events = begin().map(move |event| (number, event));
            events.take_until(another)
        };
        stream::repeat_with(one).flatten()
    }
}

/// Keeps a store up to date, and tells of each object that is there or changed (true) or went. Ends
/// never.
pub async fn run<K>(
    client: Client,
    writer: Writer<K>,
    relist: Relist,
    mut on_change: impl FnMut(&K, bool) + Send,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let api = Api::<DeserializeGuard<K>>::all(client);
    let begin = || watcher(api.clone(), watcher::Config::default()).default_backoff();
    let known = writer.as_reader();
    let events = relist.watches(begin);
    let events = events.filter_map(|(number, event)| {
        let event = decoded(event, &known).map(|event| (number, event));
        std::future::ready(event)
    });
    keep(events, writer, &relist, &mut on_change).await;
}

/// The same of the metadata of what `selected` selects. Ends never.
pub async fn run_metadata<K>(
    client: Client,
    selected: watcher::Config,
    writer: Writer<PartialObjectMeta<K>>,
    mut on_change: impl FnMut(&PartialObjectMeta<K>, bool) + Send,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let api = Api::<PartialObjectMeta<K>>::all(client);
    let events = watcher(api, selected).default_backoff();
    let events = events.filter_map(|event| {
        let kept = logged::<K, _>(event).map(|event| (0, without_managed_fields(event)));
        std::future::ready(kept)
    });
    keep(events, writer, &Relist::default(), &mut on_change).await;
}

async fn keep<K>(
    events: impl Stream<Item = (u64, Event<K>)> + Send,
    mut writer: Writer<K>,
    relist: &Relist,
    on_change: &mut (impl FnMut(&K, bool) + Send),
) where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    let known = writer.as_reader();
    let mut before = Vec::new();
    let mut events = pin!(events);
    while let Some((number, event)) = events.next().await {
        if matches!(event, Event::Init) {
            before = known.state();
        }
        writer.apply_watcher_event(&event);
        match event {
            Event::Apply(object) => on_change(&object, true),
            Event::Delete(object) => on_change(&object, false),
            // What a list names is in the store once the list is over.
            Event::Init | Event::InitApply(_) => {}
            Event::InitDone => {
                for gone in std::mem::take(&mut before) {
                    if !is_there(&known, &gone) {
                        on_change(&gone, false);
                    }
                }
                for object in known.state() {
                    on_change(&object, true);
                }
                relist.listed.send_replace(number);
            }
        }
    }
}

/// By its UID: one that was made anew meanwhile is another.
fn is_there<K>(known: &Store<K>, object: &K) -> bool
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let found = known.get(&ObjectRef::from_obj(object));
    found.is_some_and(|found| found.meta().uid == object.meta().uid)
}

fn without_managed_fields<K: Resource>(event: Event<K>) -> Event<K> {
    event.modify(|object| object.meta_mut().managed_fields = None)
}

/// The event, or none after saying why the watch is interrupted.
fn logged<K, T>(event: Result<Event<T>, watcher::Error>) -> Option<Event<T>>
where
    K: Resource<DynamicType = ()>,
{
    let log = |error: &watcher::Error| {
        let kind = K::kind(&());
        tracing::warn!(error = kit_client::errors::chain(error), "watch on {kind}s");
    };
    event.inspect_err(log).ok()
}

/// What can be decoded; of the rest, which is logged, what was known before, where that is to stay or goes.
fn decoded<K>(
    event: Result<Event<DeserializeGuard<K>>, watcher::Error>,
    known: &Store<K>,
) -> Option<Event<K>>
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
    match logged::<K, _>(event)? {
        Event::Apply(guard) => decode(guard).ok().map(Event::Apply),
        // A list says what there is: what it does not name is gone.
        Event::InitApply(guard) => match decode(guard) {
            Ok(object) => Some(Event::InitApply(object)),
            Err(meta) => before(meta).map(Event::InitApply),
        },
        Event::Delete(guard) => match decode(guard) {
            Ok(object) => Some(Event::Delete(object)),
            Err(meta) => before(meta).map(Event::Delete),
        },
        Event::Init => Some(Event::Init),
        Event::InitDone => Some(Event::InitDone),
    }
}

#[cfg(test)]
mod tests;
