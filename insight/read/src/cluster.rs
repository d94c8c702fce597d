//! The facts of one tenant cluster, which descriptions and checks go by.
//!
//! Invariant: requests go side by side, a bounded number at a time; what is of other tenant clusters is left out.

use futures::stream::{self, StreamExt as _};
use insight::facts::{Facts, TenantNamespace, accounts};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Namespace, PersistentVolumeClaim, Pod};
use kit_objects::known::Known;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};

use api::names::NOT_OF_MACHINES;
use api::{
    AccessGrant, FleetPolicy, Host, Machine, NodePool, ProviderConfig, Restore, Snapshot,
    TenantCluster,
};

use crate::reader::Reader;

/// Tenant namespaces that are read at once.
const AT_ONCE: usize = 8;

/// What is read of one tenant cluster for its description: five requests, four of them at once, and a sixth one where
/// machines of it are made by an account at a cloud. Of Events only warnings.
///
/// # Errors
/// When the TenantCluster itself cannot be read; all else is then unknown.
pub async fn described(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<(TenantCluster, Facts, Known<Vec<Event>>), kube::Error> {
    let reader = Reader::default();
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let events_are = format!("events in {namespace}");
    let warnings = ListParams::default().fields("type=Warning");
    let (about, events) = tokio::join!(
        about_cluster(&reader, client, namespace, name, 1),
        reader.list(&events, warnings, 1, &events_are),
    );
    let (cluster, mut facts) = about?;
    let space = cluster.status.as_ref().and_then(|s| s.namespace.clone());
    let configs = provider_configs(&reader, client, namespace, &facts, 1);
    let pods = async {
        let pods = pods(&reader, client, space.as_deref()?, 1).await;
        Some(pods)
    };
    let (configs, pods) = tokio::join!(configs, pods);
    facts.provider_configs = configs;
    if let (Some(space), Some(pods)) = (space, pods) {
        let read = TenantNamespace {
            pods,
            ..TenantNamespace::default()
        };
        facts.tenant_namespaces.insert(space, read);
    }
    facts.not_allowed = reader.not_allowed();
    let events = events.map(|all| all.into_iter().filter(|e| is_of(e, name, &facts)).collect());
    Ok((cluster, facts, events))
}

/// All of one tenant cluster that checks go by, and its Events: eleven requests, eight of them at once. Lists have at most
/// `pages` pages. Accounts at clouds are read where its machines are made by one, and of the management cluster
/// FleetPolicies where it waits for one, and nothing else.
///
/// # Errors
/// When the TenantCluster itself cannot be read; all else is then unknown.
pub async fn in_depth(
    client: &Client,
    namespace: &str,
    name: &str,
    pages: usize,
) -> Result<(TenantCluster, Facts, Known<Vec<Event>>), kube::Error> {
    let reader = Reader::default();
    let all = ListParams::default;
    let hosts: Api<Host> = Api::namespaced(client.clone(), namespace);
    let snapshots: Api<Snapshot> = Api::namespaced(client.clone(), namespace);
    let restores: Api<Restore> = Api::namespaced(client.clone(), namespace);
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let grants: Api<AccessGrant> = Api::namespaced(client.clone(), namespace);
    let words = ["hosts", "snapshots", "restores", "events", "accessgrants"];
    let words = words.map(|what| format!("{what} in {namespace}"));
    let (about, hosts, snapshots, restores, events, grants) = tokio::join!(
        about_cluster(&reader, client, namespace, name, pages),
        reader.list(&hosts, all(), pages, &words[0]),
        reader.list(&snapshots, all(), pages, &words[1]),
        reader.list(&restores, all(), pages, &words[2]),
        reader.list(&events, all(), pages, &words[3]),
        reader.list(&grants, all(), pages, &words[4]),
    );
    let (cluster, mut facts) = about?;
    facts.hosts = hosts;
    facts.snapshots = snapshots.map(|mut all| {
        all.retain(|snapshot| snapshot.spec.cluster_name == name);
        all
    });
    facts.restores = restores.map(|mut all| {
        all.retain(|restore| restore.spec.cluster_name == name);
        all
    });
    facts.grants = grants.map(|mut all| {
        all.retain(|grant| grant.spec.cluster_name == name);
        all
    });
    let space = cluster.status.as_ref().and_then(|s| s.namespace.clone());
    let spaces = space.into_iter().collect();
    let (read, configs, policies) = tokio::join!(
        tenant_namespaces(&reader, client, spaces),
        provider_configs(&reader, client, namespace, &facts, pages),
        fleet_policies(&reader, client, &facts, pages),
    );
    facts.tenant_namespaces.extend(read);
    facts.provider_configs = configs;
    facts.management.fleet_policies = policies;
    facts.not_allowed = reader.not_allowed();
    let events = events.map(|all| all.into_iter().filter(|e| is_of(e, name, &facts)).collect());
    Ok((cluster, facts, events))
}

/// The tenant cluster with its pools and machines, which say what an Event is about. Lists have at most `pages` pages.
///
/// # Errors
/// When the TenantCluster itself cannot be read.
pub async fn about_cluster(
    reader: &Reader,
    client: &Client,
    namespace: &str,
    name: &str,
    pages: usize,
) -> Result<(TenantCluster, Facts), kube::Error> {
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
    let pools: Api<NodePool> = Api::namespaced(client.clone(), namespace);
    let machines: Api<Machine> = Api::namespaced(client.clone(), namespace);
    let (pools_are, machines_are) = (
        format!("nodepools in {namespace}"),
        format!("machines in {namespace}"),
    );
    let (cluster, pools, machines) = tokio::join!(
        clusters.get(name),
        reader.list(&pools, ListParams::default(), pages, &pools_are),
        reader.list(&machines, ListParams::default(), pages, &machines_are),
    );
    let pools = pools.map(|mut all| {
        all.retain(|pool| pool.spec.cluster_name == name);
        all
    });
    let machines = machines.map(|mut all| {
        all.retain(|machine| machine.spec.cluster_name == name);
        all
    });
    let cluster = cluster?;
    let facts = Facts {
        now: Timestamp::now(),
        clusters: Known::Known(vec![cluster.clone()]),
        pools,
        machines,
        ..Facts::default()
    };
    Ok((cluster, facts))
}

/// Whether an Event is about the tenant cluster, one of its pools or one of its machines.
#[must_use]
pub fn is_of(event: &Event, cluster: &str, facts: &Facts) -> bool {
    let about = &event.involved_object;
    let name = about.name.as_deref().unwrap_or_default();
    let among = |names: Option<Vec<String>>| names.is_some_and(|all| all.iter().any(|n| n == name));
    match about.kind.as_deref() {
        Some("TenantCluster") => name == cluster,
        Some("NodePool") => {
            let all = facts.pools.as_ref().there();
            among(all.map(|all| all.iter().map(|p| p.name_any()).collect()))
        }
        Some("Machine") => {
            let all = facts.machines.as_ref().there();
            among(all.map(|all| all.iter().map(|m| m.name_any()).collect()))
        }
        _ => false,
    }
}

/// The accounts at clouds of a namespace, where a pool that was read has machines made by one.
async fn provider_configs(
    reader: &Reader,
    client: &Client,
    namespace: &str,
    facts: &Facts,
    pages: usize,
) -> Known<Vec<ProviderConfig>> {
    if !facts.has_accounts() {
        return Known::default();
    }
    let api: Api<ProviderConfig> = Api::namespaced(client.clone(), namespace);
    let what = format!("providerconfigs in {namespace}");
    let all = reader.list(&api, ListParams::default(), pages, &what).await;
    let pools = facts.pools.as_ref().there().into_iter().flatten();
    let named: Vec<_> = pools.flat_map(accounts).collect();
    all.map(|mut all| {
        all.retain(|config| named.contains(&config.name_any().as_str()));
        all
    })
}

/// The policies of the fleet, where the tenant cluster waits for one.
async fn fleet_policies(
    reader: &Reader,
    client: &Client,
    facts: &Facts,
    pages: usize,
) -> Known<Vec<FleetPolicy>> {
    if !facts.has_held() {
        return Known::default();
    }
    let api: Api<FleetPolicy> = Api::all(client.clone());
    let all = ListParams::default();
    reader.list(&api, all, pages, "fleetpolicies").await
}

async fn pods(reader: &Reader, client: &Client, space: &str, pages: usize) -> Known<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), space);
    let params = ListParams::default().labels(NOT_OF_MACHINES);
    let what = format!("pods in {space}");
    reader.list(&api, params, pages, &what).await
}

/// What is in tenant namespaces, a few at a time.
pub async fn tenant_namespaces(
    reader: &Reader,
    client: &Client,
    names: Vec<String>,
) -> Vec<(String, TenantNamespace)> {
    let reads = names.into_iter().map(|name| async move {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &name);
        let (this, claims_are) = (
            format!("namespace {name}"),
            format!("persistentvolumeclaims in {name}"),
        );
        let (object, pods, claims) = tokio::join!(
            reader.get(&namespaces, &name, &this),
            pods(reader, client, &name, 2),
            reader.list(&claims, ListParams::default(), 2, &claims_are),
        );
        let read = TenantNamespace {
            object,
            pods,
            claims,
        };
        (name, read)
    });
    stream::iter(reads)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}
