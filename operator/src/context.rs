//! Context of every reconcile: handles to what all of them share.
//!
//! Invariant: nothing in here decides anything about one tenant cluster, nothing in here has to
//! survive a restart, and nothing that is held here imports this.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::machine_addresses::{PublishedAddresses, RemoteMachine};
use api::tenant_cluster::NetworkStatus;
use api::{ConditionStatus, ConditionType, Machine, NodePool, Reason, TenantCluster, TenantQuota};
use ipnet::IpNet;
use jiff::Timestamp;
use kit::lease::Leadership;
use kube::runtime::reflector::ObjectRef;
use kube::{Client, ResourceExt};
use providers::Providers;
use tenant_cp::Settings;
use tenant_cp::amounts::Amounts;
use tenant_cp::network::reservations::Reservations;
use tenant_cp::network::{claims, overlay};
use tenant_cp::problem::Problem;
use tenant_cp::quota::exceeded::bounds;
use tenant_cp::quota::grants::{Claim, Grants};
use tokio::sync::Notify;

use crate::backups::Backups;
use crate::capacity::Capacity;
use crate::cloud_limits::CloudLimits;
use crate::clouds::Clouds;
use crate::creations::Creations;
use crate::endpoint_probes::EndpointProbes;
use crate::etcd_replacement::patience::Patience;
use crate::etcd_space::looks::EtcdLooks;
use crate::fleet::plan as fleet;
use crate::fleet::tenant::Tenant;
use crate::hibernation::idle::Looks;
use crate::host_sessions::Sessions;
use crate::kubevirt_release::KubeVirtRelease;
use crate::orphans::Orphans;
use crate::overlay::allotments::{Allotment, Allotments, known_address};
use crate::overlay::members::{self, Overlay};
use crate::publications::Publications;
use crate::reserved_ranges::ReservedRanges;
use crate::rewrites::Rewrites;
use crate::rollouts::queue::{Gate, RolloutQueue};
use crate::shards::Shards;
use crate::state::ControllerState;
use crate::stores::Stores;
use crate::tenant_session::api_probes::ApiProbes;
use crate::tenant_session::breaker::Breaker;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::bulkhead::{Bulkhead, Standings};
use crate::tenant_session::registry::Registry;
use crate::tenant_session::session::Dial;
use crate::throttle::Throttle;
use crate::triggers::Triggers;
use crate::watches::credentials::CredentialWatches;
use crate::watches::secrets::SecretWatches;
use crate::watches::virtual_machines::VmWatches;

/// Shared by all reconciles.
pub struct Context {
    /// Management API.
    pub client: Client,
    /// Configuration, as it was given. What is planned with are the settings in force
    /// ([`ReservedRanges::settings`]).
    pub settings: Settings,
    /// The management cluster's own ranges, and the settings in force with them.
    pub reserved_ranges: Arc<ReservedRanges>,
    /// Whether the management cluster's KubeVirt has published holes.
    pub kubevirt_release: Arc<KubeVirtRelease>,
    /// Fence of every write.
    pub leadership: Leadership,
    /// Which part of the work is this replica's.
    pub shards: Shards,
    /// All objects of our kinds, as last seen.
    pub stores: Stores,
    /// Asks for another reconcile.
    pub triggers: Triggers,
    /// Whether reconciles come to an end.
    pub progress: kit::admin::Progress,
    /// What is kept about TenantClusters.
    pub cluster_state: ControllerState,
    /// What is kept about node pools.
    pub pool_state: ControllerState,
    /// What is kept about Machines.
    pub machine_state: ControllerState,
    /// Which of their creations were refused.
    pub creations: Creations,
    /// Which of them were let by the limits of their ProviderConfig.
    pub cloud_limits: CloudLimits,
    /// Which addresses of them were published last.
    pub publications: Publications<PublishedAddresses>,
    /// What was published last of those that are no virtual machines of the management cluster.
    pub remote_publications: Publications<RemoteMachine>,
    /// What is kept about TenantQuotas.
    pub quota_state: ControllerState,
    /// What is kept about Hosts.
    pub host_state: ControllerState,
    /// What is kept about ProviderConfigs.
    pub config_state: ControllerState,
    /// What is kept about BackupTargets.
    pub target_state: ControllerState,
    /// What is kept about who cares for backups.
    pub backup_state: ControllerState,
    /// What is kept about Snapshots.
    pub snapshot_state: ControllerState,
    /// What is kept about Restores.
    pub restore_state: ControllerState,
    /// What is kept about FleetPolicies.
    pub policy_state: ControllerState,
    /// What is kept about AccessGrants.
    pub access_grant_state: ControllerState,
    /// What is known of backups.
    pub backups: Backups,
    /// What is done on their machines.
    pub hosts: Sessions,
    /// What is kept about tenant namespaces.
    pub namespace_state: ControllerState,
    /// Tenant namespaces whose TenantCluster is gone.
    pub orphans: Orphans,
    /// Pauses between reconciles of one TenantCluster.
    pub throttle: Throttle,
    /// Starts and rollouts under way and waiting.
    pub rollout_queue: RolloutQueue,
    /// Who of the fleet may begin, as it was decided last.
    pub fleet_gate: FleetGate,
    /// A TenantCluster changed, or went: as many as have since somebody waited for that.
    pub clusters_changed: Notify,
    /// Hash of the templates that tenant clusters are made from now.
    pub templates: String,
    /// Ranges decided in this process: the store may not show them yet.
    pub reservations: Mutex<Reservations>,
    /// Addresses in overlays that Machines were given in this process.
    pub allotments: Mutex<Allotments>,
    /// What quotas let tenant clusters and node pools take.
    pub grants: Mutex<Grants>,
    /// How tenants are reached.
    pub dial: Dial,
    /// How long one reconcile waits for one tenant: [`Budget::WAIT`], but where many operators share a
    /// machine that makes each of them slow.
    pub tenant_wait: Duration,
    /// How long something has to be so before a member of etcd is replaced.
    pub etcd_patience: Patience,
    /// How long a tenant cluster has to be Ready before an upgrade begins.
    pub upgrade_calm: Duration,
    /// Tenants whose API did not answer lately, by UID.
    pub breaker: Breaker,
    /// Tenants whose API answered at its Service and not at its published endpoint, by UID.
    pub endpoint_breaker: Breaker,
    /// Whether published endpoints let the operator in by which all nodes are silent.
    pub endpoint_probes: EndpointProbes,
    /// How tenants answered lately.
    pub standings: Standings,
    /// Places of the controller of TenantClusters that slow and silent tenants hold.
    pub cluster_bulkhead: Bulkhead,
    /// Those of the controller of Machines.
    pub machine_bulkhead: Bulkhead,
    /// First starts that are waited for.
    pub startup_probes: ApiProbes,
    /// Tenants whose API does not answer, or that no reconcile may ask now, and that are probed until they do.
    pub recovery_probes: Arc<ApiProbes>,
    /// Tenants whose API answered: clients, and what happens there.
    pub tenants: Registry,
    /// Looks at tenants' etcds.
    pub etcd_looks: EtcdLooks,
    /// Last looks at what uses tenants.
    pub usage_looks: Looks,
    /// How far Secrets of tenants were written again.
    pub rewrites: Rewrites,
    /// Tenant namespaces whose Secrets are watched.
    pub secrets: SecretWatches,
    /// Tenant namespaces whose virtual machines are watched.
    pub vms: VmWatches,
    /// Those of them that are clouds.
    pub clouds: Clouds,
    /// Secrets of ProviderConfigs that are watched.
    pub credentials: CredentialWatches,
    /// Who makes virtual machines.
    pub providers: Providers,
    /// What is left of the management cluster for machines.
    pub capacity: Arc<Capacity>,
}

/// Who of the fleet may begin, as it was decided last.
#[derive(Debug, Default)]
pub struct FleetGate {
    /// Counts what changed since the beginning.
    changes: AtomicU64,
    decided: Mutex<Option<Decided>>,
}

#[derive(Clone, Debug)]
struct Decided {
    changes: u64,
    running: BTreeSet<String>,
    again: Option<Timestamp>,
    gate: Gate,
}

impl FleetGate {
    fn lock(&self) -> MutexGuard<'_, Option<Decided>> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    /// What one reconcile may take of one tenant.
    #[must_use]
    pub fn budget(&self) -> Budget {
        Budget::waiting(self.tenant_wait)
    }

    /// The ranges of a TenantCluster, decided by one reconcile at a time, so that two that are
    /// created together are not given the same. `fresh`: nothing was made for it yet.
    ///
    /// # Errors
    /// Those of `tenant_cp::network::decide`.
    pub fn decide_network(
        &self,
        cluster: &TenantCluster,
        fresh: bool,
    ) -> Result<NetworkStatus, Problem> {
        let reservations = &self.reservations;
        let mut reservations = reservations.lock().unwrap_or_else(PoisonError::into_inner);
        let clusters = self.stores.clusters.state();
        let settings = self.reserved_ranges.settings();
        // Others that decide at the same moment take other ranges.
        let is_ours = |range: &IpNet| self.shards.owns(&range.to_string());
        let network = &settings.network;
        reservations.decide_ours(cluster, &clusters, network, fresh, &is_ours)
    }

    /// What a Machine may have in the overlay of its tenant cluster, decided by one reconcile at a time, so that
    /// no two get the same address; none where there is no overlay.
    pub fn decide_overlay(&self, cluster: &TenantCluster, machine: &Machine) -> Option<Allotment> {
        let range = overlay::range(&cluster.spec.addons)?;
        let is_given = machine
            .status
            .as_ref()
            .is_some_and(|status| status.overlay.is_some());
        let known = match is_given || machine.spec.provider.static_.is_none() {
            true => None,
            false => known_address(machine, &self.stores.hosts.state()),
        };
        let all = &self.allotments;
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        Some(all.decide(machine, &self.stores.machines.state(), &range, known))
    }

    /// The overlay of a tenant cluster; none where it has none.
    #[must_use]
    pub fn overlay_of(&self, cluster: &TenantCluster) -> Option<Overlay> {
        let range = overlay::range(&cluster.spec.addons)?;
        let uid = cluster.identity_uid();
        let stores = &self.stores;
        let (machines, hosts) = (stores.machines.state(), stores.hosts.state());
        Some(members::overlay(uid, &machines, &hosts, &range))
    }

    /// What a TenantCluster is to be told whose ranges an older one has, too.
    #[must_use]
    pub fn contested_network(&self, cluster: &TenantCluster) -> Option<Problem> {
        claims::contested(cluster, &self.stores.clusters.state())
    }

    /// What quotas say against what a TenantCluster asks for; asked by one reconcile at a time, so that
    /// two that are created together do not both get what is left.
    pub fn ask_quotas_for_cluster(&self, cluster: &TenantCluster) -> Vec<Problem> {
        self.ask_quotas(&Claim::of_cluster(cluster, &self.settings))
    }

    /// The same for a NodePool.
    pub fn ask_quotas_for_pool(&self, pool: &NodePool) -> Vec<Problem> {
        self.ask_quotas(&Claim::of_pool(pool))
    }

    fn ask_quotas(&self, claim: &Claim) -> Vec<Problem> {
        let mut grants = self.grants();
        let quotas = self.stores.quotas_of(&claim.namespace);
        if quotas.is_empty() {
            grants.forget(&claim.uid);
            return Vec::new();
        }
        let all = self.stores.claims(&quotas, &self.settings);
        self.forget_grants_of_others(&mut grants, &all);
        let answer = grants.ask(claim, &all, &quotas);
        drop(grants);
        if answer.changed {
            self.trigger_quotas(&claim.namespace);
        }
        answer.problems
    }

    /// What the namespaces of a quota were granted together.
    #[must_use]
    pub fn used_of(&self, quota: &Arc<TenantQuota>) -> Amounts {
        let all = self
            .stores
            .claims(std::slice::from_ref(quota), &self.settings);
        let mut grants = self.grants();
        self.forget_grants_of_others(&mut grants, &all);
        grants.used(quota, &all)
    }

    /// What another replica grants is read from statuses each time.
    fn forget_grants_of_others(&self, grants: &mut Grants, all: &[Claim]) {
        if self.shards.is_shared() {
            for claim in all.iter().filter(|c| !self.shards.owns(&c.namespace)) {
                grants.forget(&claim.uid);
            }
        }
    }

    /// Triggers whom a quota refused, where there may be room now.
    pub fn trigger_refused(&self, quota: &TenantQuota) {
        let grants = self.grants();
        let may_ask_again = |claim: &Claim| {
            let quotas = self.stores.quotas_of(&claim.namespace);
            let all = self.stores.claims(&quotas, &self.settings);
            grants.problems(claim, &all, &quotas).is_empty()
        };
        let is_refused = |namespace: Option<String>, uid: Option<String>| {
            bounds(quota, &namespace.unwrap_or_default())
                && grants.is_refused(&uid.unwrap_or_default())
        };
        for cluster in self.stores.clusters.state() {
            if is_refused(cluster.namespace(), cluster.uid())
                && may_ask_again(&Claim::of_cluster(&cluster, &self.settings))
            {
                let _ = self.triggers.clusters.send(ObjectRef::from_obj(&*cluster));
            }
        }
        for pool in self.stores.pools.state() {
            if is_refused(pool.namespace(), pool.uid()) && may_ask_again(&Claim::of_pool(&pool)) {
                let _ = self.triggers.pools.send(ObjectRef::from_obj(&*pool));
            }
        }
    }

    /// Triggers whoever has no address range: those of one that is gone are free.
    pub fn trigger_without_ranges(&self) {
        for cluster in self.stores.clusters.state() {
            if lacks_ranges(&cluster) {
                let _ = self.triggers.clusters.send(ObjectRef::from_obj(&*cluster));
            }
        }
    }

    /// What a TenantCluster or NodePool that is gone was granted is free.
    pub fn give_back(&self, namespace: &str, uid: &str) {
        self.grants().forget(uid);
        self.trigger_quotas(namespace);
    }

    /// Triggers the quotas that bound a user's namespace.
    pub fn trigger_quotas(&self, namespace: &str) {
        for quota in self.stores.quotas_of(namespace) {
            let _ = self.triggers.quotas.send(ObjectRef::from_obj(&*quota));
        }
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// UIDs of the TenantClusters that are this replica's work.
    #[must_use]
    pub fn own_cluster_uids(&self) -> Vec<String> {
        if !self.shards.is_shared() {
            return self.stores.cluster_uids();
        }
        let all = self.stores.clusters.state().into_iter();
        let own = all.filter(|c| self.shards.owns(&c.namespace().unwrap_or_default()));
        own.map(|c| c.identity_uid().to_owned()).collect()
    }

    /// Something of TenantClusters or FleetPolicies changed: who of the fleet may begin is decided anew when next asked for.
    pub fn fleet_changed(&self) {
        self.fleet_gate.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Who of the fleet may begin now: decided once after each change, however many ask.
    pub fn current_gate(&self, now: Timestamp) -> Gate {
        let changes = self.fleet_gate.changes.load(Ordering::SeqCst);
        let running = self.rollout_queue.fleet_running();
        let decided = self.fleet_gate.lock().clone();
        let decided = decided.filter(|decided| {
            let is_of_now = decided.again.is_none_or(|again| now < again);
            is_of_now && decided.changes == changes && decided.running == running
        });
        decided.map_or_else(|| self.renew_gate(now).gate, |decided| decided.gate)
    }

    /// Decides anew who of the fleet may begin, and gives what is decided.
    pub fn renew_gate(&self, now: Timestamp) -> fleet::Plan {
        // Before the stores are read: what changes meanwhile is decided anew.
        let changes = self.fleet_gate.changes.load(Ordering::SeqCst);
        let running = self.rollout_queue.fleet_running();
        let clusters = self.stores.clusters.state();
        let tenants: Vec<_> = clusters
            .iter()
            .map(|cluster| Tenant::of(cluster, &self.settings, now))
            .collect();
        let policy = self.stores.policy();
        let plan = fleet::plan(&fleet::Observed {
            policy: policy.as_deref(),
            tenants: &tenants,
            running: &running,
            templates: &self.templates,
            is_shared: self.shards.is_shared(),
            now,
        });
        self.rollout_queue.gate(plan.gate.clone());
        *self.fleet_gate.lock() = Some(Decided {
            changes,
            running,
            again: plan.again,
            gate: plan.gate.clone(),
        });
        plan
    }

    /// Triggers whoever may start now.
    pub fn trigger_next(&self) {
        let next = self.rollout_queue.next();
        for cluster in self.stores.clusters.state() {
            let uid = cluster.identity_uid();
            if next.iter().any(|n| n == uid) {
                // The receiver lives as long as the controller; without it nobody needs waking.
                let _ = self.triggers.clusters.send(ObjectRef::from_obj(&*cluster));
            }
        }
    }

    /// Forgets what was remembered of the parts of a TenantCluster that is gone, unless another one bears its identity.
    pub fn forget_identity(&self, cluster: &TenantCluster) {
        let all = self.stores.clusters.state();
        let is_borne = all.iter().any(|other| {
            other.identity_uid() == cluster.identity_uid()
                && other.metadata.uid != cluster.metadata.uid
        });
        if !is_borne {
            self.forget(cluster.identity_uid());
        }
    }

    /// Forgets what was remembered of the parts that bear this UID.
    pub fn forget(&self, uid: &str) {
        self.breaker.close(uid);
        self.endpoint_breaker.close(uid);
        self.endpoint_probes.forget(uid);
        self.standings.forget(uid);
        self.startup_probes.forget(uid);
        self.recovery_probes.forget(uid);
        self.tenants.forget(uid);
        self.etcd_looks.forget(uid);
        self.usage_looks.forget(uid);
        self.rewrites.forget(uid);
        self.secrets.forget(uid);
        self.vms.forget(uid);
        self.backups.forget(uid);
        if self.rollout_queue.done(uid) {
            self.trigger_next();
        }
    }
}

/// Whether it is said that its ranges are somebody's, or that none is left.
fn lacks_ranges(cluster: &TenantCluster) -> bool {
    let mut conditions = cluster.status.iter().flat_map(|s| &s.conditions);
    conditions.any(|condition| {
        let reasons = [Reason::AddressPoolExhausted, Reason::CIDROverlap];
        condition.type_ == ConditionType::Degraded.as_str()
            && condition.status == ConditionStatus::True.as_str()
            && reasons.iter().any(|reason| condition.reason == *reason)
    })
}
