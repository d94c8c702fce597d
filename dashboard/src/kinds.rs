//! The kinds that have pages, and what they are called.
//!
//! Invariant: pure. All of them are in namespaces, and none holds a secret.

use api::{Host, Machine, NodePool, ProviderConfig, Restore, Snapshot, TenantCluster};
use kube::core::ApiResource;

/// A kind of Covey.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// Tenant clusters.
    Clusters,
    /// Node pools.
    Pools,
    /// Machines.
    Machines,
    /// Hosts.
    Hosts,
    /// Snapshots.
    Snapshots,
    /// Restores.
    Restores,
    /// Accounts at clouds.
    ProviderConfigs,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Clusters,
        Self::Pools,
        Self::Machines,
        Self::Hosts,
        Self::Snapshots,
        Self::Restores,
        Self::ProviderConfigs,
    ];

    /// Its word in addresses: `/pools`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Clusters => "clusters",
            Self::Pools => "pools",
            Self::Machines => "machines",
            Self::Hosts => "hosts",
            Self::Snapshots => "snapshots",
            Self::Restores => "restores",
            Self::ProviderConfigs => "providerconfigs",
        }
    }

    /// The kind of a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// What people call many of it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Clusters => "Tenant clusters",
            Self::Pools => "Node pools",
            Self::Machines => "Machines",
            Self::Hosts => "Hosts",
            Self::Snapshots => "Snapshots",
            Self::Restores => "Restores",
            Self::ProviderConfigs => "Accounts at clouds",
        }
    }

    /// How the API calls it.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        match self {
            Self::Clusters => ApiResource::erase::<TenantCluster>(&()),
            Self::Pools => ApiResource::erase::<NodePool>(&()),
            Self::Machines => ApiResource::erase::<Machine>(&()),
            Self::Hosts => ApiResource::erase::<Host>(&()),
            Self::Snapshots => ApiResource::erase::<Snapshot>(&()),
            Self::Restores => ApiResource::erase::<Restore>(&()),
            Self::ProviderConfigs => ApiResource::erase::<ProviderConfig>(&()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_its_word_and_is_in_namespaces() {
        let definitions = api::crds();
        for kind in Kind::ALL {
            assert_eq!(Kind::of_word(kind.word()), Some(kind));
            let resource = kind.resource();
            let mut all = definitions.iter();
            let found = all
                .find(|crd| crd.spec.names.plural == resource.plural)
                .unwrap();
            assert_eq!(found.spec.scope, "Namespaced", "{kind:?}");
        }
        assert_eq!(Kind::of_word("secrets"), None);
    }
}
