//! Triggers: what makes TenantClusters, NodePools, Machines, TenantQuotas, Hosts, BackupTargets, Snapshots,
//! Restores, ProviderConfigs, FleetPolicies, AccessGrants and tenant namespaces be reconciled again.
//!
//! Invariant: a change of a TenantCluster triggers its pools and Machines only when it is one that they
//! read, so the status of a busy control plane costs them nothing. Long because every kind has its channel here.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use api::condition::is_true;
use api::tenant_cluster::UpgradePhase;
use api::{
    AccessGrant, BackupTarget, ConditionType, FleetPolicy, Host, Machine, MachineAddresses,
    NodePool, ProviderConfig, Reason, Restore, Snapshot, TenantCluster, TenantClusterStatus,
    TenantQuota,
};
use ipnet::IpNet;
use jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use provider_static::life::choose::is_of;
use tenant_cp::network;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::access;
use crate::exclusions;
use crate::hibernation;
use crate::orphans::TenantNamespace;
use crate::rotation::kubelets;
use crate::stores::Stores;

mod overlay;

/// The senders. Sending fails only once the controllers have ended, and then nobody needs waking.
pub struct Triggers {
    /// TenantClusters.
    pub clusters: UnboundedSender<ObjectRef<TenantCluster>>,
    /// NodePools.
    pub pools: UnboundedSender<ObjectRef<NodePool>>,
    /// NodePools of which Machines or the status changed; throttled.
    pub changed_pools: UnboundedSender<ObjectRef<NodePool>>,
    /// Machines.
    pub machines: UnboundedSender<ObjectRef<Machine>>,
    /// TenantQuotas of which something changed, or what their namespaces take; throttled.
    pub quotas: UnboundedSender<ObjectRef<TenantQuota>>,
    /// Hosts.
    pub hosts: UnboundedSender<ObjectRef<Host>>,
    /// BackupTargets.
    pub targets: UnboundedSender<ObjectRef<BackupTarget>>,
    /// Snapshots.
    pub snapshots: UnboundedSender<ObjectRef<Snapshot>>,
    /// Restores.
    pub restores: UnboundedSender<ObjectRef<Restore>>,
    /// ProviderConfigs.
    pub configs: UnboundedSender<ObjectRef<ProviderConfig>>,
    /// FleetPolicies of which something changed, or any TenantCluster; throttled.
    pub policies: UnboundedSender<ObjectRef<FleetPolicy>>,
    /// AccessGrants.
    pub access_grants: UnboundedSender<ObjectRef<AccessGrant>>,
    /// TenantClusters whose backup is to be cared for; throttled.
    pub backups: UnboundedSender<ObjectRef<TenantCluster>>,
    /// Tenant namespaces, of themselves or because their TenantCluster is gone.
    pub namespaces: UnboundedSender<ObjectRef<TenantNamespace>>,
    /// What was last seen of each TenantCluster.
    seen: Mutex<HashMap<ObjectRef<TenantCluster>, Facts>>,
    /// Which TenantClusters, by UID, were last seen to have workers, and a pool of which a location may be lost.
    with_workers: Mutex<HashMap<String, (bool, bool)>>,
    /// What overlays were last told of Machines and Hosts, by UID; of those of which they are told anything.
    members: Mutex<HashMap<String, String>>,
}

/// The receivers, for the controllers.
pub struct Triggered {
    /// TenantClusters.
    pub clusters: UnboundedReceiver<ObjectRef<TenantCluster>>,
    /// NodePools.
    pub pools: UnboundedReceiver<ObjectRef<NodePool>>,
    /// NodePools, to be throttled.
    pub changed_pools: UnboundedReceiver<ObjectRef<NodePool>>,
    /// Machines.
    pub machines: UnboundedReceiver<ObjectRef<Machine>>,
    /// TenantQuotas, to be throttled.
    pub quotas: UnboundedReceiver<ObjectRef<TenantQuota>>,
    /// Hosts.
    pub hosts: UnboundedReceiver<ObjectRef<Host>>,
    /// BackupTargets.
    pub targets: UnboundedReceiver<ObjectRef<BackupTarget>>,
    /// Snapshots.
    pub snapshots: UnboundedReceiver<ObjectRef<Snapshot>>,
    /// Restores.
    pub restores: UnboundedReceiver<ObjectRef<Restore>>,
    /// ProviderConfigs.
    pub configs: UnboundedReceiver<ObjectRef<ProviderConfig>>,
    /// FleetPolicies, to be throttled.
    pub policies: UnboundedReceiver<ObjectRef<FleetPolicy>>,
    /// AccessGrants.
    pub access_grants: UnboundedReceiver<ObjectRef<AccessGrant>>,
    /// TenantClusters whose backup is to be cared for, to be throttled.
    pub backups: UnboundedReceiver<ObjectRef<TenantCluster>>,
    /// Tenant namespaces.
    pub namespaces: UnboundedReceiver<ObjectRef<TenantNamespace>>,
}

impl Triggers {
    /// Nothing is triggered yet.
    #[must_use]
    pub fn new() -> (Self, Triggered) {
        let (clusters, triggered_clusters) = mpsc::unbounded_channel();
        let (pools, triggered_pools) = mpsc::unbounded_channel();
        let (changed_pools, triggered_changed_pools) = mpsc::unbounded_channel();
        let (machines, triggered_machines) = mpsc::unbounded_channel();
        let (quotas, triggered_quotas) = mpsc::unbounded_channel();
        let (hosts, triggered_hosts) = mpsc::unbounded_channel();
        let (targets, triggered_targets) = mpsc::unbounded_channel();
        let (snapshots, triggered_snapshots) = mpsc::unbounded_channel();
        let (restores, triggered_restores) = mpsc::unbounded_channel();
        let (configs, triggered_configs) = mpsc::unbounded_channel();
        let (policies, triggered_policies) = mpsc::unbounded_channel();
        let (access_grants, triggered_access_grants) = mpsc::unbounded_channel();
        let (backups, triggered_backups) = mpsc::unbounded_channel();
        let (namespaces, triggered_namespaces) = mpsc::unbounded_channel();
        let triggers = Self {
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
            seen: Mutex::default(),
            with_workers: Mutex::default(),
            members: Mutex::default(),
        };
        let triggered = Triggered {
            clusters: triggered_clusters,
            pools: triggered_pools,
            changed_pools: triggered_changed_pools,
            machines: triggered_machines,
            quotas: triggered_quotas,
            hosts: triggered_hosts,
            targets: triggered_targets,
            snapshots: triggered_snapshots,
            restores: triggered_restores,
            configs: triggered_configs,
            policies: triggered_policies,
            access_grants: triggered_access_grants,
            backups: triggered_backups,
            namespaces: triggered_namespaces,
        };
        (triggers, triggered)
    }

    /// Everything that there is of the namespaces that `is_mine` says (what has none is of the empty one): at the start of the
    /// controllers, and when work comes to this replica.
    pub fn all(&self, stores: &Stores, is_mine: impl Fn(&str) -> bool) {
        /// All of a kind.
        fn send<K>(
            to: &[&UnboundedSender<ObjectRef<K>>],
            all: &Store<K>,
            is_mine: impl Fn(&str) -> bool,
        ) where
            K: Resource<DynamicType = ()> + Clone + 'static,
        {
            for object in all.state() {
                if is_mine(object.meta().namespace.as_deref().unwrap_or_default()) {
                    for to in to {
                        let _ = to.send(ObjectRef::from_obj(&*object));
                    }
                }
            }
        }
        send(&[&self.clusters, &self.backups], &stores.clusters, &is_mine);
        send(&[&self.pools], &stores.pools, &is_mine);
        send(&[&self.machines], &stores.machines, &is_mine);
        send(&[&self.quotas], &stores.quotas, &is_mine);
        send(&[&self.hosts], &stores.hosts, &is_mine);
        send(&[&self.targets], &stores.targets, &is_mine);
        send(&[&self.snapshots], &stores.snapshots, &is_mine);
        send(&[&self.restores], &stores.restores, &is_mine);
        send(&[&self.configs], &stores.configs, &is_mine);
        send(&[&self.policies], &stores.policies, &is_mine);
        send(&[&self.access_grants], &stores.access_grants, &is_mine);
    }

    /// All FleetPolicies: how far tenant clusters are changed, or which of the policies is followed.
    pub fn all_policies(&self, stores: &Stores) {
        for policy in stores.policies.state() {
            let _ = self.policies.send(ObjectRef::from_obj(&*policy));
        }
    }

    /// A TenantCluster came or went, or its backup did: its Snapshots and Restores.
    fn on_backup_of(&self, stores: &Stores, cluster: &TenantCluster) {
        let (name, namespace) = (cluster.name_any(), cluster.namespace());
        for snapshot in stores.snapshots.state() {
            if snapshot.spec.cluster_name == name && snapshot.namespace() == namespace {
                let _ = self.snapshots.send(ObjectRef::from_obj(&*snapshot));
            }
        }
        for restore in stores.restores.state() {
            if restore.spec.cluster_name == name && restore.namespace() == namespace {
                let _ = self.restores.send(ObjectRef::from_obj(&*restore));
            }
        }
    }

    /// A TenantCluster changed, came or went: those of its AccessGrants to which that makes a difference.
    fn on_access_to(&self, stores: &Stores, cluster: &TenantCluster, there: bool) {
        for grant in stores.access_grants.state() {
            if access::is_of(&grant, cluster) && (!there || access::is_concerned(&grant, cluster)) {
                let _ = self.access_grants.send(ObjectRef::from_obj(&*grant));
            }
        }
    }

    /// A BackupTarget changed, or went: the backups that go there.
    pub fn on_target(&self, stores: &Stores, target: &BackupTarget) {
        let name = target.name_any();
        for cluster in stores.clusters.state() {
            if cluster
                .spec
                .backup
                .as_ref()
                .is_some_and(|backup| backup.target == name)
            {
                let _ = self.backups.send(ObjectRef::from_obj(&*cluster));
            }
        }
    }

    /// A ProviderConfig changed, or went: triggers it where its spec did, and the Machines that wait for it.
    pub fn on_config(&self, stores: &Stores, config: &ProviderConfig, there: bool) {
        let status = config.status.as_ref();
        let seen = status.and_then(|status| status.observed_generation);
        let is_changed = seen.is_none() || seen != config.metadata.generation;
        if there && (is_changed || is_answered(config)) {
            let _ = self.configs.send(ObjectRef::from_obj(config));
        }
        let (name, namespace) = (config.name_any(), config.namespace());
        for machine in stores.machines.state() {
            let status = machine.status.as_ref();
            let has_joined = status.is_some_and(|status| status.node_name.is_some());
            let is_going = machine.metadata.deletion_timestamp.is_some();
            if machine.spec.provider.config_name() == Some(&name)
                && machine.namespace() == namespace
                && (is_going || !has_joined)
            {
                let _ = self.machines.send(ObjectRef::from_obj(&*machine));
            }
        }
        let pools = stores.pools.state();
        for pool in pools
            .iter()
            .filter(|pool| exclusions::is_news(pool, config))
        {
            let _ = self.changed_pools.send(ObjectRef::from_obj(&**pool));
        }
    }

    /// A TenantCluster changed: ProviderConfigs beside it whose credentials the operator may read by now.
    fn on_credentials(&self, stores: &Stores, cluster: &TenantCluster) {
        for config in stores.configs.state() {
            let conditions = config.status.as_ref().map(|s| s.conditions.as_slice());
            let is_ready = is_true(conditions.unwrap_or_default(), ConditionType::Ready);
            if config.namespace() == cluster.namespace() && !is_ready {
                let _ = self.configs.send(ObjectRef::from_obj(&*config));
            }
        }
    }

    /// A Host changed, or went: triggers it, and where it went those that were refused as its duplicates; and the
    /// Machines to which it makes a difference.
    pub fn on_host(&self, stores: &Stores, host: &Host, there: bool) {
        self.on_inventory(stores, host);
        self.on_running_node(stores, host);
        self.on_endpoint(stores, host, there);
        if there {
            let _ = self.hosts.send(ObjectRef::from_obj(host));
            return;
        }
        for other in stores.hosts.state() {
            let mut conditions = other.status.iter().flat_map(|status| &status.conditions);
            if conditions.any(|condition| condition.reason == Reason::Duplicate) {
                let _ = self.hosts.send(ObjectRef::from_obj(&*other));
            }
        }
    }

    /// A node that runs there may be taken over: the pools of its namespace that have Hosts.
    fn on_running_node(&self, stores: &Stores, host: &Host) {
        let status = host.status.as_ref();
        if !host.spec.adopt || status.is_some_and(|status| status.claim.is_some()) {
            return;
        }
        for pool in stores.pools.state() {
            let places = pool.spec.places();
            if pool.namespace() == host.namespace()
                && places.iter().any(|place| place.provider.static_.is_some())
            {
                let _ = self.changed_pools.send(ObjectRef::from_obj(&*pool));
            }
        }
    }

    /// The Machine that has a Host. Of one that nobody has: those of its namespace that wait for one, or that go and
    /// may have had it until now.
    fn on_inventory(&self, stores: &Stores, host: &Host) {
        let namespace = host.namespace().unwrap_or_default();
        let status = host.status.as_ref();
        if let Some(claim) = status.and_then(|status| status.claim.as_ref()) {
            let machine = ObjectRef::new(&claim.machine_name).within(&namespace);
            let _ = self.machines.send(machine);
            return;
        }
        for machine in stores.machines.state() {
            let status = machine.status.as_ref();
            let has_joined = status.is_some_and(|status| status.node_name.is_some());
            let is_going = machine.metadata.deletion_timestamp.is_some();
            if machine.spec.provider.static_.is_some()
                && machine.namespace().as_ref() == Some(&namespace)
                && (is_going || !has_joined)
            {
                let _ = self.machines.send(ObjectRef::from_obj(&*machine));
            }
        }
    }

    /// A TenantCluster changed, or went: triggers it, and its pools and Machines if it is of interest
    /// to them; where it went also the Hosts of its namespace, to which it may have left the operator's binding.
    pub fn on_cluster(&self, stores: &Stores, cluster: &TenantCluster, there: bool) {
        let key = ObjectRef::from_obj(cluster);
        let now = match there {
            true => Facts::of(cluster),
            false => Facts::default(),
        };
        if there {
            let _ = self.clusters.send(key.clone());
        } else {
            let known = &self.with_workers;
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.remove(cluster.identity_uid());
            let namespace = cluster.tenant_namespace();
            let _ = self.namespaces.send(ObjectRef::new(&namespace));
            for host in stores.hosts.state() {
                if host.namespace() == cluster.namespace() {
                    let _ = self.hosts.send(ObjectRef::from_obj(&*host));
                }
            }
        }
        let before = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            match there {
                true => seen.insert(key, now.clone()),
                false => seen.remove(&key),
            }
            .unwrap_or_default()
        };
        self.on_access_to(stores, cluster, there);
        if now == before && there {
            return;
        }
        self.on_backup_of(stores, cluster);
        self.on_credentials(stores, cluster);
        let (namespace, name) = (cluster.namespace(), cluster.name_any());
        for pool in stores.pools.state() {
            if pool.namespace() == namespace && pool.spec.cluster_name == name {
                let _ = self.pools.send(ObjectRef::from_obj(&*pool));
            }
        }
        if there && !now.matter_to_machines(&before) {
            return;
        }
        for machine in stores.machines.state() {
            if machine.namespace() == namespace && machine.spec.cluster_name == name {
                let _ = self.machines.send(ObjectRef::from_obj(&*machine));
            }
        }
    }

    /// A NodePool changed, or went.
    pub fn on_pool(&self, stores: &Stores, pool: &NodePool, there: bool) {
        if there {
            // Of a pool whose spec was reconciled it is most often the status that changed, by our own
            // hand: reconciled once more at once, it would be written again for each Machine that
            // changed meanwhile.
            let known = pool.status.as_ref().and_then(|s| s.observed_generation);
            let sender = match known.is_some() && known == pool.metadata.generation {
                true => &self.changed_pools,
                false => &self.pools,
            };
            let _ = sender.send(ObjectRef::from_obj(pool));
        }
        self.on_workers(stores, pool.namespace(), &pool.spec.cluster_name);
    }

    /// A Machine changed, or went.
    pub fn on_machine(&self, stores: &Stores, machine: &Machine, there: bool) {
        let namespace = machine.namespace().unwrap_or_default();
        if there {
            let _ = self.machines.send(ObjectRef::from_obj(machine));
        }
        let pool = ObjectRef::new(&machine.spec.pool_name).within(&namespace);
        let _ = self.changed_pools.send(pool);
        self.on_member(stores, machine, there);
        self.on_node(stores, machine);
        if machine.spec.provider.static_.is_some() {
            let uid = machine.uid().unwrap_or_default();
            for host in stores.hosts.state() {
                if is_of(&host, &uid) {
                    let _ = self.hosts.send(ObjectRef::from_obj(&*host));
                }
            }
        }
        if !there {
            self.on_workers(stores, machine.namespace(), &machine.spec.cluster_name);
        }
        if !there || kubelets::renewed(machine).is_some() {
            self.on_kubelet(stores, machine);
        }
        self.on_user_of_config(stores, machine, there);
    }

    /// A rotation may wait for whom the kubelet of a Machine that went, or was told in place, had its certificate from.
    fn on_kubelet(&self, stores: &Stores, machine: &Machine) {
        let namespace = machine.namespace().unwrap_or_default();
        let cluster = ObjectRef::new(&machine.spec.cluster_name).within(&namespace);
        let found = stores.clusters.get(&cluster);
        if found.is_some_and(|found| kubelets::are_awaited(&found)) {
            let _ = self.clusters.send(cluster);
        }
    }

    /// The ProviderConfig of a Machine of a cloud, where it is kept for nobody yet, or was for this one. Not at each
    /// Machine: whoever looks after it asks the cloud.
    fn on_user_of_config(&self, stores: &Stores, machine: &Machine, there: bool) {
        let Some(name) = machine.spec.provider.config_name() else {
            return;
        };
        let namespace = machine.namespace().unwrap_or_default();
        let key = ObjectRef::<ProviderConfig>::new(name).within(&namespace);
        let Some(config) = stores.configs.get(&key) else {
            return;
        };
        let status = config.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice());
        let is_kept = is_true(conditions.unwrap_or_default(), ConditionType::InUse);
        let machines = || stores.machines.state();
        let has_others = || {
            machines().iter().any(|other| {
                other.spec.provider.config_name() == Some(name)
                    && other.namespace() == machine.namespace()
                    && other.uid() != machine.uid()
            })
        };
        let is_going = config.metadata.deletion_timestamp.is_some();
        let is_of_interest = match there {
            true => !is_kept,
            false => is_going || !has_others(),
        };
        if is_of_interest {
            let _ = self.configs.send(key);
        }
    }

    /// Nodes that are lost while an upgrade goes on end it.
    fn on_node(&self, stores: &Stores, machine: &Machine) {
        use UpgradePhase::{Finalizing, Rolling, Soaking};
        let namespace = machine.namespace().unwrap_or_default();
        let cluster = ObjectRef::new(&machine.spec.cluster_name).within(&namespace);
        let found = stores.clusters.get(&cluster);
        let status = found.as_ref().and_then(|found| found.status.as_ref());
        let upgrade = status.and_then(|status| status.upgrade.as_ref());
        if upgrade.is_some_and(|upgrade| matches!(upgrade.phase, Rolling | Soaking | Finalizing)) {
            let _ = self.clusters.send(cluster);
        }
    }

    /// What is published of the Machines of a tenant cluster changed, or went: triggers those of which it is
    /// not what is known of them.
    pub fn on_addresses(&self, stores: &Stores, addresses: &MachineAddresses, there: bool) {
        let published = match there {
            true => addresses.by_machine(),
            false => BTreeMap::new(),
        };
        for machine in stores.machines.state() {
            let spec = &machine.spec;
            let home = machine.tenant_namespace();
            let status = machine.status.as_ref();
            let known = status.map(|status| status.addresses.as_slice());
            let known = known.unwrap_or_default().iter().map(|known| &known.address);
            if addresses.namespace() != Some(home) {
                continue;
            }
            if spec.provider.kubevirt.is_none() {
                let is_told = there && addresses.spec.machines.contains_key(&machine.name_any());
                let has_id = status.is_some_and(|status| status.provider_id.is_some());
                if has_id && !is_told {
                    let _ = self.machines.send(ObjectRef::from_obj(&*machine));
                }
                continue;
            }
            let published = published.get(&machine.name_any());
            let published = published.iter().flat_map(|of_it| &of_it.addresses);
            if known.clone().next().is_some()
                && !known.cloned().eq(published.map(ToString::to_string))
            {
                let _ = self.machines.send(ObjectRef::from_obj(&*machine));
            }
        }
    }

    /// Whether a tenant cluster has workers decides what is watched inside it.
    fn on_workers(&self, stores: &Stores, namespace: Option<String>, name: &str) {
        let key = ObjectRef::new(name).within(namespace.as_deref().unwrap_or_default());
        let Some(cluster) = stores.clusters.get(&key) else {
            return;
        };
        let has = (stores.has_workers(&cluster), stores.has_failover(&cluster));
        let known = &self.with_workers;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.insert(cluster.identity_uid().to_owned(), has) != Some(has) {
            let _ = self.clusters.send(key);
        }
    }
}

/// What pools and Machines read of a TenantCluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Facts {
    uid: Option<String>,
    going: bool,
    paused: bool,
    answers: bool,
    version: Option<String>,
    autoscaler: bool,
    /// Addresses of its nodes in the overlay.
    overlay: Option<IpNet>,
    backup: bool,
    /// UID of the Restore that holds it, and whether that is about to be over.
    restore: Option<(String, bool, bool)>,
    /// Whether its pools have no machines because it sleeps, and its backup no pod.
    sleeps: (bool, bool),
    /// Machines that were made before are replaced.
    replaced_before: Option<Timestamp>,
    /// Kubelets of machines that were made before are told in place.
    renewed_before: Option<Timestamp>,
}

/// A person has said that what was kept back is nobody's.
fn is_answered(config: &ProviderConfig) -> bool {
    let mut conditions = config.status.iter().flat_map(|s| &s.conditions);
    config.confirmed_until().is_some() && conditions.any(|c| c.reason == Reason::LeaksHeld)
}

impl Facts {
    fn of(cluster: &TenantCluster) -> Self {
        let status = cluster.status.as_ref();
        Self {
            uid: Some(cluster.identity_uid().to_owned()),
            going: cluster.metadata.deletion_timestamp.is_some(),
            paused: cluster.spec.paused,
            answers: status
                .and_then(TenantClusterStatus::answers_since)
                .is_some(),
            version: status.and_then(|s| s.version.clone()),
            autoscaler: cluster.spec.addons.autoscaler.enabled,
            overlay: network::overlay::range(&cluster.spec.addons),
            backup: cluster.spec.backup.is_some(),
            restore: status
                .and_then(|status| status.restore.as_ref())
                .map(|restore| {
                    let is_given_up = restore.given_up.is_some();
                    (restore.uid.clone(), restore.prepared, is_given_up)
                }),
            sleeps: (
                hibernation::holds_machines(cluster),
                hibernation::holds_backup(cluster),
            ),
            replaced_before: kubelets::replaced_before(cluster),
            renewed_before: kubelets::renewed_before(cluster),
        }
    }

    /// Whether Machines have to be reconciled after `before`: an outage that begins costs none of
    /// them a reconcile.
    fn matter_to_machines(&self, before: &Self) -> bool {
        let rest = |facts: &Self| (facts.uid.clone(), facts.going, facts.paused, facts.overlay);
        self.answers && !before.answers || rest(self) != rest(before)
    }
}

#[cfg(test)]
mod tests;
