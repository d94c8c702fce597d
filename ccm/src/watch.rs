//! The watches on both APIs.
//!
//! Invariant: what they tell goes into the world, and nothing else happens here.

use std::fmt::Debug;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::settings::Settings;
use crate::world::{Kind, Seen, World};

/// Keeps the world up to date. Ends never.
pub fn all(
    world: &Arc<World>,
    tenant: &Client,
    management: &Client,
    settings: &Settings,
) -> BoxFuture<'static, ()> {
    let ns = &settings.namespace;
    let slices = Config::default().labels(crate::names::LABEL_SLICE_OF);
    let any = Config::default();
    let mut watches = vec![
        keep(
            world,
            Api::all(tenant.clone()),
            any.clone(),
            Kind::Node,
            |node| Seen::Node(Box::new(node)),
        ),
        keep(
            world,
            Api::namespaced(management.clone(), ns),
            any.clone(),
            Kind::Vm,
            Seen::Vm,
        ),
        keep(
            world,
            Api::namespaced(management.clone(), ns),
            any.clone(),
            Kind::Instance,
            Seen::Instance,
        ),
    ];
    if settings.services {
        let of_tenant: Api<DeserializeGuard<EndpointSlice>> = Api::all(tenant.clone());
        let of_mirrors: Api<DeserializeGuard<EndpointSlice>> =
            Api::namespaced(management.clone(), ns);
        watches.extend([
            keep(
                world,
                Api::all(tenant.clone()),
                any.clone(),
                Kind::Service,
                Seen::Service,
            ),
            keep(world, of_tenant, slices.clone(), Kind::Local, Seen::Local),
            keep(
                world,
                Api::namespaced(management.clone(), ns),
                any,
                Kind::Mirror,
                Seen::Mirror,
            ),
            keep(world, of_mirrors, slices, Kind::Slice, Seen::Slice),
        ]);
    } else {
        for kind in [Kind::Service, Kind::Local, Kind::Mirror, Kind::Slice] {
            world.begin(kind);
            world.end(kind);
        }
    }
    Box::pin(async move {
        join_all(watches).await;
    })
}

fn keep<K>(
    world: &Arc<World>,
    api: Api<DeserializeGuard<K>>,
    config: Config,
    kind: Kind,
    seen: fn(K) -> Seen,
) -> BoxFuture<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let world = Arc::clone(world);
    kit::watch::keep(api, config, kind, move |event| match event {
        Event::Init => world.begin(kind),
        Event::InitDone => world.end(kind),
        Event::Apply(object) | Event::InitApply(object) => world.apply(seen(object)),
        Event::Delete(object) => world.delete(&seen(object)),
    })
}
