//! The watches on both APIs.
//!
//! Invariant: what cannot be decoded is logged and left out, so that one broken object stops nobody;
//! an API that is away is tried again and again, and nothing is concluded from its silence.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kit::backoff::Backoff;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::runtime::{WatchStreamExt, utils};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::settings::Settings;
use crate::world::{Kind, Seen, World};

/// Objects of one page of a list: whole pages are in memory at a time.
const PAGE: u32 = 50;
/// Seconds after which a watch is begun anew: one whose connection died without a word is noticed
/// that late at the latest.
const LASTS: u32 = 120;

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
    let config = config.page_size(PAGE).timeout(LASTS);
    Box::pin(async move {
        let mut events = watcher(api, config).backoff(Patience::default()).boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => world.begin(kind),
                Ok(Event::InitDone) => world.end(kind),
                Ok(Event::Apply(object) | Event::InitApply(object)) => {
                    if let Some(object) = decoded(object, kind) {
                        world.apply(seen(object));
                    }
                }
                Ok(Event::Delete(object)) => {
                    if let Some(object) = decoded(object, kind) {
                        world.delete(&seen(object));
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        watch = ?kind, error = kit::errors::chain(&error), "watch is interrupted"
                    );
                }
            }
        }
    })
}

fn decoded<K>(guard: DeserializeGuard<K>, kind: Kind) -> Option<K> {
    match guard.0 {
        Ok(object) => Some(object),
        Err(error) => {
            tracing::error!(
                watch = ?kind, error = error.error,
                "cannot read {}/{}; correct it with kubectl edit",
                error.metadata.namespace.unwrap_or_default(),
                error.metadata.name.unwrap_or_default(),
            );
            None
        }
    }
}

/// Tries again soon: what comes back should be seen within seconds, and it is one process per
/// tenant cluster.
#[derive(Debug, Default)]
struct Patience {
    attempt: u32,
}

const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = BACKOFF.next(self.attempt, rand::random());
        self.attempt = self.attempt.saturating_add(1);
        // Never at once: an API that refuses quickly must not be asked in a loop.
        Some(wait.max(Duration::from_millis(100)))
    }
}

impl utils::Backoff for Patience {
    fn reset(&mut self) {
        self.attempt = 0;
    }
}
