//! What was read, or why it was not.
//!
//! Invariant: a list is either whole or [`Known::Unknown`]; whoever could read only a part of it says that it is not
//! known. The time is a fact too.

use std::collections::BTreeMap;

use api::{
    AccessGrant, BackupTarget, FleetPolicy, Host, Machine, NodePool, ProviderConfig, Restore,
    Snapshot, TenantCluster, TenantQuota,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kit_objects::known::Known;

use crate::before::Before;
use crate::here::Here;
use crate::inside::Inside;

/// Why something is not known: the API refused to show it.
pub const NOT_ALLOWED: &str = "not allowed";
/// Why something is not known: nobody asked. It is what [`Known::default`] says.
pub const NOT_READ: &str = "it was not looked at";
/// Why something is not known: the API did not answer, or not in time.
pub const NO_ANSWER: &str = "no answer in time";
/// Why something is not known: there is more of it than is read.
pub const TOO_MANY: &str = "more than is read at once";

/// Everything that checks go by.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// When all of it was read.
    pub now: Timestamp,
    /// What was seen from where somebody asks.
    pub here: Here,
    /// Of a management cluster that is to have Covey; none where one is looked at that has it.
    pub before: Option<Before>,
    /// Of the management cluster.
    pub management: Management,
    /// The TenantClusters that are asked about.
    pub clusters: Known<Vec<TenantCluster>>,
    /// The NodePools of their namespaces.
    pub pools: Known<Vec<NodePool>>,
    /// The Machines of their namespaces.
    pub machines: Known<Vec<Machine>>,
    /// The Hosts of their namespaces.
    pub hosts: Known<Vec<Host>>,
    /// The Snapshots of their namespaces.
    pub snapshots: Known<Vec<Snapshot>>,
    /// The Restores of their namespaces.
    pub restores: Known<Vec<Restore>>,
    /// The AccessGrants of their namespaces.
    pub grants: Known<Vec<AccessGrant>>,
    /// The ProviderConfigs of their namespaces: accounts at clouds.
    pub provider_configs: Known<Vec<ProviderConfig>>,
    /// What was read of tenant namespaces, by their names; of others nothing is known.
    pub tenant_namespaces: BTreeMap<String, TenantNamespace>,
    /// What was read inside the one tenant cluster that is asked about.
    pub inside: Known<Inside>,
    /// What could not be read for want of rights: `list pods in covey-demo-0a1b2c3d11`.
    pub not_allowed: Vec<String>,
}

impl Facts {
    /// Whether a pool that is known has machines made by an account at a cloud.
    #[must_use]
    pub fn has_accounts(&self) -> bool {
        let mut pools = self.pools.as_ref().there().into_iter().flatten();
        pools.any(|pool| accounts(pool).next().is_some())
    }

    /// Whether a tenant cluster that is known waits for a FleetPolicy.
    #[must_use]
    pub fn has_held(&self) -> bool {
        let mut clusters = self.clusters.as_ref().there().into_iter().flatten();
        clusters.any(is_held)
    }
}

/// Names of the ProviderConfigs by which a pool's machines are made, as its spec has them.
pub fn accounts(pool: &NodePool) -> impl Iterator<Item = &str> {
    let providers = pool.spec.providers();
    providers
        .into_iter()
        .filter_map(|(_, provider)| provider.config_name())
}

/// Whether a tenant cluster waits for a FleetPolicy before it follows another version of the operator.
#[must_use]
pub fn is_held(cluster: &TenantCluster) -> bool {
    let status = cluster.status.as_ref();
    let rollout = status.and_then(|status| status.rollout.as_ref());
    rollout.is_some_and(|rollout| rollout.held)
}

/// What was read of the management cluster.
#[derive(Clone, Debug, Default)]
pub struct Management {
    /// What its API answered.
    pub api: ApiAnswer,
    /// How far its clock is ahead of the one here.
    pub clock_ahead: Known<SignedDuration>,
    /// Names of the kinds of `covey.dev` that are established and served: `tenantclusters.covey.dev`.
    pub definitions: Known<Vec<String>>,
    /// The operator's Deployment.
    pub operator: Known<Deployment>,
    /// Its pods.
    pub operator_pods: Known<Vec<Pod>>,
    /// Its Lease.
    pub lease: Known<Lease>,
    /// Covey's webhook.
    pub webhook: Known<ValidatingWebhookConfiguration>,
    /// Bindings of admission policies, Covey's and others'.
    pub policy_bindings: Known<Vec<ValidatingAdmissionPolicyBinding>>,
    /// All StorageClasses.
    pub storage_classes: Known<Vec<StorageClass>>,
    /// All TenantQuotas.
    pub quotas: Known<Vec<TenantQuota>>,
    /// All BackupTargets.
    pub backup_targets: Known<Vec<BackupTarget>>,
    /// All FleetPolicies.
    pub fleet_policies: Known<Vec<FleetPolicy>>,
}

/// What the management cluster's API answered.
#[derive(Clone, Debug, Default)]
pub enum ApiAnswer {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// Its version, as it writes it: `v1.35.4`.
    Version(String),
    /// It did not answer, or refused.
    Failed {
        /// What was wrong.
        what: String,
        /// The command or field that mends it.
        mend: String,
    },
}

/// What was read of one tenant namespace.
#[derive(Clone, Debug, Default)]
pub struct TenantNamespace {
    /// The namespace itself.
    pub object: Known<Namespace>,
    /// Its pods, without those of machines.
    pub pods: Known<Vec<Pod>>,
    /// Its claims.
    pub claims: Known<Vec<PersistentVolumeClaim>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asked_for_says_so() {
        let why = match Facts::default().clusters {
            Known::Unknown { why } => why,
            Known::Known(_) | Known::Absent => "",
        };
        assert_eq!(why, NOT_READ);
    }
}
