//! Stores of our kinds: all TenantClusters, NodePools, Machines, TenantQuotas, Hosts, BackupTargets,
//! Snapshots, Restores, ProviderConfigs, FleetPolicies and AccessGrants as last seen, and questions to them.
//!
//! Invariant: what is decided on an answer from here can be decided anew; what cannot be undone is read
//! live. Who begins to lead decides nothing before everything was listed anew: until then a store may
//! be as old as its watch.

use std::net::IpAddr;
use std::sync::Arc;

use api::{
    AccessGrant, BackupTarget, FleetPolicy, Host, Machine, MachineAddresses, NodePool,
    ProviderConfig, Restore, Snapshot, TenantCluster, TenantQuota,
};
use kit::store::Relist;
use kube::ResourceExt;
use kube::runtime::reflector::store::{Writer, WriterDropped};
use kube::runtime::reflector::{self, Store};
use tenant_cp::Settings;
use tenant_cp::quota::exceeded::bounds;
use tenant_cp::quota::grants::Claim;

/// The stores.
pub struct Stores {
    /// All TenantClusters, as last seen.
    pub clusters: Store<TenantCluster>,
    /// All NodePools, as last seen.
    pub pools: Store<NodePool>,
    /// All Machines, as last seen.
    pub machines: Store<Machine>,
    /// Which addresses are published of Machines, as last seen.
    pub addresses: Store<MachineAddresses>,
    /// All TenantQuotas, as last seen.
    pub quotas: Store<TenantQuota>,
    /// All Hosts, as last seen.
    pub hosts: Store<Host>,
    /// All BackupTargets, as last seen.
    pub targets: Store<BackupTarget>,
    /// All Snapshots, as last seen.
    pub snapshots: Store<Snapshot>,
    /// All Restores, as last seen.
    pub restores: Store<Restore>,
    /// All ProviderConfigs, as last seen.
    pub configs: Store<ProviderConfig>,
    /// All FleetPolicies, as last seen.
    pub policies: Store<FleetPolicy>,
    /// All AccessGrants, as last seen.
    pub access_grants: Store<AccessGrant>,
    relists: Relists,
}

/// What fills them.
pub struct Writers {
    /// Of TenantClusters.
    pub clusters: Writer<TenantCluster>,
    /// Of NodePools.
    pub pools: Writer<NodePool>,
    /// Of Machines.
    pub machines: Writer<Machine>,
    /// Of published addresses.
    pub addresses: Writer<MachineAddresses>,
    /// Of TenantQuotas.
    pub quotas: Writer<TenantQuota>,
    /// Of Hosts.
    pub hosts: Writer<Host>,
    /// Of BackupTargets.
    pub targets: Writer<BackupTarget>,
    /// Of Snapshots.
    pub snapshots: Writer<Snapshot>,
    /// Of Restores.
    pub restores: Writer<Restore>,
    /// Of ProviderConfigs.
    pub configs: Writer<ProviderConfig>,
    /// Of FleetPolicies.
    pub policies: Writer<FleetPolicy>,
    /// Of AccessGrants.
    pub access_grants: Writer<AccessGrant>,
    /// Who asks each of them for a new list.
    pub relists: Relists,
}

/// Questions for new lists, by kind.
#[derive(Clone, Debug, Default)]
pub struct Relists {
    /// Of TenantClusters.
    pub clusters: Relist,
    /// Of NodePools.
    pub pools: Relist,
    /// Of Machines.
    pub machines: Relist,
    /// Of published addresses.
    pub addresses: Relist,
    /// Of TenantQuotas.
    pub quotas: Relist,
    /// Of Hosts.
    pub hosts: Relist,
    /// Of BackupTargets.
    pub targets: Relist,
    /// Of Snapshots.
    pub snapshots: Relist,
    /// Of Restores.
    pub restores: Relist,
    /// Of ProviderConfigs.
    pub configs: Relist,
    /// Of FleetPolicies.
    pub policies: Relist,
    /// Of AccessGrants.
    pub access_grants: Relist,
}

impl Stores {
    /// Stores that nothing fills yet.
    #[must_use]
    pub fn new() -> (Self, Writers) {
        let (clusters, write_clusters) = reflector::store();
        let (pools, write_pools) = reflector::store();
        let (machines, write_machines) = reflector::store();
        let (addresses, write_addresses) = reflector::store();
        let (quotas, write_quotas) = reflector::store();
        let (hosts, write_hosts) = reflector::store();
        let (targets, write_targets) = reflector::store();
        let (snapshots, write_snapshots) = reflector::store();
        let (restores, write_restores) = reflector::store();
        let (configs, write_configs) = reflector::store();
        let (policies, write_policies) = reflector::store();
        let (access_grants, write_access_grants) = reflector::store();
        let relists = Relists::default();
        let writers = Writers {
            clusters: write_clusters,
            pools: write_pools,
            machines: write_machines,
            addresses: write_addresses,
            quotas: write_quotas,
            hosts: write_hosts,
            targets: write_targets,
            snapshots: write_snapshots,
            restores: write_restores,
            configs: write_configs,
            policies: write_policies,
            access_grants: write_access_grants,
            relists: relists.clone(),
        };
        let stores = Self {
            clusters,
            pools,
            machines,
            addresses,
            quotas,
            hosts,
            targets,
            snapshots,
            restores,
            configs,
            policies,
            access_grants,
            relists,
        };
        (stores, writers)
    }

    /// Waits until everything has been listed once.
    ///
    /// # Errors
    /// When nothing fills a store any more.
    pub async fn wait_until_ready(&self) -> Result<(), WriterDropped> {
        self.clusters.wait_until_ready().await?;
        self.pools.wait_until_ready().await?;
        self.machines.wait_until_ready().await?;
        self.addresses.wait_until_ready().await?;
        self.quotas.wait_until_ready().await?;
        self.hosts.wait_until_ready().await?;
        self.targets.wait_until_ready().await?;
        self.snapshots.wait_until_ready().await?;
        self.restores.wait_until_ready().await?;
        self.configs.wait_until_ready().await?;
        self.policies.wait_until_ready().await?;
        self.access_grants.wait_until_ready().await
    }

    /// Lists everything anew, and waits for it.
    pub async fn relist(&self) {
        let Relists {
            clusters,
            pools,
            machines,
            addresses,
            quotas,
            hosts,
            targets,
            snapshots,
            restores,
            configs,
            policies,
            access_grants,
        } = &self.relists;
        let (clusters, pools, machines) = (clusters.now(), pools.now(), machines.now());
        let (addresses, quotas, hosts) = (addresses.now(), quotas.now(), hosts.now());
        let (targets, snapshots) = (targets.now(), snapshots.now());
        let (restores, configs, policies) = (restores.now(), configs.now(), policies.now());
        let access_grants = access_grants.now();
        futures::join!(
            clusters,
            pools,
            machines,
            addresses,
            quotas,
            hosts,
            targets,
            snapshots,
            restores,
            configs,
            policies,
            access_grants
        );
    }

    /// All TenantClusters but the one whose parts bear this UID.
    #[must_use]
    pub fn others(&self, uid: &str) -> Vec<Arc<TenantCluster>> {
        let all = self.clusters.state().into_iter();
        all.filter(|c| c.identity_uid() != uid).collect()
    }

    /// Hosts of a namespace that Machines have, by name and UID.
    #[must_use]
    pub fn claimed_hosts(&self, namespace: &str) -> Vec<(String, String)> {
        let all = self.hosts.state().into_iter();
        all.filter(|host| host.metadata.namespace.as_deref() == Some(namespace))
            .filter(|host| host.status.as_ref().is_some_and(|s| s.claim.is_some()))
            .filter_map(|host| Some((host.name_any(), host.uid()?)))
            .collect()
    }

    /// Machines of a tenant cluster whose nodes are known by their address in its overlay.
    #[must_use]
    pub fn nodes_in_overlay(&self, cluster_uid: &str) -> Vec<String> {
        let all = self.hosts.state().into_iter();
        let claims = all.filter_map(|host| host.status.as_ref()?.claim.clone());
        let its =
            claims.filter(|claim| claim.in_overlay && claim.tenant_cluster_uid == cluster_uid);
        let mut names: Vec<_> = its.map(|claim| claim.machine_name).collect();
        names.sort();
        names
    }

    /// Machines of a namespace that clouds make, by name and UID: they are deleted with credentials that stand there.
    #[must_use]
    pub fn cloud_machines(&self, namespace: &str) -> Vec<(String, String)> {
        let all = self.machines.state().into_iter();
        all.filter(|machine| machine.metadata.namespace.as_deref() == Some(namespace))
            .filter(|machine| machine.spec.provider.config_name().is_some())
            .filter_map(|machine| Some((machine.name_any(), machine.uid()?)))
            .collect()
    }

    /// Addresses of other Machines of the same tenant cluster that were made before this one, with their names.
    #[must_use]
    pub fn addresses_before(&self, machine: &Machine) -> Vec<(IpAddr, String)> {
        let order = |machine: &Machine| (machine.creation_timestamp(), machine.name_any());
        let own = order(machine);
        let is_before = |other: &Arc<Machine>| {
            other.spec.cluster_uid == machine.spec.cluster_uid
                && other.uid() != machine.uid()
                && order(other) < own
        };
        let all = self.machines.state().into_iter().filter(is_before);
        let of = |other: Arc<Machine>| {
            let known = other.status.iter().flat_map(|s| &s.addresses);
            let parsed = known.filter_map(|known| known.address.parse().ok());
            let named = parsed.map(|address| (address, other.name_any()));
            named.collect::<Vec<_>>()
        };
        all.flat_map(of).collect()
    }

    /// The FleetPolicy that is followed: the oldest one.
    #[must_use]
    pub fn policy(&self) -> Option<Arc<FleetPolicy>> {
        let all = self.policies.state().into_iter();
        all.min_by_key(|policy| policy.rank())
    }

    /// UIDs that the parts of all TenantClusters bear.
    #[must_use]
    pub fn cluster_uids(&self) -> Vec<String> {
        let all = self.clusters.state();
        all.iter().map(|c| c.identity_uid().to_owned()).collect()
    }

    /// The quotas that bound a user's namespace.
    #[must_use]
    pub fn quotas_of(&self, namespace: &str) -> Vec<Arc<TenantQuota>> {
        let all = self.quotas.state().into_iter();
        all.filter(|quota| bounds(quota, namespace)).collect()
    }

    /// What is asked for in the namespaces of these quotas.
    #[must_use]
    pub fn claims(&self, quotas: &[Arc<TenantQuota>], settings: &Settings) -> Vec<Claim> {
        let bounded = |namespace: Option<String>| {
            let namespace = namespace.unwrap_or_default();
            quotas.iter().any(|quota| bounds(quota, &namespace))
        };
        let clusters = self.clusters.state().into_iter();
        let clusters = clusters.filter(|cluster| bounded(cluster.namespace()));
        let pools = self.pools.state().into_iter();
        let pools = pools.filter(|pool| bounded(pool.namespace()));
        clusters
            .map(|cluster| Claim::of_cluster(&cluster, settings))
            .chain(pools.map(|pool| Claim::of_pool(&pool)))
            .collect()
    }

    /// Whether one of its node pools has several locations of which one may be lost.
    #[must_use]
    pub fn has_failover(&self, cluster: &TenantCluster) -> bool {
        let (namespace, name) = (cluster.namespace(), cluster.name_any());
        self.pools.state().iter().any(|pool| {
            let is_its = pool.namespace() == namespace && pool.spec.cluster_name == name;
            is_its && pool.spec.has_failover()
        })
    }

    /// Whether a TenantCluster has node pools, or Machines that outlive them.
    #[must_use]
    pub fn has_workers(&self, cluster: &TenantCluster) -> bool {
        let (namespace, name, uid) = (
            cluster.namespace(),
            cluster.name_any(),
            cluster.identity_uid(),
        );
        let pools = self.pools.state();
        let of =
            |pool: &Arc<NodePool>| pool.namespace() == namespace && pool.spec.cluster_name == name;
        let machines = || self.machines.state();
        pools.iter().any(of) || machines().iter().any(|m| m.spec.cluster_uid == uid)
    }
}
