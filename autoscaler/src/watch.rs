//! The watches on both APIs.
//!
//! Invariant: what they tell goes into the world, that they break off into the reach, and nothing
//! else happens here.

use std::fmt::Debug;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::reach::Reach;
use crate::settings::Settings;
use crate::world::{Kind, Seen, World};

/// Keeps the world up to date. Ends never.
pub fn all(
    world: &Arc<World>,
    reach: &Arc<Reach>,
    tenant: &Client,
    management: &Client,
    settings: &Settings,
) -> BoxFuture<'static, ()> {
    let ns = &settings.user_namespace;
    let pools = Api::namespaced(management.clone(), ns);
    let machines = Api::namespaced(management.clone(), ns);
    let nodes = Api::all(tenant.clone());
    let watches = [
        keep(world, reach, pools, Kind::Pool, |pool| {
            Seen::Pool(Box::new(pool))
        }),
        keep(world, reach, machines, Kind::Machine, |machine| {
            Seen::Machine(Box::new(machine))
        }),
        keep(world, reach, nodes, Kind::Node, |node| {
            Seen::Node(Box::new(node))
        }),
    ];
    Box::pin(async move {
        join_all(watches).await;
    })
}

fn keep<K>(
    world: &Arc<World>,
    reach: &Arc<Reach>,
    api: Api<DeserializeGuard<K>>,
    kind: Kind,
    seen: fn(K) -> Seen,
) -> BoxFuture<'static, ()>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (world, reach, doubted) = (Arc::clone(world), Arc::clone(reach), Arc::clone(reach));
    let tell = move |event| {
        // It begins anew before it is known whether the API answers.
        if !matches!(event, Event::Init) {
            reach.heard(kind);
        }
        match event {
            Event::Init => world.begin(kind),
            Event::InitDone => world.end(kind),
            Event::Apply(object) | Event::InitApply(object) => world.apply(&seen(object)),
            Event::Delete(object) => world.delete(&seen(object)),
        }
    };
    let interrupted = move || {
        // A tenant's API that is away holds up nobody who asks.
        if Kind::NEEDED.contains(&kind) {
            doubted.interrupted(kind);
        }
    };
    kit::watch::keep_heeding(api, Config::default(), kind, tell, interrupted)
}
