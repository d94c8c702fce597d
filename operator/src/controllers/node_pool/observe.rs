//! Reads everything that a plan may depend on. Decides nothing.
//!
//! Invariant: the pool, its tenant cluster and its Machines are read live: on a stale list a second
//! set of Machines would be made.

use std::collections::BTreeSet;

use api::{Machine, NodePool, TenantCluster, names};
use kit_client::errors::{Class, Classify};
use kit_objects::known::Known;
use kube::api::ListParams;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};

use super::nodes::{self, Nodes};
use super::observed::{Observed, is_owned};
use crate::capacity::Answer;
use crate::cloud_limits;
use crate::context::Context;
use crate::exclusions;
use crate::node_templates;
use crate::outages;

/// Why an observation failed.
#[derive(Debug, thiserror::Error)]
#[error("read {what}")]
pub struct Error {
    /// Kind and name.
    what: String,
    /// What the API said.
    #[source]
    source: Box<kube::Error>,
}

impl Classify for Error {
    fn class(&self) -> Class {
        self.source.class()
    }
}

/// Reads the world of one NodePool; none when it is gone.
///
/// # Errors
/// [`Error`]; then nothing is known and nothing may be decided.
pub async fn observe(
    ctx: &Context,
    namespace: &str,
    name: &str,
) -> Result<Option<Observed>, Error> {
    let pools = Api::<NodePool>::namespaced(ctx.client.clone(), namespace);
    let failed = |what: String| {
        |source: kube::Error| Error {
            what,
            source: Box::new(source),
        }
    };
    let found = pools.get_opt(name).await;
    let Some(pool) = found.map_err(failed(format!("NodePool {name}")))? else {
        return Ok(None);
    };
    let clusters = Api::<TenantCluster>::namespaced(ctx.client.clone(), namespace);
    let cluster_name = pool.spec.cluster_name.clone();
    let machines = Api::<Machine>::namespaced(ctx.client.clone(), namespace);
    let selector = ListParams::default().labels(&names::pool_selector(name));
    let (cluster, listed) =
        futures::join!(clusters.get_opt(&cluster_name), machines.list(&selector));
    let cluster = cluster.map_err(failed(format!("TenantCluster {cluster_name}")))?;
    let mut machines = listed.map_err(failed(format!("Machines of {name}")))?.items;
    // What somebody took the label off is still the pool's; the plan puts the label back.
    let uid = pool.uid().unwrap_or_default();
    let known: BTreeSet<_> = machines.iter().map(ResourceExt::name_any).collect();
    let all = ctx.stores.machines.state();
    let elsewhere = all
        .into_iter()
        .filter(|m| m.namespace().as_deref() == Some(namespace) && !known.contains(&m.name_any()));
    let (lost, others): (Vec<_>, Vec<_>) = elsewhere.partition(|m| is_owned(m, &uid));
    for machine in lost {
        let name = machine.name_any();
        let found = api_of(ctx, namespace).get_opt(&name).await;
        machines.extend(found.map_err(failed(format!("Machine {name}")))?);
    }
    let capacity = capacity(ctx, &pool, cluster.as_ref());
    let quotas = match pool.metadata.deletion_timestamp {
        Some(_) => Vec::new(),
        None => ctx.ask_quotas_for_pool(&pool),
    };
    let settings = ctx.reserved_ranges.settings();
    let nodes = running_nodes(ctx, &pool, cluster.as_ref());
    let templates = node_templates::known(&ctx.providers, &pool);
    let heard = outages::heard(ctx, &pool, cluster.as_ref());
    let let_in = exclusions::let_in(&ctx.stores, &pool);
    let answers = outages::answers(ctx, &pool, &heard);
    let endpoint = outages::endpoint(ctx, &pool, cluster.as_ref());
    let prices = cloud_limits::hourly(&ctx.stores, &ctx.clouds, &pool);
    let costs = cloud_limits::costs(&ctx.stores, &ctx.clouds, &pool, machines.iter());
    Ok(Some(Observed {
        pool,
        cluster: Known::found(cluster),
        machines,
        others,
        nodes,
        capacity,
        quotas,
        reserved_unknown: settings.network.reserved_unknown.clone(),
        kubevirt: ctx.kubevirt_release.release(),
        templates,
        heard,
        answers,
        let_in,
        endpoint,
        prices,
        costs,
    }))
}

/// Nodes of Hosts as last seen. Those that nobody took over are taken by a write that is guarded.
fn running_nodes(ctx: &Context, pool: &NodePool, cluster: Option<&TenantCluster>) -> Nodes {
    let authority = cluster.and_then(|cluster| ctx.tenants.authority(cluster.identity_uid()));
    let trusted = authority.and_then(|pem| pki::certificate_fingerprints(&pem));
    nodes::of(pool, &ctx.stores.hosts.state(), trusted.as_deref())
}

/// Whether one machine more fits; not known of one that nobody can make, or that has no tenant
/// namespace. Of several locations the one with the largest weight is asked about, the first among equals: it
/// gets most machines, and the answer does not change with each of them.
fn capacity(ctx: &Context, pool: &NodePool, cluster: Option<&TenantCluster>) -> Answer {
    let places = pool.spec.places();
    let heaviest = places.iter().rev().max_by_key(|place| place.weight);
    let offered = heaviest.and_then(|place| {
        let found = ctx.providers.get(place.provider);
        let namespace = pool.namespace().unwrap_or_default();
        let offered = found.and_then(|found| found.offerings(&namespace, place.provider));
        offered.ok()
    });
    // The first choice: another may fit where that does not, but is not what the pool gets first.
    let first = offered.and_then(|offered| offered.into_iter().next());
    let needs = first.and_then(|first| first.needs);
    let key = ObjectRef::from_obj(pool);
    match (needs, cluster) {
        (Some(needs), Some(cluster)) => ctx.capacity.ask(key, needs, cluster.tenant_namespace()),
        _ => {
            ctx.capacity.forget(&key);
            Answer::Unknown
        }
    }
}

/// The Machines of a namespace.
pub(super) fn api_of(ctx: &Context, namespace: &str) -> Api<Machine> {
    Api::namespaced(ctx.client.clone(), namespace)
}
