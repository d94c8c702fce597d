//! The watches on the tenant namespace.
//!
//! Invariant: what cannot be decoded is logged and left out, so that one broken object stops nobody;
//! an API that is away is tried again and again, and nothing is concluded from its silence.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api::names::{LABEL_COMPONENT, LABEL_TENANT_UID};
use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use kit::backoff::Backoff;
use kube::core::{DeserializeGuard, DynamicObject};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::runtime::{WatchStreamExt, utils};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::names;
use crate::settings::Settings;
use crate::store;
use crate::world::{Kind, Seen, World};

/// Objects of one page of a list: whole pages are in memory at a time.
const PAGE: u32 = 50;
/// Seconds after which a watch is begun anew: one whose connection died without a word is noticed
/// that late at the latest.
const LASTS: u32 = 120;

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
        let kind = store::snapshot_kind();
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
    let config = config.page_size(PAGE).timeout(LASTS);
    Box::pin(async move {
        let mut events = watcher(api, config).backoff(Patience::default()).boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => world.begin(kind),
                Ok(Event::InitDone) => world.end(kind),
                Ok(Event::Apply(object) | Event::InitApply(object)) => {
                    if let Some(object) = decoded(object, kind) {
                        world.apply(&seen(object));
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
