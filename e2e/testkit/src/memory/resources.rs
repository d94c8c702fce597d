//! The kinds that the API in memory serves, and what the server does by itself with each of them.
//!
//! Invariant: plurals and scopes are the real server's own; a kind that is not here is answered with
//! 404, as a kind that nobody defined.

use crate::request::RequestInfo;

/// One kind of one version.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Resource {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) namespaced: bool,
    /// It has the subresource `status`.
    pub(super) status: bool,
    /// Its generation counts changes of what is neither metadata nor status.
    pub(super) counted: bool,
}

impl Resource {
    pub(super) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Objects of kinds that a CustomResourceDefinition defines.
    pub(super) fn is_custom(&self) -> bool {
        ["covey.dev", "kubevirt.io"].contains(&self.group)
    }

    /// Where it is in the table.
    pub(super) fn index(&self) -> usize {
        let all = ALL.iter().enumerate();
        let mut own = all.filter(|(_, other)| *other == self);
        own.next().map_or(usize::MAX, |(index, _)| index)
    }
}

/// The kind of a request.
pub(super) fn find(info: &RequestInfo) -> Option<&'static Resource> {
    ALL.iter()
        .find(|known| known.group == info.group && known.plural == info.resource)
}

macro_rules! table {
    ($($group:literal $version:literal $kind:literal $plural:literal $scope:literal $($has:ident)*;)*) => {
        pub(super) const ALL: &[Resource] = &[$(Resource {
            group: $group,
            version: $version,
            kind: $kind,
            plural: $plural,
            namespaced: $scope,
            status: has(&[$(stringify!($has)),*], b's'),
            counted: has(&[$(stringify!($has)),*], b'c'),
        }),*];
    };
}

const fn has(words: &[&str], first: u8) -> bool {
    let mut at = 0;
    while at < words.len() {
        if words[at].as_bytes()[0] == first {
            return true;
        }
        at += 1;
    }
    false
}

// Group, version, kind, plural, whether it is in namespaces, and what it has.
table! {
    "" "v1" "Namespace" "namespaces" false status;
    "" "v1" "Node" "nodes" false status;
    "" "v1" "ConfigMap" "configmaps" true;
    "" "v1" "Secret" "secrets" true;
    "" "v1" "Service" "services" true status;
    "" "v1" "ServiceAccount" "serviceaccounts" true;
    "" "v1" "PersistentVolumeClaim" "persistentvolumeclaims" true status;
    "" "v1" "Pod" "pods" true status counted;
    "" "v1" "ResourceQuota" "resourcequotas" true status;
    "" "v1" "LimitRange" "limitranges" true;
    "apps" "v1" "Deployment" "deployments" true status counted;
    "apps" "v1" "StatefulSet" "statefulsets" true status counted;
    "apps" "v1" "ReplicaSet" "replicasets" true status counted;
    "coordination.k8s.io" "v1" "Lease" "leases" true;
    "events.k8s.io" "v1" "Event" "events" true;
    "networking.k8s.io" "v1" "NetworkPolicy" "networkpolicies" true counted;
    "networking.k8s.io" "v1" "ServiceCIDR" "servicecidrs" false status counted;
    "policy" "v1" "PodDisruptionBudget" "poddisruptionbudgets" true status counted;
    "rbac.authorization.k8s.io" "v1" "Role" "roles" true;
    "rbac.authorization.k8s.io" "v1" "RoleBinding" "rolebindings" true;
    "rbac.authorization.k8s.io" "v1" "ClusterRole" "clusterroles" false;
    "rbac.authorization.k8s.io" "v1" "ClusterRoleBinding" "clusterrolebindings" false;
    "covey.dev" "v1alpha1" "TenantCluster" "tenantclusters" true status counted;
    "covey.dev" "v1alpha1" "NodePool" "nodepools" true status counted;
    "covey.dev" "v1alpha1" "Machine" "machines" true status counted;
    "covey.dev" "v1alpha1" "MachineAddresses" "machineaddresses" true counted;
    "covey.dev" "v1alpha1" "Host" "hosts" true status counted;
    "covey.dev" "v1alpha1" "TenantQuota" "tenantquotas" false status counted;
    "covey.dev" "v1alpha1" "BackupTarget" "backuptargets" false status counted;
    "covey.dev" "v1alpha1" "FleetPolicy" "fleetpolicies" false status counted;
    "covey.dev" "v1alpha1" "Snapshot" "snapshots" true status counted;
    "covey.dev" "v1alpha1" "Restore" "restores" true status counted;
    "covey.dev" "v1alpha1" "ProviderConfig" "providerconfigs" true status counted;
    "covey.dev" "v1alpha1" "AccessGrant" "accessgrants" true status counted;
    "batch" "v1" "Job" "jobs" true status counted;
    "kubevirt.io" "v1" "KubeVirt" "kubevirts" true status counted;
}

#[cfg(test)]
mod tests {
    use http::{Method, Uri};

    use super::*;

    #[test]
    fn a_kind_is_found_by_its_address_and_each_is_there_once() {
        let of = |uri: &'static str| {
            find(&RequestInfo::new(&Method::GET, &Uri::from_static(uri))).map(|found| found.kind)
        };
        assert_eq!(
            of("/apis/apps/v1/namespaces/a/deployments/b/status"),
            Some("Deployment")
        );
        assert_eq!(of("/api/v1/namespaces/a"), Some("Namespace"));
        assert_eq!(of("/apis/example.com/v1/things"), None);
        for (index, resource) in ALL.iter().enumerate() {
            assert_eq!(resource.index(), index, "{resource:?}");
        }
    }
}
