//! Controllers: for each kind of ours, how many are reconciled at the same time, and what triggers them.
//!
//! | Module | What it reconciles |
//! |---|---|
//! | [`tenant_cluster`] | TenantClusters: observe → validate → plan → apply → report |
//! | [`node_pool`], [`machine`] | NodePools and Machines, in the same shape |
//! | [`tenant_quota`] | TenantQuotas: what is used of them |
//! | [`host`] | Hosts: what was seen of the machine, and what is done on it |
//! | [`provider_config`] | ProviderConfigs: whether they let us in, and what is left of Machines that are gone |
//! | [`backup_target`] | BackupTargets: whether they can hold backups |
//! | [`tenant_backup`] | backups of TenantClusters' etcd |
//! | [`snapshot`] | Snapshots: that one is taken and kept, and what it is |
//! | [`restore`] | Restores: whether a moment can be had |
//! | [`status_only`] | what those have in common that write nothing but a status |
//! | [`access_grant`] | AccessGrants: a person's certificate, and its rights inside the tenant cluster |
//! | [`fleet_policy`] | FleetPolicies: who may follow another operator now |
//! | [`tenant_namespace`] | tenant namespaces whose TenantCluster is gone |
//!
//! Invariant: kinds do not know each other; what one must know of another it reads from the API or the
//! stores. Long because every kind is run here.

use std::sync::Arc;
use std::time::Duration;

use api::condition::is_true;
use api::{
    AccessGrant, BackupTarget, ConditionType, FleetPolicy, Host, Machine, NodePool, ProviderConfig,
    Restore, Snapshot, TenantCluster, TenantQuota, names,
};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, select_all};
use futures::{FutureExt as _, Stream, StreamExt};
use ipnet::IpNet;
use jiff::Timestamp;
use kit::shutdown::Shutdown;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Controller, controller, watcher};
use kube::{Resource, ResourceExt};
use tenant_cp::problem::Problem;
use tenant_cp::settings::NetworkSettings;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use crate::capacity;
use crate::context::Context;
use crate::kubevirt_release;
use crate::orphans::TenantNamespace;
use crate::outages;
use crate::request_rate::Urgency;
use crate::reserved_ranges;
use crate::shards::plan::INSTALLATION;
use crate::standby;
use crate::state::{self, ControllerState};
use crate::throttle::throttle;
use crate::triggers::Triggered;
use crate::watches;

pub mod access_grant;
pub mod backup_target;
#[cfg(test)]
mod fields;
pub mod fleet_policy;
pub mod host;
pub mod machine;
pub mod node_pool;
pub mod provider_config;
pub mod restore;
pub mod snapshot;
pub mod status_only;
#[cfg(test)]
mod stored;
pub mod tenant_backup;
pub mod tenant_cluster;
pub mod tenant_namespace;
pub mod tenant_quota;

/// Node pools that are reconciled at the same time.
const POOLS: u16 = 4;
/// Machines that are reconciled at the same time.
pub(crate) const MACHINES: u16 = 8;
/// Backups that are cared for at the same time; one waits for its process a few seconds at most.
const BACKUPS: u16 = 4;
/// Hosts that are reconciled at the same time; sessions with their machines are not among it.
const HOSTS: u16 = 4;
/// ProviderConfigs that are checked at the same time; one waits for its cloud.
const CONFIGS: u16 = 4;
/// AccessGrants that are cared for at the same time; one waits for its tenant cluster a few seconds at most.
const GRANTS: u16 = 4;
/// How long node pools wait at most until it is known what room there is. A management API that does
/// not tell (an older role, say) must not keep machines from being made.
const CAPACITY: Duration = Duration::from_secs(5);
/// How long what happens to one node is throttled: a tenant may make its nodes change as often as it
/// likes.
const NODES: Duration = Duration::from_millis(300);

/// Reconciles until the shutdown starts. The stores are filled.
pub async fn run(
    context: &Arc<Context>,
    triggered: Triggered,
    concurrency: u16,
    shutdown: &Shutdown,
) {
    let Triggered {
        clusters,
        pools,
        changed_pools,
        machines,
        quotas,
        hosts,
        targets,
        snapshots,
        restores,
        configs,
        policies,
        access_grants,
        backups,
        namespaces,
    } = triggered;
    // The receivers are in this very function.
    take_up(context, |namespace| context.shards.owns(namespace));
    let clusters = tenant_clusters(context, clusters, concurrency, shutdown);
    let pools = node_pools(context, pools, changed_pools, shutdown);
    let machines = all_machines(context, machines, shutdown);
    let quotas = tenant_quotas(context, quotas, shutdown);
    let hosts = all_hosts(context, hosts, shutdown);
    let namespaces = tenant_namespaces(context, namespaces, shutdown);
    let targets = backup_targets(context, targets, shutdown);
    let backups = tenant_backups(context, backups, shutdown);
    let snapshots = all_snapshots(context, snapshots, shutdown);
    let restores = all_restores(context, restores, shutdown);
    let configs = provider_configs(context, configs, shutdown);
    let policies = fleet_policies(context, policies, shutdown);
    let access_grants = all_access_grants(context, access_grants, shutdown);
    futures::join!(
        clusters,
        pools,
        machines,
        quotas,
        hosts,
        targets,
        backups,
        snapshots,
        restores,
        configs,
        policies,
        access_grants,
        namespaces,
        outages::run(context, shutdown),
        standby::run::run(context, shutdown)
    );
}

/// Takes up the work of the namespaces that `is_mine` says: all of it is triggered, and of tenant clusters at rest one after
/// the other.
pub fn take_up(context: &Context, is_mine: impl Fn(&str) -> bool) {
    let clusters = context.stores.clusters.state();
    let mut mine = Vec::new();
    let mut others = Vec::new();
    for cluster in &clusters {
        match is_mine(&cluster.namespace().unwrap_or_default()) {
            true => mine.push(cluster),
            false => others.push(cluster.identity_uid().to_owned()),
        }
    }
    let at_rest = mine.iter().filter(|cluster| is_at_rest(cluster));
    let at_rest = at_rest.map(|cluster| state::key_of(&***cluster));
    context.throttle.begin_first_looks(at_rest);
    if context.shards.is_shared() {
        context.rollout_queue.share(context.shards.members());
        if !mine.is_empty() {
            context.rollout_queue.look_at_others_than(others);
        }
    }
    // Before anybody asks for a turn.
    context.renew_gate(Timestamp::now());
    context.triggers.all(&context.stores, is_mine);
}

fn tenant_clusters(
    context: &Arc<Context>,
    triggered: UnboundedReceiver<ObjectRef<TenantCluster>>,
    concurrency: u16,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send {
    let streams = [
        stream(triggered).boxed(),
        watches::owned::owned(
            &context.client,
            &context.stores.clusters,
            &context.throttle,
            &context.settings,
        )
        .boxed(),
        watches::wakes::asked(
            &context.client,
            &context.settings.operator_namespace,
            &context.stores.clusters,
        ),
        all_of(context, clusters_read, |context| &context.stores.clusters),
    ];
    Controller::for_stream(futures::stream::pending(), context.stores.clusters.clone())
        .with_config(controller::Config::default().concurrency(concurrency))
        .reconcile_on(due(context, streams, |context| &context.cluster_state))
        .graceful_shutdown_on(shutdown.triggered())
        .run(
            owned(
                |cluster: Arc<TenantCluster>, context: Arc<Context>| async move {
                    let key = state::key_of(&*cluster);
                    let (uid, urgency) = (cluster.identity_uid().to_owned(), urgency(&cluster));
                    let work = tenant_cluster::reconcile(cluster, Arc::clone(&context));
                    let throttle = &context.throttle;
                    throttle.reconcile(&key, (&uid, urgency), work).await
                },
            ),
            tenant_cluster::error_policy,
            Arc::clone(context),
        )
        .for_each(|_| std::future::ready(()))
}

/// How much a TenantCluster, as last seen, may owe for earlier requests when it is reconciled.
fn urgency(cluster: &TenantCluster) -> Urgency {
    let status = cluster.status.as_ref();
    let seen = status.and_then(|s| s.observed_generation);
    let has_been_ready = status.is_some_and(|s| s.bootstrap_hash.is_some());
    match cluster.metadata.deletion_timestamp {
        Some(_) => Urgency::Goes,
        None if !has_been_ready || seen != cluster.metadata.generation => Urgency::Awaited,
        // A client may wait that woke it.
        None if status.is_some_and(|s| s.hibernation.is_some()) => Urgency::Awaited,
        None => Urgency::Ordinary,
    }
}

/// Whether nobody waits for anything of it, as last seen.
fn is_at_rest(cluster: &TenantCluster) -> bool {
    let conditions = cluster.status.as_ref().map_or(&[][..], |s| &s.conditions);
    urgency(cluster) == Urgency::Ordinary && is_true(conditions, ConditionType::Ready)
}

fn node_pools(
    context: &Arc<Context>,
    triggered: UnboundedReceiver<ObjectRef<NodePool>>,
    changed: UnboundedReceiver<ObjectRef<NodePool>>,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send {
    let streams = [
        stream(triggered).boxed(),
        throttle(stream(changed), node_pool::PERIOD).boxed(),
        capacity::watches::flips(Arc::clone(&context.capacity)).boxed(),
        all_of(context, pools_read, |context| &context.stores.pools),
        whenever(
            context,
            kubevirt_release::changes(&context.kubevirt_release).boxed(),
            |context| &context.stores.pools,
        ),
    ];
    let pools = Controller::for_stream(futures::stream::pending(), context.stores.pools.clone())
        .with_config(controller::Config::default().concurrency(POOLS))
        .reconcile_on(due(context, streams, |context| &context.pool_state))
        .graceful_shutdown_on(shutdown.triggered())
        .run(
            owned(node_pool::reconcile),
            node_pool::error_policy,
            Arc::clone(context),
        )
        .for_each(|_| std::future::ready(()));
    let (context, stopped) = (Arc::clone(context), shutdown.triggered());
    async move {
        // Ended when this ends.
        let mut watches = JoinSet::new();
        watches.spawn(capacity::watches::run(
            Arc::clone(&context.capacity),
            context.client.clone(),
        ));
        tokio::select! {
            // Late or not, a pool is reconciled now.
            _ = tokio::time::timeout(CAPACITY, context.capacity.listed()) => {}
            () = stopped => {}
        }
        pools.await;
    }
}

fn all_machines(
    context: &Arc<Context>,
    triggered: UnboundedReceiver<ObjectRef<Machine>>,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send {
    let inside = match context.tenants.machine_triggers() {
        Some(triggers) => throttle(stream(triggers), NODES).boxed(),
        None => futures::stream::pending().boxed(),
    };
    let streams = [stream(triggered).boxed(), inside];
    Controller::for_stream(futures::stream::pending(), context.stores.machines.clone())
        .with_config(controller::Config::default().concurrency(MACHINES))
        .reconcile_on(due(context, streams, |context| &context.machine_state))
        .graceful_shutdown_on(shutdown.triggered())
        .run(
            owned(machine::reconcile),
            machine::error_policy,
            Arc::clone(context),
        )
        .for_each(|_| std::future::ready(()))
}

fn tenant_quotas(
    context: &Arc<Context>,
    triggered: UnboundedReceiver<ObjectRef<TenantQuota>>,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send {
    let streams = [throttle(stream(triggered), tenant_quota::PERIOD).boxed()];
    Controller::for_stream(futures::stream::pending(), context.stores.quotas.clone())
        .with_config(controller::Config::default().concurrency(1))
        .reconcile_on(due(context, streams, |context| &context.quota_state))
        .graceful_shutdown_on(shutdown.triggered())
        .run(
            owned(tenant_quota::reconcile),
            tenant_quota::error_policy,
            Arc::clone(context),
        )
        .for_each(|_| std::future::ready(()))
}

fn all_hosts(
    context: &Arc<Context>,
    triggered: UnboundedReceiver<ObjectRef<Host>>,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send {
    let streams = [stream(triggered).boxed()];
    Controller::for_stream(futures::stream::pending(), context.stores.hosts.clone())
        .with_config(controller::Config::default().concurrency(HOSTS))
        .reconcile_on(due(context, streams, |context| &context.host_state))
        .graceful_shutdown_on(shutdown.triggered())
        .run(
            owned(host::reconcile),
            host::error_policy,
            Arc::clone(context),
        )
        .for_each(|_| std::future::ready(()))
}

fn provider_configs(
    context: &Arc<Context>,
    triggered: UnboundedReceiver<ObjectRef<ProviderConfig>>,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send {
    let streams = [stream(triggered).boxed()];
    Controller::for_stream(futures::stream::pending(), context.stores.configs.clone())
        .with_config(controller::Config::default().concurrency(CONFIGS))
        .reconcile_on(due(context, streams, |context| &context.config_state))
        .graceful_shutdown_on(shutdown.triggered())
        .run(
            owned(provider_config::reconcile),
            provider_config::error_policy,
            Arc::clone(context),
        )
        .for_each(|_| std::future::ready(()))
}

fn backup_targets(
    context: &Arc<Context>,
    triggered: UnboundedReceiver<ObjectRef<BackupTarget>>,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send {
    let targets = &context.stores.targets;
    let namespace = &context.settings.operator_namespace;
    let streams = [
        stream(triggered).boxed(),
        watches::backup_checks::checked(&context.client, namespace, targets),
    ];
    Controller::for_stream(futures::stream::pending(), targets.clone())
        .with_config(controller::Config::default().concurrency(1))
        .reconcile_on(due(context, streams, |context| &context.target_state))
        .graceful_shutdown_on(shutdown.triggered())
        .run(
            owned(backup_target::reconcile),
            backup_target::error_policy,
            Arc::clone(context),
        )
        .for_each(|_| std::future::ready(()))
}

fn tenant_backups(
    context: &Arc<Context>,
    triggered: UnboundedReceiver<ObjectRef<TenantCluster>>,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send {
    let streams = [throttle(stream(triggered), tenant_backup::PERIOD).boxed()];
    Controller::for_stream(futures::stream::pending(), context.stores.clusters.clone())
        .with_config(controller::Config::default().concurrency(BACKUPS))
        .reconcile_on(due(context, streams, |context| &context.backup_state))
        .graceful_shutdown_on(shutdown.triggered())
        .run(
            owned(tenant_backup::reconcile),
            tenant_backup::error_policy,
            Arc::clone(context),
        )
        .for_each(|_| std::future::ready(()))
}

fn all_snapshots(
    context: &Arc<Context>,
    triggered: UnboundedReceiver<ObjectRef<Snapshot>>,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send {
    let streams = [stream(triggered).boxed()];
    let snapshots = context.stores.snapshots.clone();
    Controller::for_stream(futures::stream::pending(), snapshots)
        .with_config(controller::Config::default().concurrency(BACKUPS))
        .reconcile_on(due(context, streams, |context| &context.snapshot_state))
        .graceful_shutdown_on(shutdown.triggered())
        .run(
            owned(snapshot::reconcile),
            snapshot::error_policy,
            Arc::clone(context),
        )
        .for_each(|_| std::future::ready(()))
}

fn all_restores(
    context: &Arc<Context>,
    triggered: UnboundedReceiver<ObjectRef<Restore>>,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send {
    let streams = [stream(triggered).boxed()];
    let restores = context.stores.restores.clone();
    Controller::for_stream(futures::stream::pending(), restores)
        .with_config(controller::Config::default().concurrency(BACKUPS))
        .reconcile_on(due(context, streams, |context| &context.restore_state))
        .graceful_shutdown_on(shutdown.triggered())
        .run(
            owned(restore::reconcile),
            restore::error_policy,
            Arc::clone(context),
        )
        .for_each(|_| std::future::ready(()))
}

fn all_access_grants(
    context: &Arc<Context>,
    triggered: UnboundedReceiver<ObjectRef<AccessGrant>>,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send {
    let streams = [stream(triggered).boxed()];
    let grants = context.stores.access_grants.clone();
    Controller::for_stream(futures::stream::pending(), grants)
        .with_config(controller::Config::default().concurrency(GRANTS))
        .reconcile_on(due(context, streams, |context| &context.access_grant_state))
        .graceful_shutdown_on(shutdown.triggered())
        .run(
            owned(access_grant::reconcile),
            access_grant::error_policy,
            Arc::clone(context),
        )
        .for_each(|_| std::future::ready(()))
}

fn fleet_policies(
    context: &Arc<Context>,
    triggered: UnboundedReceiver<ObjectRef<FleetPolicy>>,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send {
    let streams = [throttle(stream(triggered), fleet_policy::PERIOD).boxed()];
    let policies = context.stores.policies.clone();
    Controller::for_stream(futures::stream::pending(), policies)
        .with_config(controller::Config::default().concurrency(1))
        .reconcile_on(due_anywhere(context, streams, |context| {
            &context.policy_state
        }))
        .graceful_shutdown_on(shutdown.triggered())
        .run(
            // Each replica computes who of its own may begin; one writes of it.
            fleet_policy::reconcile,
            fleet_policy::error_policy,
            Arc::clone(context),
        )
        .for_each(|_| std::future::ready(()))
}

fn tenant_namespaces(
    context: &Arc<Context>,
    triggered: UnboundedReceiver<ObjectRef<TenantNamespace>>,
    shutdown: &Shutdown,
) -> impl Future<Output = ()> + Send {
    let (known, writer) = reflector::store();
    let streams = [
        stream(triggered).boxed(),
        whenever_ours(context, known.clone()),
    ];
    let namespaces = Controller::for_stream(futures::stream::pending(), known)
        .with_config(controller::Config::default().concurrency(1))
        .reconcile_on(due(context, streams, |context| &context.namespace_state))
        .graceful_shutdown_on(shutdown.triggered())
        .run(
            owned(tenant_namespace::reconcile),
            tenant_namespace::error_policy,
            Arc::clone(context),
        )
        .for_each(|_| std::future::ready(()));
    let context = Arc::clone(context);
    async move {
        // Ended when this ends.
        let mut watches = JoinSet::new();
        watches.spawn(async move {
            let selected = watcher::Config::default().labels(names::LABEL_TENANT_UID);
            let client = context.client.clone();
            let tell =
                |namespace: &TenantNamespace, there| on_namespace(&context, namespace, there);
            kit::store::run_metadata(client, selected, writer, tell).await;
        });
        namespaces.await;
    }
}

/// All tenant namespaces, each time that what is of the whole installation comes to this replica.
fn whenever_ours(
    context: &Arc<Context>,
    known: Store<TenantNamespace>,
) -> BoxStream<'static, ObjectRef<TenantNamespace>> {
    let ours = futures::stream::unfold(Arc::clone(context), |context| async move {
        context.shards.becomes(INSTALLATION, false).await;
        context.shards.becomes(INSTALLATION, true).await;
        Some(((), context))
    });
    let all = move |()| {
        let all = known.state().into_iter();
        let all: Vec<_> = all.map(|object| ObjectRef::from_obj(&*object)).collect();
        futures::stream::iter(all)
    };
    ours.flat_map(all).boxed()
}

/// A tenant namespace changed, or went.
fn on_namespace(context: &Context, namespace: &TenantNamespace, there: bool) {
    let triggers = &context.triggers;
    if let Some(owner) = watches::owned::owner(&namespace.metadata, &context.stores.clusters) {
        if !there {
            context.throttle.call(&state::key(&owner));
        }
        // Sending fails only once the controllers have ended.
        let _ = triggers.clusters.send(owner);
    }
    match there {
        true => {
            let _ = triggers.namespaces.send(ObjectRef::from_obj(namespace));
        }
        false => tenant_namespace::forget(context, namespace),
    }
}

/// What TenantClusters read of the network's settings that may change.
fn clusters_read(network: &NetworkSettings) -> (Vec<IpNet>, bool) {
    (network.reserved.clone(), network.reserved_unknown.is_some())
}

/// What node pools read of them.
fn pools_read(network: &NetworkSettings) -> Option<Problem> {
    network.reserved_unknown.clone()
}

/// All objects of a kind, each time that what they read of the settings in force is something else.
fn all_of<K, T>(
    context: &Arc<Context>,
    read: fn(&NetworkSettings) -> T,
    store: fn(&Context) -> &Store<K>,
) -> BoxStream<'static, ObjectRef<K>>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
    T: PartialEq + Send + 'static,
{
    let changes = reserved_ranges::watches::changes(&context.reserved_ranges, read);
    whenever(context, changes.boxed(), store)
}

/// All objects of a kind, each time that `changes` tells.
fn whenever<K>(
    context: &Arc<Context>,
    changes: BoxStream<'static, ()>,
    store: fn(&Context) -> &Store<K>,
) -> BoxStream<'static, ObjectRef<K>>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let context = Arc::clone(context);
    let all = move |()| {
        let all = store(&context).state().into_iter();
        let all: Vec<_> = all.map(|object| ObjectRef::from_obj(&*object)).collect();
        futures::stream::iter(all)
    };
    changes.flat_map(all).boxed()
}

/// Reconciles what is this replica's work, and leaves the rest to whose it is: that one triggers all of it when it takes it up.
fn owned<K, F, E>(
    mut reconcile: impl FnMut(Arc<K>, Arc<Context>) -> F,
) -> impl FnMut(Arc<K>, Arc<Context>) -> BoxFuture<'static, Result<controller::Action, E>>
where
    K: Resource,
    F: Future<Output = Result<controller::Action, E>> + Send + 'static,
    E: Send + 'static,
{
    move |object, context| {
        let namespace = object.meta().namespace.clone().unwrap_or_default();
        let work = reconcile(object, Arc::clone(&context));
        let done = async move { context.shards.run(&namespace, work).await };
        done.map(|done| done.unwrap_or_else(|| Ok(controller::Action::await_change())))
            .boxed()
    }
}

/// All triggers of a kind that are this replica's work; since when an object is due is kept.
fn due<K>(
    context: &Arc<Context>,
    triggers: impl IntoIterator<Item = BoxStream<'static, ObjectRef<K>>>,
    state: fn(&Context) -> &ControllerState,
) -> impl Stream<Item = ObjectRef<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + 'static,
{
    let context = Arc::clone(context);
    select_all(triggers).filter(move |object| {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let is_mine = context.shards.owns(namespace);
        if is_mine {
            state(&context).is_due(object);
        }
        std::future::ready(is_mine)
    })
}

/// As [`due`], whosever work it is.
fn due_anywhere<K>(
    context: &Arc<Context>,
    triggers: impl IntoIterator<Item = BoxStream<'static, ObjectRef<K>>>,
    state: fn(&Context) -> &ControllerState,
) -> impl Stream<Item = ObjectRef<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + 'static,
{
    let context = Arc::clone(context);
    select_all(triggers).inspect(move |object| state(&context).is_due(object))
}

fn stream<T: Send + 'static>(
    mut receiver: UnboundedReceiver<T>,
) -> impl Stream<Item = T> + Send + Unpin {
    futures::stream::poll_fn(move |cx| receiver.poll_recv(cx))
}
