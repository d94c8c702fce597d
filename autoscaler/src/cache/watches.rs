//! Watches on both APIs: NodePools and Machines of the user's namespace, nodes of the tenant cluster.
//!
//! Invariant: what they tell goes into the cache, that they break off into its staleness, and nothing
//! else happens here.

use std::fmt::Debug;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use kit::watch::Event;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::Cache;
use super::staleness::Staleness;
use super::state::{Kind, WatchEvent};
use crate::settings::Settings;

/// Keeps the cache up to date. Ends never.
pub fn run(
    cache: &Arc<Cache>,
    staleness: &Arc<Staleness>,
    tenant: &Client,
    management: &Client,
    settings: &Settings,
) -> BoxFuture<'static, ()> {
    let ns = &settings.user_namespace;
    let pools = Api::namespaced(management.clone(), ns);
    let machines = Api::namespaced(management.clone(), ns);
    let nodes = Api::all(tenant.clone());
    let watches = [
        watch(cache, staleness, pools, Kind::Pool, |pool| {
            WatchEvent::Pool(Box::new(pool))
        }),
        watch(cache, staleness, machines, Kind::Machine, |machine| {
            WatchEvent::Machine(Box::new(machine))
        }),
        watch(cache, staleness, nodes, Kind::Node, |node| {
            WatchEvent::Node(Box::new(node))
        }),
    ];
    Box::pin(async move {
        join_all(watches).await;
    })
}

fn watch<K>(
    cache: &Arc<Cache>,
    staleness: &Arc<Staleness>,
    api: Api<DeserializeGuard<K>>,
    kind: Kind,
    as_event: fn(K) -> WatchEvent,
) -> BoxFuture<'static, ()>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (cache, staleness, doubted) = (
        Arc::clone(cache),
        Arc::clone(staleness),
        Arc::clone(staleness),
    );
    let on_event = move |event| {
        // It begins anew before it is known whether the API answers.
        if !matches!(event, Event::Begin) {
            staleness.heard(kind);
        }
        match event {
            Event::Begin => cache.begin(kind),
            Event::End => cache.end(kind),
            Event::Applied(object) => cache.apply(&as_event(object)),
            Event::Unreadable(meta) => cache.unreadable(kind, meta.name.unwrap_or_default()),
            Event::Deleted(object) => cache.delete(&as_event(object)),
            Event::DeletedUnread(meta) => cache.forget(kind, &meta.name.unwrap_or_default()),
        }
    };
    let on_interrupted = move || {
        // A tenant's API that is away holds up nobody who asks.
        if Kind::NEEDED.contains(&kind) {
            doubted.interrupted(kind);
        }
    };
    kit::watch::keep_heeding(api, Config::default(), kind, on_event, on_interrupted)
}
