//! Table of the watches on the tenant namespace.
//!
//! Invariant: what they tell goes into the cache, and nothing else happens here.

use std::fmt::Debug;
use std::sync::Arc;

use api::names::{LABEL_COMPONENT, LABEL_TENANT_UID};
use futures::future::{BoxFuture, join_all};
use kit::watch::Event;
use kube::core::{DeserializeGuard, DynamicObject, ObjectMeta};
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::objects::Snapshot;
use super::{Cache, Kind, Object, WatchEvent};
use crate::names;
use crate::settings::Settings;

/// Keeps the cache up to date. Ends never.
pub fn run(cache: &Arc<Cache>, client: &Client, settings: &Settings) -> BoxFuture<'static, ()> {
    let ns = &settings.namespace;
    let of = |component: &str| {
        let ours = format!("{LABEL_TENANT_UID}={}", settings.cluster_uid);
        Config::default().labels(&format!("{ours},{LABEL_COMPONENT}={component}"))
    };
    let any = Config::default();
    let claims = Api::namespaced(client.clone(), ns);
    let vms = Api::namespaced(client.clone(), ns);
    let vmis = Api::namespaced(client.clone(), ns);
    let mut watches = vec![
        watch(cache, claims, of(names::COMPONENT), Kind::Volume, |c| {
            Object::Claim(Box::new(c))
        }),
        watch(cache, vms, any.clone(), Kind::Machine, |m| {
            Object::Vm(Box::new(m))
        }),
        watch(cache, vmis, any, Kind::Instance, |i| {
            Object::Vmi(Box::new(i))
        }),
    ];
    if settings.offer.has_snapshots() {
        let kind = Snapshot::resource();
        let snapshots: Api<DeserializeGuard<DynamicObject>> =
            Api::namespaced_with(client.clone(), ns, &kind);
        let ours = of(names::SNAPSHOT_COMPONENT);
        watches.push(watch(cache, snapshots, ours, Kind::Snapshot, |s| {
            Object::Snapshot(Box::new(s))
        }));
    } else {
        // A management cluster without snapshots need not know the kind.
        cache.observe(&WatchEvent::Init(Kind::Snapshot));
        cache.observe(&WatchEvent::InitDone(Kind::Snapshot));
    }
    Box::pin(async move {
        join_all(watches).await;
    })
}

fn watch<K>(
    cache: &Arc<Cache>,
    api: Api<DeserializeGuard<K>>,
    config: Config,
    kind: Kind,
    object: fn(K) -> Object,
) -> BoxFuture<'static, ()>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let cache = Arc::clone(cache);
    kit::watch::keep(api, config, kind, move |event| {
        cache.observe(&match event {
            Event::Begin => WatchEvent::Init(kind),
            Event::End => WatchEvent::InitDone(kind),
            Event::Applied(found) => WatchEvent::Applied(object(found)),
            Event::Unreadable(meta) => WatchEvent::Unreadable(kind, name(*meta)),
            Event::Deleted(found) => WatchEvent::Deleted(object(found)),
            Event::DeletedUnread(meta) => WatchEvent::DeletedUnread(kind, name(*meta)),
        });
    })
}

fn name(meta: ObjectMeta) -> String {
    meta.name.unwrap_or_default()
}
