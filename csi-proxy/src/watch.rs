//! The watches on the tenant namespace.
//!
//! Invariant: what they tell goes into the world, and nothing else happens here.

use std::fmt::Debug;
use std::sync::Arc;

use api::names::{LABEL_COMPONENT, LABEL_TENANT_UID};
use futures::future::{BoxFuture, join_all};
use kube::core::{DeserializeGuard, DynamicObject};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::model::Snapshot;
use crate::names;
use crate::settings::Settings;
use crate::world::{Kind, Seen, World};

/// Keeps the world up to date. Ends never.
pub fn all(world: &Arc<World>, client: &Client, settings: &Settings) -> BoxFuture<'static, ()> {
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
        keep(world, claims, of(names::COMPONENT), Kind::Volume, |c| {
            Seen::Claim(Box::new(c))
        }),
        keep(world, vms, any.clone(), Kind::Machine, |m| {
            Seen::Vm(Box::new(m))
        }),
        keep(world, vmis, any, Kind::Instance, |i| Seen::Vmi(Box::new(i))),
    ];
    if settings.offer.has_snapshots() {
        let kind = Snapshot::resource();
        let snapshots: Api<DeserializeGuard<DynamicObject>> =
            Api::namespaced_with(client.clone(), ns, &kind);
        let ours = of(names::SNAPSHOT_COMPONENT);
        watches.push(keep(world, snapshots, ours, Kind::Snapshot, |s| {
            Seen::Snapshot(Box::new(s))
        }));
    } else {
        // A management cluster without snapshots need not know the kind.
        world.begin(Kind::Snapshot);
        world.end(Kind::Snapshot);
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
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let world = Arc::clone(world);
    kit::watch::keep(api, config, kind, move |event| match event {
        Event::Init => world.begin(kind),
        Event::InitDone => world.end(kind),
        Event::Apply(object) | Event::InitApply(object) => world.apply(&seen(object)),
        Event::Delete(object) => world.delete(&seen(object)),
    })
}
