//! Wakes node pools over several locations: when a node falls silent or is heard again, and when the API of a provider stops
//! or begins to answer. Has ProviderConfigs checked by which a call was not let in.
//!
//! Invariant: nothing is decided here, nor anybody asked; a pool is woken where something that its plan reads turned, and by
//! nothing else.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use api::{NodePool, ProviderConfig, TenantCluster};
use kit::shutdown::Shutdown;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use placement::recovery::Failover;

use crate::clouds::Clouds;
use crate::context::Context;
use crate::exclusions;
use crate::node_silence::Heard;

/// How often it is looked: of a minute that replacements may take to be asked for it is a second.
const LOOK: Duration = Duration::from_secs(1);

/// How often a ProviderConfig is checked because of a call that was not let in: where the check is let in all the same, it
/// is a right that is missing, and each look at a machine says so again.
const AGAIN: Duration = Duration::from_mins(5);

/// What of a pool was seen last.
#[derive(Eq, PartialEq)]
struct Seen {
    nodes: (bool, Vec<(String, bool)>),
    answers: BTreeMap<String, bool>,
}

/// When nodes of a pool's tenant cluster were heard; nothing where no location of the pool may be lost.
#[must_use]
pub fn heard(ctx: &Context, pool: &NodePool, cluster: Option<&TenantCluster>) -> Heard {
    let uid = cluster.and_then(|cluster| cluster.metadata.uid.as_deref());
    match uid.filter(|_| pool.spec.has_failover()) {
        Some(uid) => ctx.tenants.silence().heard(uid, after(pool)),
        None => Heard::default(),
    }
}

/// Whether the API of each location's cloud answers; nothing where no location of the pool may be lost.
#[must_use]
pub fn answers(clouds: &Clouds, pool: &NodePool) -> BTreeMap<String, bool> {
    if !pool.spec.has_failover() {
        return BTreeMap::new();
    }
    let namespace = pool.namespace().unwrap_or_default();
    let places = pool.spec.places().into_iter();
    let known = places.filter_map(|place| {
        let cloud = place.provider.cloud()?;
        let answers = clouds.answers(cloud.kind, &namespace, cloud.config_name)?;
        Some((place.shown().to_owned(), answers))
    });
    known.collect()
}

/// Wakes pools until the shutdown starts.
pub async fn run(ctx: &Context, shutdown: &Shutdown) {
    let (mut seen, mut checked) = (HashMap::new(), HashMap::new());
    let end = shutdown.triggered();
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => return,
            () = tokio::time::sleep(LOOK) => {
                look(ctx, &mut seen);
                check_refused(ctx, &mut checked);
            }
        }
    }
}

fn look(ctx: &Context, seen: &mut HashMap<ObjectRef<NodePool>, Seen>) {
    let mut there = HashMap::new();
    for pool in ctx.stores.pools.state() {
        if !pool.spec.has_failover() {
            continue;
        }
        let (key, namespace) = (ObjectRef::from_obj(&*pool), pool.namespace());
        let namespace = namespace.unwrap_or_default();
        let cluster = ObjectRef::new(&pool.spec.cluster_name).within(&namespace);
        let cluster = ctx.stores.clusters.get(&cluster);
        let now = Seen {
            nodes: heard(ctx, &pool, cluster.as_deref()).outline(after(&pool)),
            answers: answers(&ctx.clouds, &pool),
        };
        if let Some(before) = seen.get(&key) {
            if *before != now {
                // Sending fails only once the controllers have ended.
                let _ = ctx.triggers.pools.send(key.clone());
            }
            if before.answers != now.answers {
                tell_configs(ctx, &pool, before, &now);
            }
        }
        there.insert(key, now);
    }
    *seen = there;
}

/// Has ProviderConfigs say it that let nobody in any more, before they would be checked by themselves.
fn check_refused(ctx: &Context, checked: &mut HashMap<ObjectRef<ProviderConfig>, Instant>) {
    checked.retain(|_, at| at.elapsed() < AGAIN);
    for config in ctx.stores.configs.state() {
        let key = ObjectRef::from_obj(&*config);
        let is_told = exclusions::lets_in(&config) == Some(false);
        if !is_told && !checked.contains_key(&key) && ctx.clouds.is_refused(&config) {
            let _ = ctx.triggers.configs.send(key.clone());
            checked.insert(key, Instant::now());
        }
    }
}

/// Has ProviderConfigs say it whose API stopped or began to answer.
fn tell_configs(ctx: &Context, pool: &NodePool, before: &Seen, now: &Seen) {
    let namespace = pool.namespace().unwrap_or_default();
    for place in pool.spec.places() {
        let name = place.shown();
        let turned = before.answers.get(name) != now.answers.get(name);
        if let Some(config) = place.provider.config_name().filter(|_| turned) {
            let config = ObjectRef::<ProviderConfig>::new(config).within(&namespace);
            let _ = ctx.triggers.configs.send(config);
        }
    }
}

fn after(pool: &NodePool) -> Duration {
    let after = pool.spec.placement.failover.after.get();
    after.unwrap_or(Failover::default().after)
}
