//! Wakes node pools over several locations: when a node falls silent or is heard again, and when the API of a provider, or
//! SSH, stops or begins to answer. Has ProviderConfigs checked by which a call was not let in.
//!
//! Invariant: nothing is decided here, and nobody asked but machines reached by SSH whose nodes are silent
//! ([`placement::sites`]), and the published endpoint where all that come by it are ([`placement::endpoint`]); a pool is
//! woken where something that its plan reads turned, and by nothing else.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::node_pool::locations::LocationRef;
use api::{Host, Machine, NodePool, ProviderConfig, TenantCluster};
use kit::shutdown::Shutdown;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use placement::endpoint::is_probe_due;
use placement::recovery::Failover;
use placement::sites;

use crate::context::Context;
use crate::endpoint_probes::{Target, Word};
use crate::exclusions;
use crate::node_silence::Heard;

/// How often it is looked: of a minute that replacements may take to be asked for it is a second.
const LOOK: Duration = Duration::from_secs(1);
/// How the status calls a location that is out (`placement::place::State`).
const OUT: &str = "Out";

/// How often a ProviderConfig is checked because of a call that was not let in: where the check is let in all the same, it
/// is a right that is missing, and each look at a machine says so again.
const AGAIN: Duration = Duration::from_mins(5);

/// What of a pool was seen last.
#[derive(Eq, PartialEq)]
struct Seen {
    nodes: (bool, Vec<(String, bool)>),
    answers: BTreeMap<String, bool>,
    endpoint: Word,
}

/// When nodes of a pool's tenant cluster were heard; nothing where no location of the pool may be lost.
#[must_use]
pub fn heard(ctx: &Context, pool: &NodePool, cluster: Option<&TenantCluster>) -> Heard {
    let uid = cluster.map(TenantCluster::identity_uid);
    match uid.filter(|_| pool.spec.has_failover()) {
        Some(uid) => ctx.tenants.silence().heard(uid, after(pool)),
        None => Heard::default(),
    }
}

/// Whether the API of each location's cloud answers, or SSH where machines are reached by it; nothing where no location of
/// the pool may be lost.
#[must_use]
pub fn answers(ctx: &Context, pool: &NodePool, heard: &Heard) -> BTreeMap<String, bool> {
    if !pool.spec.has_failover() {
        return BTreeMap::new();
    }
    let namespace = pool.namespace().unwrap_or_default();
    let places = pool.spec.places().into_iter();
    let known = places.filter_map(|place| {
        let answers = match (place.provider.cloud(), &place.provider.static_) {
            (Some(cloud), _) => ctx
                .clouds
                .answers(cloud.kind, &namespace, cloud.config_name)?,
            (None, Some(_)) => {
                let hosts = hosts_at(ctx, pool, &place, heard);
                let hosts: Vec<_> = hosts.into_iter().map(|(_, seen)| seen).collect();
                sites::answers(&hosts, ctx.hosts.now())?
            }
            (None, None) => return None,
        };
        Some((place.shown().to_owned(), answers))
    });
    known.collect()
}

/// What came of the last try at the published endpoint; nothing where no location of the pool may be lost.
#[must_use]
pub fn endpoint(ctx: &Context, pool: &NodePool, cluster: Option<&TenantCluster>) -> Word {
    let uid = cluster.map(TenantCluster::identity_uid);
    let uid = uid.filter(|_| pool.spec.has_failover());
    uid.map(|uid| ctx.endpoint_probes.word(uid))
        .unwrap_or_default()
}

/// Hosts of a pool's nodes in one of its locations, each with what is known of it.
fn hosts_at(
    ctx: &Context,
    pool: &NodePool,
    place: &LocationRef<'_>,
    heard: &Heard,
) -> Vec<(Arc<Host>, sites::Host)> {
    let (namespace, name) = (pool.namespace(), pool.name_any());
    let is_there = |machine: &Machine| match &machine.spec.location {
        Some(at) => place.name == Some(at.as_str()),
        // Of before there were several.
        None => machine.spec.provider == *place.provider,
    };
    let machines = ctx.stores.machines.state().into_iter().filter(|m| {
        let has_node = m.status.as_ref().is_some_and(|s| s.node_name.is_some());
        m.namespace() == namespace
            && m.spec.pool_name == name
            && m.metadata.deletion_timestamp.is_none()
            && has_node
            && is_there(m)
    });
    let nodes: HashMap<_, _> = machines
        .filter_map(|m| Some((m.uid()?, m.name_any())))
        .collect();
    let after = after(pool);
    let is_silent = |node: &String| {
        let node = heard.nodes.get(node);
        heard.is_trusted && node.is_some_and(|node| node.unchanged_for >= after)
    };
    let hosts = ctx.stores.hosts.state().into_iter();
    let claimed = hosts.filter(|host| host.namespace() == namespace);
    let claimed = claimed.filter_map(|host| {
        let claim = host.status.as_ref()?.claim.as_ref()?;
        let is_silent = is_silent(nodes.get(&claim.machine_uid)?);
        let contact = ctx.hosts.contact(&host.uid()?);
        Some((host, sites::Host { contact, is_silent }))
    });
    claimed.collect()
}

/// Tries machines reached by SSH of which that is to be known now.
fn try_hosts(ctx: &Context, pool: &NodePool, heard: &Heard) {
    let namespace = pool.namespace().unwrap_or_default();
    if !ctx.shards.owns(&namespace) || ctx.leadership.ensure().is_err() {
        return;
    }
    let status = pool.status.iter().flat_map(|status| &status.locations);
    let out: Vec<_> = status
        .filter(|at| at.state.as_deref() == Some(OUT))
        .map(|at| at.name.as_str())
        .collect();
    for place in pool.spec.places() {
        if place.provider.static_.is_none() {
            continue;
        }
        let is_out = out.contains(&place.shown());
        for (host, seen) in hosts_at(ctx, pool, &place, heard) {
            if seen.is_probe_due(is_out, ctx.hosts.now()) {
                ctx.hosts.try_contact(&host);
            }
        }
    }
}

/// Tries the published endpoint, where that is to be known now.
fn try_endpoint(ctx: &Context, pool: &NodePool, cluster: Option<&TenantCluster>, heard: &Heard) {
    let namespace = pool.namespace().unwrap_or_default();
    let Some((cluster, uid)) = cluster.map(|cluster| (cluster, cluster.identity_uid())) else {
        return;
    };
    // Those of other pools, too: the endpoint is everybody's who is not inside.
    let machines = ctx.stores.machines.state().into_iter();
    let machines = machines.filter(|m| {
        let has_node = m.status.as_ref().is_some_and(|s| s.node_name.is_some());
        m.spec.cluster_uid == uid
            && m.spec.provider.kubevirt.is_none()
            && m.metadata.deletion_timestamp.is_none()
            && has_node
    });
    let quiet: Vec<_> = machines
        .map(|m| Some(heard.nodes.get(&m.name_any())?.unchanged_for))
        .collect();
    let tried = ctx.endpoint_probes.tried(uid);
    if !is_probe_due(&quiet, after(pool), tried)
        || !ctx.shards.owns(&namespace)
        || ctx.leadership.ensure().is_err()
    {
        return;
    }
    let status = cluster.status.as_ref();
    let endpoint = status.and_then(|status| status.endpoint.clone());
    let (Some(endpoint), Some(authority)) = (endpoint, ctx.tenants.authority(uid)) else {
        return;
    };
    let target = Target {
        namespace: cluster.tenant_namespace(),
        endpoint,
        authority,
        dial: Arc::clone(&ctx.dial),
    };
    ctx.endpoint_probes.begin(uid, target);
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
        let heard = heard(ctx, &pool, cluster.as_deref());
        try_hosts(ctx, &pool, &heard);
        try_endpoint(ctx, &pool, cluster.as_deref(), &heard);
        let now = Seen {
            nodes: heard.outline(after(&pool)),
            answers: answers(ctx, &pool, &heard),
            endpoint: endpoint(ctx, &pool, cluster.as_deref()),
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
