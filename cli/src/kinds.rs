//! The kinds that `covey get` lists, and what people call them.
//!
//! Invariant: a name of kubectl (`tc`, `nodepools`) names the same kind here.

use api::{
    AccessGrant, BackupTarget, FleetPolicy, Host, Machine, NodePool, ProviderConfig, Restore,
    Snapshot, TenantCluster, TenantQuota,
};
use clap::ValueEnum;
use kube::core::ApiResource;

/// A kind of Covey.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Kind {
    /// Tenant clusters
    #[value(aliases = ["cluster", "tc", "tenantcluster", "tenantclusters"])]
    Clusters,
    /// Node pools
    #[value(aliases = ["pool", "np", "nodepool", "nodepools"])]
    Pools,
    /// Machines
    #[value(alias = "machine")]
    Machines,
    /// Hosts
    #[value(alias = "host")]
    Hosts,
    /// Snapshots
    #[value(aliases = ["snapshot", "snap"])]
    Snapshots,
    /// Restores
    #[value(alias = "restore")]
    Restores,
    /// Access grants
    #[value(aliases = ["grant", "ag", "accessgrant", "accessgrants"])]
    Grants,
    /// Backup targets
    #[value(aliases = ["backuptarget", "target", "targets"])]
    Backuptargets,
    /// Accounts at clouds
    #[value(aliases = ["providerconfig", "pc", "account", "accounts"])]
    Providerconfigs,
    /// Fleet policies
    #[value(aliases = ["fleetpolicy", "fp"])]
    Fleetpolicies,
    /// Quotas of tenants
    #[value(aliases = ["quota", "tenantquota", "tenantquotas"])]
    Quotas,
}

impl Kind {
    /// How the API calls it.
    pub(crate) fn resource(self) -> ApiResource {
        match self {
            Self::Clusters => ApiResource::erase::<TenantCluster>(&()),
            Self::Pools => ApiResource::erase::<NodePool>(&()),
            Self::Machines => ApiResource::erase::<Machine>(&()),
            Self::Hosts => ApiResource::erase::<Host>(&()),
            Self::Snapshots => ApiResource::erase::<Snapshot>(&()),
            Self::Restores => ApiResource::erase::<Restore>(&()),
            Self::Grants => ApiResource::erase::<AccessGrant>(&()),
            Self::Backuptargets => ApiResource::erase::<BackupTarget>(&()),
            Self::Providerconfigs => ApiResource::erase::<ProviderConfig>(&()),
            Self::Fleetpolicies => ApiResource::erase::<FleetPolicy>(&()),
            Self::Quotas => ApiResource::erase::<TenantQuota>(&()),
        }
    }

    /// Whether its objects are in namespaces.
    pub(crate) fn is_namespaced(self) -> bool {
        !matches!(
            self,
            Self::Backuptargets | Self::Fleetpolicies | Self::Quotas
        )
    }
}

/// `tenantcluster.covey.dev/demo`.
pub(crate) fn name_of(resource: &ApiResource, name: &str) -> String {
    format!("{}.{}/{name}", resource.kind.to_lowercase(), resource.group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_namespaces_is_what_the_definitions_say() {
        let definitions = api::crds();
        for kind in Kind::value_variants() {
            let resource = kind.resource();
            let mut all = definitions.iter();
            let found = all
                .find(|crd| crd.spec.names.kind == resource.kind)
                .unwrap();
            let is_namespaced = found.spec.scope == "Namespaced";
            assert_eq!(kind.is_namespaced(), is_namespaced, "{kind:?}");
            assert_eq!(found.spec.names.plural, resource.plural);
        }
    }

    #[test]
    fn names_are_those_that_kubectl_takes() {
        let clusters = Kind::Clusters.resource();
        assert_eq!(name_of(&clusters, "demo"), "tenantcluster.covey.dev/demo");
    }
}
