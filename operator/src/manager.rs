//! Manager: stores, watches and controllers of a running operator, without the process around them.
//!
//! Invariant: stores are kept in every replica; only one that holds a Lease reconciles, and it ends with
//! the Lease. Long because every kind has its store, its watch and its trigger here.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use api::node_pool::ProviderKind;
use api::{
    AccessGrant, BackupTarget, FleetPolicy, Host, Machine, MachineAddresses, NodePool,
    ProviderConfig, Restore, Snapshot, TenantCluster, TenantQuota,
};
use jiff::Timestamp;
use kit::admin::{Admin, Progress};
use kit::events::Publisher;
use kit::lease::Leadership;
use kit::metrics::ControllerMetrics;
use kit::shutdown::Shutdown;
use kit::store;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::WriterDropped;
use kube::{Client, ResourceExt};
use provider_kubevirt::needs;
use provider_kubevirt::provider::KubeVirt;
use provider_static::provider::Static;
use providers::Providers;
use tenant_cp::Settings;
use tenant_cp::rollout::revision;
use tokio::sync::Notify;

use crate::backups::{self, Backups};
use crate::capacity::Capacity;
use crate::cloud_limits::CloudLimits;
use crate::clouds::Clouds;
use crate::context::{Context, FleetGate};
use crate::controllers;
use crate::creations::Creations;
use crate::endpoint_probes::EndpointProbes;
use crate::etcd_replacement::patience::Patience;
use crate::etcd_space::looks::EtcdLooks;
use crate::hibernation::idle::Looks;
use crate::host_sessions::{Sessions, programs};
use crate::kubevirt_release::{self, KubeVirtRelease};
use crate::maintenance::patches;
use crate::orphans::Orphans;
use crate::publications::Publications;
use crate::reserved_ranges::{self, ReservedRanges};
use crate::rewrites::Rewrites;
use crate::rollouts::queue::RolloutQueue;
use crate::shards::Shards;
use crate::state::{self, ControllerState};
use crate::stores::{Stores, Writers};
use crate::tenant_session::api_probes::{ApiProbes, Heard, Purpose, Wake};
use crate::tenant_session::breaker::Breaker;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::bulkhead::{Bulkhead, Standings};
use crate::tenant_session::registry::Registry;
use crate::tenant_session::session::Dial;
use crate::throttle::Throttle;
use crate::triggers::{Triggered, Triggers};
use crate::upgrades;
use crate::upgrades::versions;
use crate::watches::credentials::CredentialWatches;
use crate::watches::secrets::SecretWatches;
use crate::watches::virtual_machines::VmWatches;

/// Name of the Lease.
pub const LEASE: &str = "covey-operator";
/// A reconcile that takes longer is stuck, and the process is not live.
const STUCK: Duration = Duration::from_secs(180);
/// How long reconciles wait at most until the management cluster's ranges are found. After that
/// control planes go on without them, and node pools wait.
const RANGES: Duration = Duration::from_secs(15);

/// Everything of a running operator but the process around it; tests run it too.
pub struct Manager {
    /// Shared by all reconciles.
    pub context: Arc<Context>,
    writers: Option<Writers>,
    triggered: Triggered,
}

impl Manager {
    /// Puts everything together; nothing runs yet.
    #[must_use]
    pub fn new(
        client: Client,
        settings: Settings,
        leadership: Leadership,
        dial: Dial,
        instance: &str,
        port: &Admin,
    ) -> Self {
        let (stores, writers) = Stores::new();
        let (triggers, triggered) = Triggers::new();
        let breaker = Breaker::default();
        let progress = Progress::new(STUCK);
        let check = progress.clone();
        port.live("reconciles", move || check.check());
        let metrics = port.metrics(ControllerMetrics::register);
        let events = |name: &str| Publisher::new(client.clone(), name, instance);
        let kubevirt = KubeVirt::new(
            client.clone(),
            settings.providers.kubevirt.clone(),
            crate::FIELD_MANAGER,
        );
        let of_hosts = &settings.providers.static_;
        let hosts = Static::new(
            client.clone(),
            (of_hosts.enabled, programs::archives(of_hosts)),
            crate::FIELD_MANAGER,
        );
        let clouds = Clouds::new(client.clone(), &settings.providers, stores.configs.clone());
        let providers = Providers::default()
            .with(ProviderKind::KubeVirt, Arc::new(kubevirt))
            .with(ProviderKind::Static, Arc::new(hosts));
        let throttle = Throttle::default();
        let wake = {
            let (throttle, clusters) = (throttle.clone(), triggers.clusters.clone());
            move |cluster: &ObjectRef<TenantCluster>, heard: &Heard| {
                match heard {
                    Heard::Silence(_) => throttle.join(&state::key(cluster)),
                    Heard::Answers | Heard::Over | Heard::Nothing => {
                        throttle.urge(&state::key(cluster));
                    }
                }
                // Fails only once the controller has ended.
                let _ = clusters.send(cluster.clone());
            }
        };
        let wake: Wake = Arc::new(wake);
        let probes = |purpose| ApiProbes::new(purpose, leadership.clone(), Arc::clone(&wake));
        let recovery_probes = Arc::new(probes(Purpose::Recovery));
        let standings = Standings::default();
        let bulkhead = |places| Bulkhead::new(standings.clone(), usize::from(places));
        let reserved_ranges = Arc::new(ReservedRanges::new(settings.clone()));
        let context = Arc::new(Context {
            // As many places as it has is told when it begins.
            cluster_bulkhead: bulkhead(1),
            machine_bulkhead: bulkhead(controllers::MACHINES),
            startup_probes: probes(Purpose::Startup),
            throttle,
            cluster_state: ControllerState::new(
                events("covey.dev/tenant-cluster"),
                metrics.controller("tenant_cluster"),
            ),
            pool_state: ControllerState::new(
                events("covey.dev/node-pool"),
                metrics.controller("node_pool"),
            ),
            machine_state: ControllerState::new(
                events("covey.dev/machine"),
                metrics.controller("machine"),
            ),
            quota_state: ControllerState::new(
                events("covey.dev/tenant-quota"),
                metrics.controller("tenant_quota"),
            ),
            host_state: ControllerState::new(events("covey.dev/host"), metrics.controller("host")),
            config_state: ControllerState::new(
                events("covey.dev/provider-config"),
                metrics.controller("provider_config"),
            ),
            target_state: ControllerState::new(
                events("covey.dev/backup-target"),
                metrics.controller("backup_target"),
            ),
            hosts: Sessions::new(
                client.clone(),
                leadership.clone(),
                Arc::clone(&reserved_ranges),
                triggers.hosts.clone(),
            ),
            backup_state: ControllerState::new(
                events("covey.dev/tenant-backup"),
                metrics.controller("tenant_backup"),
            ),
            snapshot_state: ControllerState::new(
                events("covey.dev/snapshot"),
                metrics.controller("snapshot"),
            ),
            restore_state: ControllerState::new(
                events("covey.dev/restore"),
                metrics.controller("restore"),
            ),
            policy_state: ControllerState::new(
                events("covey.dev/fleet-policy"),
                metrics.controller("fleet_policy"),
            ),
            access_grant_state: ControllerState::new(
                events("covey.dev/access-grant"),
                metrics.controller("access_grant"),
            ),
            backups: Backups::default(),
            namespace_state: ControllerState::new(
                events("covey.dev/tenant-namespace"),
                metrics.controller("tenant_namespace"),
            ),
            creations: Creations::default(),
            cloud_limits: CloudLimits::default(),
            publications: Publications::default(),
            remote_publications: Publications::default(),
            orphans: Orphans::default(),
            providers: clouds.register(providers),
            clouds,
            credentials: CredentialWatches::new(client.clone(), triggers.configs.clone()),
            vms: VmWatches::new(client.clone(), triggers.machines.clone()),
            capacity: Arc::new(Capacity::new(needs::labels(&settings.providers.kubevirt))),
            reserved_ranges,
            kubevirt_release: Arc::new(KubeVirtRelease::default()),
            rollout_queue: RolloutQueue::new(
                settings.max_concurrent_starts,
                settings.max_concurrent_rollouts,
            ),
            fleet_gate: FleetGate::default(),
            clusters_changed: Notify::new(),
            templates: revision::templates(&settings),
            secrets: SecretWatches::new(client.clone(), triggers.clusters.clone()),
            reservations: Mutex::default(),
            allotments: Mutex::default(),
            grants: Mutex::default(),
            etcd_looks: EtcdLooks::new(leadership.clone(), triggers.clusters.clone()),
            usage_looks: Looks::default(),
            rewrites: Rewrites::default(),
            tenants: Registry::new(
                leadership.clone(),
                breaker.clone(),
                Arc::clone(&recovery_probes),
                triggers.clusters.clone(),
            ),
            recovery_probes,
            breaker,
            standings,
            progress,
            client,
            settings,
            leadership,
            shards: Shards::default(),
            stores,
            triggers,
            dial,
            endpoint_breaker: Breaker::default(),
            endpoint_probes: EndpointProbes::default(),
            tenant_wait: Budget::WAIT,
            etcd_patience: Patience::default(),
            upgrade_calm: upgrades::CALM,
        });
        Self {
            context,
            writers: Some(writers),
            triggered,
        }
    }

    /// Keeps the stores of our kinds up to date, and the management cluster's ranges, in every replica.
    /// Ends never.
    pub fn run_stores(&mut self) -> impl Future<Output = ()> + Send + 'static {
        let context = Arc::clone(&self.context);
        let writers = self.writers.take();
        async move {
            let Some(writers) = writers else { return };
            let client = || context.client.clone();
            let relists = writers.relists;
            let (clusters, pools) = (writers.clusters, writers.pools);
            let (machines, quotas) = (writers.machines, writers.quotas);
            let (addresses, relist) = (writers.addresses, relists.addresses);
            let addresses = store::run(client(), addresses, relist, |addresses, there| {
                on_addresses(&context, addresses, there);
            });
            let clusters = store::run(client(), clusters, relists.clusters, |cluster, there| {
                on_cluster(&context, cluster, there);
            });
            let pools = store::run(client(), pools, relists.pools, |pool, there| {
                on_pool(&context, pool, there);
            });
            let machines = store::run(client(), machines, relists.machines, |machine, there| {
                on_machine(&context, machine, there);
            });
            let quotas = store::run(client(), quotas, relists.quotas, |quota, there| {
                on_quota(&context, quota, there);
            });
            let hosts = store::run(client(), writers.hosts, relists.hosts, |host, there| {
                on_host(&context, host, there);
            });
            let (targets, relist) = (writers.targets, relists.targets);
            let targets = store::run(client(), targets, relist, |target, there| {
                on_target(&context, target, there);
            });
            let (snapshots, relist) = (writers.snapshots, relists.snapshots);
            let snapshots = store::run(client(), snapshots, relist, |snapshot, there| {
                on_snapshot(&context, snapshot, there);
            });
            let (restores, relist) = (writers.restores, relists.restores);
            let restores = store::run(client(), restores, relist, |restore, there| {
                on_restore(&context, restore, there);
            });
            let (configs, relist) = (writers.configs, relists.configs);
            let configs = store::run(client(), configs, relist, |config, there| {
                on_config(&context, config, there);
            });
            let (policies, relist) = (writers.policies, relists.policies);
            let policies = store::run(client(), policies, relist, |policy, there| {
                on_policy(&context, policy, there);
            });
            let (grants, relist) = (writers.access_grants, relists.access_grants);
            let grants = store::run(client(), grants, relist, |grant, there| {
                on_access_grant(&context, grant, there);
            });
            let ranges = Arc::clone(&context.reserved_ranges);
            let ranges = reserved_ranges::watches::run(ranges, client());
            let release = Arc::clone(&context.kubevirt_release);
            let release = kubevirt_release::run(release, client());
            futures::join!(
                clusters, pools, machines, addresses, quotas, hosts, targets, snapshots, restores,
                configs, policies, grants, ranges, release
            );
        }
    }

    /// Waits for the Lease, then reconciles until the Lease is lost or the shutdown starts.
    ///
    /// # Errors
    /// When the Lease is lost.
    pub async fn lead(self, concurrency: u16, shutdown: Shutdown) -> anyhow::Result<()> {
        let Self {
            context, triggered, ..
        } = self;
        let synced = async {
            context.leadership.acquired().await;
            context.stores.wait_until_ready().await?;
            // What the former leader wrote last may not be in the stores, however long they have been
            // kept: a watch may stand still.
            context.stores.relist().await;
            // Late or not, control planes are reconciled now.
            let _ = tokio::time::timeout(RANGES, context.reserved_ranges.listed()).await;
            Ok::<_, WriterDropped>(())
        };
        tokio::select! {
            result = synced => result.context("list the kinds of covey.dev")?,
            () = shutdown.triggered() => return Ok(()),
        }
        tracing::info!("leads");
        context.cluster_bulkhead.resize(usize::from(concurrency));
        let all = controllers::run(&context, triggered, concurrency, &shutdown);
        let lost = context.leadership.lost();
        tokio::select! {
            () = all => Ok(()),
            () = lost => Err(anyhow::anyhow!("the Lease {LEASE} is lost; another replica leads")),
        }
    }
}

/// A TenantCluster changed, or went.
fn on_cluster(context: &Context, cluster: &TenantCluster, there: bool) {
    context.fleet_changed();
    context.clusters_changed.notify_one();
    if !there {
        let own = cluster.metadata.uid.as_deref().unwrap_or_default();
        let uid = cluster.identity_uid();
        context.forget_identity(cluster);
        context.give_back(&cluster.namespace().unwrap_or_default(), own);
        context.throttle.forget(&state::key_of(cluster), uid);
    }
    if context.leadership.is_leader() {
        let (triggers, stores) = (&context.triggers, &context.stores);
        context.throttle.call(&state::key_of(cluster));
        triggers.on_cluster(stores, cluster, there);
        triggers.all_policies(stores);
        granted_elsewhere(context, cluster);
        if there && backups::concerns(cluster) {
            // Sending fails only once the controllers have ended.
            let _ = triggers.backups.send(ObjectRef::from_obj(cluster));
        }
        if !there {
            context.trigger_without_ranges();
        }
    }
}

/// A node pool changed, or went.
fn on_pool(context: &Context, pool: &NodePool, there: bool) {
    if !context.leadership.is_leader() {
        return;
    }
    if !there {
        let uid = pool.uid().unwrap_or_default();
        context.pool_state.forget(&state::key_of(pool), &uid);
        context.capacity.forget(&ObjectRef::from_obj(pool));
        context.give_back(&pool.namespace().unwrap_or_default(), &uid);
    }
    context.triggers.on_pool(&context.stores, pool, there);
    granted_elsewhere(context, pool);
}

/// Where replicas share the work, one may have granted what another one counts.
fn granted_elsewhere(context: &Context, object: &impl ResourceExt) {
    if context.shards.is_shared() {
        context.trigger_quotas(&object.namespace().unwrap_or_default());
    }
}

/// A TenantQuota changed, or went.
fn on_quota(context: &Context, quota: &TenantQuota, there: bool) {
    if !context.leadership.is_leader() {
        return;
    }
    if there {
        // Sending fails only once the controllers have ended.
        let _ = context.triggers.quotas.send(ObjectRef::from_obj(quota));
        if context.shards.is_shared() {
            // Another replica writes of them; who was refused by this one is triggered here.
            context.trigger_refused(quota);
        }
    } else {
        let uid = quota.uid().unwrap_or_default();
        context.quota_state.forget(&state::key_of(quota), &uid);
        context.trigger_refused(quota);
    }
}

/// A Host changed, or went.
fn on_host(context: &Context, host: &Host, there: bool) {
    if !context.leadership.is_leader() {
        return;
    }
    if !there {
        let uid = host.uid().unwrap_or_default();
        context.host_state.forget(&state::key_of(host), &uid);
        context.hosts.forget(&uid);
    }
    context.triggers.on_host(&context.stores, host, there);
}

/// A ProviderConfig changed, or went.
fn on_config(context: &Context, config: &ProviderConfig, there: bool) {
    if !there {
        let uid = config.uid().unwrap_or_default();
        context.config_state.forget(&state::key_of(config), &uid);
        context.credentials.forget(&uid);
        let namespace = config.namespace().unwrap_or_default();
        context.clouds.forget(&namespace, &config.name_any());
    }
    if context.leadership.is_leader() {
        context.triggers.on_config(&context.stores, config, there);
    }
}

/// A BackupTarget changed, or went.
fn on_target(context: &Context, target: &BackupTarget, there: bool) {
    if !context.leadership.is_leader() {
        return;
    }
    if there {
        // Sending fails only once the controllers have ended.
        let _ = context.triggers.targets.send(ObjectRef::from_obj(target));
    } else {
        let uid = target.uid().unwrap_or_default();
        context.target_state.forget(&state::key_of(target), &uid);
    }
    context.triggers.on_target(&context.stores, target);
}

/// A Snapshot changed, or went.
fn on_snapshot(context: &Context, snapshot: &Snapshot, there: bool) {
    if !context.leadership.is_leader() {
        return;
    }
    // An upgrade may wait for it.
    let namespace = snapshot.namespace().unwrap_or_default();
    let cluster = ObjectRef::new(&snapshot.spec.cluster_name).within(&namespace);
    let found = context.stores.clusters.get(&cluster);
    let settings = &context.settings;
    let is_upgraded = |cluster: Arc<TenantCluster>| {
        let cluster = TenantCluster::clone(&cluster);
        let (cluster, _) = patches::taken(cluster, None, settings, Timestamp::now());
        versions::wanted(&cluster).is_some()
    };
    if found.is_some_and(is_upgraded) {
        let _ = context.triggers.clusters.send(cluster);
    }
    if there {
        // Sending fails only once the controllers have ended.
        let _ = context
            .triggers
            .snapshots
            .send(ObjectRef::from_obj(snapshot));
    } else {
        let uid = snapshot.uid().unwrap_or_default();
        context
            .snapshot_state
            .forget(&state::key_of(snapshot), &uid);
    }
}

/// An AccessGrant changed, or went.
fn on_access_grant(context: &Context, grant: &AccessGrant, there: bool) {
    if !context.leadership.is_leader() {
        return;
    }
    if there {
        // Sending fails only once the controllers have ended.
        let _ = context
            .triggers
            .access_grants
            .send(ObjectRef::from_obj(grant));
    } else {
        let uid = grant.uid().unwrap_or_default();
        context
            .access_grant_state
            .forget(&state::key_of(grant), &uid);
    }
}

/// A Restore changed, or went.
fn on_restore(context: &Context, restore: &Restore, there: bool) {
    if !context.leadership.is_leader() {
        return;
    }
    if !restore.spec.dry_run {
        // It is confirmed, or gone.
        let namespace = restore.namespace().unwrap_or_default();
        let cluster = ObjectRef::new(&restore.spec.cluster_name).within(&namespace);
        let _ = context.triggers.clusters.send(cluster);
    }
    if there {
        // Sending fails only once the controllers have ended.
        let _ = context.triggers.restores.send(ObjectRef::from_obj(restore));
    } else {
        let uid = restore.uid().unwrap_or_default();
        context.restore_state.forget(&state::key_of(restore), &uid);
    }
}

/// A FleetPolicy changed, or went.
fn on_policy(context: &Context, policy: &FleetPolicy, there: bool) {
    context.fleet_changed();
    if !context.leadership.is_leader() {
        return;
    }
    if !there {
        let uid = policy.uid().unwrap_or_default();
        let key = state::key_of(policy);
        context.policy_state.forget(&key, &uid);
        // Who waited for it stays as it is; another policy may be the one that is followed.
        context.renew_gate(Timestamp::now());
    }
    context.triggers.all_policies(&context.stores);
}

/// What is published of Machines changed, or went.
fn on_addresses(context: &Context, addresses: &MachineAddresses, there: bool) {
    if context.leadership.is_leader() {
        let (triggers, stores) = (&context.triggers, &context.stores);
        triggers.on_addresses(stores, addresses, there);
    }
}

/// A Machine changed, or went.
fn on_machine(context: &Context, machine: &Machine, there: bool) {
    if !context.leadership.is_leader() {
        return;
    }
    if !there {
        let uid = machine.uid().unwrap_or_default();
        context.machine_state.forget(&state::key_of(machine), &uid);
        context.creations.forget(&uid);
        context.cloud_limits.forget(&uid);
    }
    context.triggers.on_machine(&context.stores, machine, there);
}
