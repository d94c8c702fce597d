//! Watches on both APIs.
//!
//! Invariant: what they tell goes into the cache, and what changes by it to `on_change`; nothing else
//! happens here.

use std::fmt::Debug;
use std::sync::Arc;

use api::machine_addresses;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kit::watch::Event;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::cache::Cache;
use crate::cache::events::{Change, Kind, WatchEvent};
use crate::settings::{MachineAddresses, Settings};

/// Who is told of changes.
type OnChange = Arc<dyn Fn(&[Change]) + Send + Sync>;

/// Keeps the cache up to date. Ends never.
pub fn all(
    cache: &Arc<Cache>,
    tenant: &Client,
    management: &Client,
    settings: &Settings,
    on_change: impl Fn(&[Change]) + Send + Sync + 'static,
) -> BoxFuture<'static, ()> {
    let ns = &settings.namespace;
    let sink = Sink {
        cache: Arc::clone(cache),
        on_change: Arc::new(on_change),
    };
    let slices = Config::default().labels(crate::names::LABEL_SLICE_OF);
    let any = Config::default();
    let mut watches = vec![
        sink.watch(Api::all(tenant.clone()), any.clone(), Kind::Node, |node| {
            WatchEvent::Node(Box::new(node))
        }),
        sink.watch(
            Api::namespaced(management.clone(), ns),
            any.clone(),
            Kind::Vm,
            |vm| WatchEvent::Vm(Box::new(vm)),
        ),
        sink.watch(
            Api::namespaced(management.clone(), ns),
            any.clone(),
            Kind::Instance,
            WatchEvent::Instance,
        ),
    ];
    if settings.machine_addresses == MachineAddresses::Published {
        let name = format!("metadata.name={}", machine_addresses::NAME);
        watches.push(sink.watch(
            Api::namespaced(management.clone(), ns),
            any.clone().fields(&name),
            Kind::Addresses,
            WatchEvent::Addresses,
        ));
    } else {
        sink.skip(Kind::Addresses);
    }
    if settings.services {
        let of_tenant: Api<DeserializeGuard<EndpointSlice>> = Api::all(tenant.clone());
        let of_mirrors: Api<DeserializeGuard<EndpointSlice>> =
            Api::namespaced(management.clone(), ns);
        watches.extend([
            sink.watch(
                Api::all(tenant.clone()),
                any.clone(),
                Kind::Service,
                WatchEvent::Service,
            ),
            sink.watch(of_tenant, slices.clone(), Kind::Local, WatchEvent::Local),
            sink.watch(
                Api::namespaced(management.clone(), ns),
                any,
                Kind::Mirror,
                WatchEvent::Mirror,
            ),
            sink.watch(of_mirrors, slices, Kind::Slice, WatchEvent::Slice),
        ]);
    } else {
        for kind in [Kind::Service, Kind::Local, Kind::Mirror, Kind::Slice] {
            sink.skip(kind);
        }
    }
    Box::pin(async move {
        join_all(watches).await;
    })
}

/// Where events go.
struct Sink {
    cache: Arc<Cache>,
    on_change: OnChange,
}

impl Sink {
    /// Of a kind that is not watched nothing is there.
    fn skip(&self, kind: Kind) {
        self.cache.begin(kind);
        (self.on_change)(&self.cache.end(kind));
    }

    fn watch<K>(
        &self,
        api: Api<DeserializeGuard<K>>,
        config: Config,
        kind: Kind,
        event_of: fn(K) -> WatchEvent,
    ) -> BoxFuture<'static, ()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let (cache, on_change) = (Arc::clone(&self.cache), Arc::clone(&self.on_change));
        kit::watch::keep(api, config, kind, move |event| {
            let changes = match event {
                Event::Begin => {
                    cache.begin(kind);
                    return;
                }
                Event::End => cache.end(kind),
                Event::Applied(object) => cache.put(event_of(object)),
                Event::Unreadable(meta) => {
                    cache.unreadable(kind, &meta);
                    return;
                }
                Event::Deleted(object) => cache.remove(kind, event_of(object).meta()),
                Event::DeletedUnread(meta) => cache.remove(kind, &meta),
            };
            on_change(&changes);
        })
    }
}
