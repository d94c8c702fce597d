//! What the watches of a fake told, and how often.
//!
//! Invariant: an object is never replaced by an older state of itself, so what a fake just wrote is
//! not written again for an event that was under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, Result, watcher};
use kube::{Api, Client, ResourceExt};

/// Index of the kind, namespace, name.
pub(super) type Key = (usize, String, String);

/// How many events there were about each object, by `Kind/namespace/name`; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Told(Arc<Mutex<BTreeMap<String, usize>>>);

impl Told {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> BTreeMap<String, usize> {
        self.counts().clone()
    }
}

/// The objects of some kinds.
pub(super) struct Cache<K> {
    kinds: Vec<String>,
    objects: BTreeMap<Key, K>,
    listed: BTreeMap<usize, BTreeMap<Key, K>>,
    complete: BTreeSet<usize>,
    told: Told,
}

impl<K: ResourceExt + Clone> Cache<K> {
    /// Events name a kind by its index here.
    pub(super) fn new(kinds: impl IntoIterator<Item = String>, told: &Told) -> Self {
        Self {
            kinds: kinds.into_iter().collect(),
            objects: BTreeMap::new(),
            listed: BTreeMap::new(),
            complete: BTreeSet::new(),
            told: told.clone(),
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&K> {
        self.objects.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &K)> {
        self.objects.iter()
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.objects.keys().cloned().collect()
    }

    /// Whether each kind was listed once: before that, what is missing may only not have been told.
    pub(super) fn is_complete(&self) -> bool {
        (0..self.kinds.len()).all(|kind| self.complete.contains(&kind))
    }

    /// Keeps what an event tells, and says which objects are to be looked at; those that are gone
    /// too.
    pub(super) fn take(&mut self, kind: usize, event: Event<K>) -> Vec<Key> {
        match event {
            Event::Init => drop(self.listed.insert(kind, BTreeMap::new())),
            Event::InitApply(object) => {
                let key = self.count(kind, &object);
                self.listed.entry(kind).or_default().insert(key, object);
            }
            Event::InitDone => {
                self.complete.insert(kind);
                let of_kind = |key: &Key| key.0 == kind;
                let mut keys: BTreeSet<Key> = self.objects.keys().cloned().collect();
                keys.retain(of_kind);
                self.objects.retain(|key, _| !of_kind(key));
                let listed = self.listed.remove(&kind).unwrap_or_default();
                keys.extend(listed.keys().cloned());
                self.objects.extend(listed);
                return keys.into_iter().collect();
            }
            Event::Apply(object) => {
                let key = self.count(kind, &object);
                self.put(kind, object);
                return vec![key];
            }
            Event::Delete(object) => {
                let key = self.count(kind, &object);
                self.objects.remove(&key);
                return vec![key];
            }
        }
        Vec::new()
    }

    /// Keeps what a write answered.
    pub(super) fn put(&mut self, kind: usize, object: K) {
        let key = key(kind, &object);
        if self
            .objects
            .get(&key)
            .is_none_or(|known| !is_older(&object, known))
        {
            self.objects.insert(key, object);
        }
    }

    fn count(&self, kind: usize, object: &K) -> Key {
        let key = key(kind, object);
        let name = self.kinds.get(kind).map_or("", String::as_str);
        let text = format!("{name}/{}/{}", key.1, key.2);
        *self.told.counts().entry(text).or_default() += 1;
        key
    }
}

fn key<K: ResourceExt>(kind: usize, object: &K) -> Key {
    (
        kind,
        object.namespace().unwrap_or_default(),
        object.name_any(),
    )
}

/// Versions of one resource are ordered (KEP-5504).
fn is_older<K: ResourceExt>(object: &K, known: &K) -> bool {
    let version = |object: &K| -> Option<u64> { object.resource_version()?.parse().ok() };
    object.uid() == known.uid() && version(object) < version(known)
}

/// A kind by group, version, name and plural.
pub(super) fn kind(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// Watches a kind, in one namespace or all; comes back by itself after an error.
pub(super) fn events(
    client: &Client,
    (index, kind): (usize, &ApiResource),
    namespace: Option<&str>,
    config: Config,
) -> BoxStream<'static, Result<(usize, Event<DynamicObject>)>> {
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, kind),
        None => Api::all_with(client.clone(), kind),
    };
    let events = watcher(api, config).default_backoff();
    events.map_ok(move |event| (index, event)).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    fn map(name: &str, version: u64) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                uid: Some("1".to_owned()),
                resource_version: Some(version.to_string()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    fn version(cache: &Cache<ConfigMap>, name: &str) -> Option<String> {
        let key = (0, String::new(), name.to_owned());
        cache.get(&key).and_then(ResourceExt::resource_version)
    }

    #[test]
    fn an_older_state_never_comes_back_and_one_that_is_gone_goes() {
        let mut cache = Cache::new(["ConfigMap".to_owned()], &Told::default());
        assert!(!cache.is_complete());
        cache.take(0, Event::Init);
        cache.take(0, Event::InitApply(map("a", 1)));
        assert_eq!(cache.take(0, Event::InitDone).len(), 1);
        assert!(cache.is_complete());
        cache.put(0, map("a", 10));
        assert_eq!(cache.take(0, Event::Apply(map("a", 9))).len(), 1);
        assert_eq!(version(&cache, "a").as_deref(), Some("10"));
        cache.take(0, Event::Delete(map("a", 11)));
        assert_eq!(version(&cache, "a"), None);
    }

    #[test]
    fn a_new_list_names_what_vanished_meanwhile_too() {
        let told = Told::default();
        let mut cache = Cache::new(["ConfigMap".to_owned()], &told);
        cache.take(0, Event::Apply(map("a", 1)));
        cache.take(0, Event::Init);
        cache.take(0, Event::InitApply(map("b", 2)));
        let names: Vec<String> = cache
            .take(0, Event::InitDone)
            .into_iter()
            .map(|key| key.2)
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(version(&cache, "a"), None);
        assert_eq!(told.now()["ConfigMap//a"], 1);
    }
}
