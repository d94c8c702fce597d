//! The kinds that Covey reads and writes, so that nothing asks the API server for discovery.
//!
//! Invariant: each apiVersion and kind appears once, and every plural is the API server's own.

use kube::core::{ApiResource, GroupVersionKind};

/// One kind of one version of one API group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group, `""` for the core group.
    pub group: &'static str,
    /// Version within the group.
    pub version: &'static str,
    /// PascalCase kind.
    pub kind: &'static str,
    /// Plural, as in the URL and in RBAC.
    pub plural: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Kind {
    /// What kube's dynamic API needs.
    pub fn resource(&self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(self.group, self.version, self.kind);
        ApiResource::from_gvk_with_plural(&gvk, self.plural)
    }

    /// "group/version", or "version" for the core group.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// The kind with this apiVersion and kind, when the table has it.
pub fn find(api_version: &str, kind: &str) -> Option<Kind> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ALL.iter()
        .copied()
        .find(|k| k.kind == kind && k.group == group && k.version == version)
}

macro_rules! kinds {
    ($($name:ident = $group:literal $version:literal $kind:literal $plural:literal $scope:ident;)*) => {
        $(
            #[doc = concat!("`", $kind, "` of `", $group, "/", $version, "`.")]
            pub const $name: Kind = Kind {
                group: $group,
                version: $version,
                kind: $kind,
                plural: $plural,
                namespaced: scope!($scope),
            };
        )*
        /// The whole table.
        pub const ALL: &[Kind] = &[$($name),*];
    };
}

macro_rules! scope {
    (namespaced) => {
        true
    };
    (cluster) => {
        false
    };
}

kinds! {
    CONFIG_MAP = "" "v1" "ConfigMap" "configmaps" namespaced;
    ENDPOINTS = "" "v1" "Endpoints" "endpoints" namespaced;
    LIMIT_RANGE = "" "v1" "LimitRange" "limitranges" namespaced;
    NAMESPACE = "" "v1" "Namespace" "namespaces" cluster;
    NODE = "" "v1" "Node" "nodes" cluster;
    PERSISTENT_VOLUME = "" "v1" "PersistentVolume" "persistentvolumes" cluster;
    PERSISTENT_VOLUME_CLAIM =
        "" "v1" "PersistentVolumeClaim" "persistentvolumeclaims" namespaced;
    POD = "" "v1" "Pod" "pods" namespaced;
    RESOURCE_QUOTA = "" "v1" "ResourceQuota" "resourcequotas" namespaced;
    SECRET = "" "v1" "Secret" "secrets" namespaced;
    SERVICE = "" "v1" "Service" "services" namespaced;
    SERVICE_ACCOUNT = "" "v1" "ServiceAccount" "serviceaccounts" namespaced;

    MUTATING_WEBHOOK_CONFIGURATION = "admissionregistration.k8s.io" "v1"
        "MutatingWebhookConfiguration" "mutatingwebhookconfigurations" cluster;
    VALIDATING_ADMISSION_POLICY = "admissionregistration.k8s.io" "v1"
        "ValidatingAdmissionPolicy" "validatingadmissionpolicies" cluster;
    VALIDATING_ADMISSION_POLICY_BINDING = "admissionregistration.k8s.io" "v1"
        "ValidatingAdmissionPolicyBinding" "validatingadmissionpolicybindings" cluster;
    VALIDATING_WEBHOOK_CONFIGURATION = "admissionregistration.k8s.io" "v1"
        "ValidatingWebhookConfiguration" "validatingwebhookconfigurations" cluster;
    CUSTOM_RESOURCE_DEFINITION = "apiextensions.k8s.io" "v1"
        "CustomResourceDefinition" "customresourcedefinitions" cluster;
    API_SERVICE = "apiregistration.k8s.io" "v1" "APIService" "apiservices" cluster;
    CONTROLLER_REVISION = "apps" "v1" "ControllerRevision" "controllerrevisions" namespaced;
    DAEMON_SET = "apps" "v1" "DaemonSet" "daemonsets" namespaced;
    DEPLOYMENT = "apps" "v1" "Deployment" "deployments" namespaced;
    REPLICA_SET = "apps" "v1" "ReplicaSet" "replicasets" namespaced;
    STATEFUL_SET = "apps" "v1" "StatefulSet" "statefulsets" namespaced;
    HORIZONTAL_POD_AUTOSCALER = "autoscaling" "v2"
        "HorizontalPodAutoscaler" "horizontalpodautoscalers" namespaced;
    CRON_JOB = "batch" "v1" "CronJob" "cronjobs" namespaced;
    JOB = "batch" "v1" "Job" "jobs" namespaced;
    CERTIFICATE_SIGNING_REQUEST = "certificates.k8s.io" "v1"
        "CertificateSigningRequest" "certificatesigningrequests" cluster;
    LEASE = "coordination.k8s.io" "v1" "Lease" "leases" namespaced;
    ENDPOINT_SLICE = "discovery.k8s.io" "v1" "EndpointSlice" "endpointslices" namespaced;
    EVENT = "events.k8s.io" "v1" "Event" "events" namespaced;
    FLOW_SCHEMA = "flowcontrol.apiserver.k8s.io" "v1" "FlowSchema" "flowschemas" cluster;
    INGRESS = "networking.k8s.io" "v1" "Ingress" "ingresses" namespaced;
    NETWORK_POLICY = "networking.k8s.io" "v1" "NetworkPolicy" "networkpolicies" namespaced;
    RUNTIME_CLASS = "node.k8s.io" "v1" "RuntimeClass" "runtimeclasses" cluster;
    POD_DISRUPTION_BUDGET = "policy" "v1"
        "PodDisruptionBudget" "poddisruptionbudgets" namespaced;
    CLUSTER_ROLE = "rbac.authorization.k8s.io" "v1" "ClusterRole" "clusterroles" cluster;
    CLUSTER_ROLE_BINDING = "rbac.authorization.k8s.io" "v1"
        "ClusterRoleBinding" "clusterrolebindings" cluster;
    ROLE = "rbac.authorization.k8s.io" "v1" "Role" "roles" namespaced;
    ROLE_BINDING = "rbac.authorization.k8s.io" "v1" "RoleBinding" "rolebindings" namespaced;
    PRIORITY_CLASS = "scheduling.k8s.io" "v1" "PriorityClass" "priorityclasses" cluster;
    CSI_DRIVER = "storage.k8s.io" "v1" "CSIDriver" "csidrivers" cluster;
    CSI_NODE = "storage.k8s.io" "v1" "CSINode" "csinodes" cluster;
    STORAGE_CLASS = "storage.k8s.io" "v1" "StorageClass" "storageclasses" cluster;
    VOLUME_SNAPSHOT = "snapshot.storage.k8s.io" "v1"
        "VolumeSnapshot" "volumesnapshots" namespaced;
    VOLUME_SNAPSHOT_CONTENT = "snapshot.storage.k8s.io" "v1"
        "VolumeSnapshotContent" "volumesnapshotcontents" cluster;
    VOLUME_SNAPSHOT_CLASS = "snapshot.storage.k8s.io" "v1"
        "VolumeSnapshotClass" "volumesnapshotclasses" cluster;
    VOLUME_ATTACHMENT = "storage.k8s.io" "v1" "VolumeAttachment" "volumeattachments" cluster;

    ACCESS_GRANT = "covey.dev" "v1alpha1" "AccessGrant" "accessgrants" namespaced;
    BACKUP_TARGET = "covey.dev" "v1alpha1" "BackupTarget" "backuptargets" cluster;
    FLEET_POLICY = "covey.dev" "v1alpha1" "FleetPolicy" "fleetpolicies" cluster;
    HOST = "covey.dev" "v1alpha1" "Host" "hosts" namespaced;
    MACHINE = "covey.dev" "v1alpha1" "Machine" "machines" namespaced;
    MACHINE_ADDRESSES = "covey.dev" "v1alpha1" "MachineAddresses" "machineaddresses" namespaced;
    NODE_POOL = "covey.dev" "v1alpha1" "NodePool" "nodepools" namespaced;
    PROVIDER_CONFIG = "covey.dev" "v1alpha1" "ProviderConfig" "providerconfigs" namespaced;
    RESTORE = "covey.dev" "v1alpha1" "Restore" "restores" namespaced;
    SNAPSHOT = "covey.dev" "v1alpha1" "Snapshot" "snapshots" namespaced;
    TENANT_CLUSTER = "covey.dev" "v1alpha1" "TenantCluster" "tenantclusters" namespaced;
    TENANT_QUOTA = "covey.dev" "v1alpha1" "TenantQuota" "tenantquotas" cluster;

    DATA_VOLUME = "cdi.kubevirt.io" "v1beta1" "DataVolume" "datavolumes" namespaced;
    VIRTUAL_MACHINE = "kubevirt.io" "v1" "VirtualMachine" "virtualmachines" namespaced;
    VIRTUAL_MACHINE_INSTANCE = "kubevirt.io" "v1"
        "VirtualMachineInstance" "virtualmachineinstances" namespaced;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_is_listed_once_and_found_by_its_api_version() {
        let unique: BTreeSet<_> = ALL.iter().map(|k| (k.group, k.version, k.kind)).collect();
        assert_eq!(unique.len(), ALL.len());
        for kind in ALL {
            assert_eq!(find(&kind.api_version(), kind.kind), Some(*kind));
        }
    }

    #[test]
    fn plurals_and_scopes_agree_with_the_kubernetes_types() {
        use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, Resource, api};
        fn plural<T: Resource>(kind: Kind) {
            let resource = kind.resource();
            assert_eq!(
                (
                    resource.plural.as_str(),
                    resource.group.as_str(),
                    resource.version.as_str()
                ),
                (T::URL_PATH_SEGMENT, T::GROUP, T::VERSION)
            );
        }
        fn inside<T: Resource<Scope = NamespaceResourceScope>>(kind: Kind) {
            plural::<T>(kind);
            assert!(kind.namespaced, "{kind:?}");
        }
        fn outside<T: Resource<Scope = ClusterResourceScope>>(kind: Kind) {
            plural::<T>(kind);
            assert!(!kind.namespaced, "{kind:?}");
        }
        inside::<api::core::v1::ConfigMap>(CONFIG_MAP);
        inside::<api::core::v1::PersistentVolumeClaim>(PERSISTENT_VOLUME_CLAIM);
        inside::<api::core::v1::Endpoints>(ENDPOINTS);
        outside::<api::core::v1::Namespace>(NAMESPACE);
        inside::<api::networking::v1::NetworkPolicy>(NETWORK_POLICY);
        inside::<api::networking::v1::Ingress>(INGRESS);
        inside::<api::policy::v1::PodDisruptionBudget>(POD_DISRUPTION_BUDGET);
        inside::<api::discovery::v1::EndpointSlice>(ENDPOINT_SLICE);
        inside::<api::events::v1::Event>(EVENT);
        inside::<api::rbac::v1::RoleBinding>(ROLE_BINDING);
        outside::<api::rbac::v1::ClusterRoleBinding>(CLUSTER_ROLE_BINDING);
        outside::<api::scheduling::v1::PriorityClass>(PRIORITY_CLASS);
        outside::<api::storage::v1::StorageClass>(STORAGE_CLASS);
        outside::<api::admissionregistration::v1::ValidatingAdmissionPolicy>(
            VALIDATING_ADMISSION_POLICY,
        );
        outside::<api::flowcontrol::v1::FlowSchema>(FLOW_SCHEMA);
    }

    #[test]
    fn a_kind_of_another_version_is_not_found() {
        assert_eq!(find("apps/v1beta1", "Deployment"), None);
        assert_eq!(find("v1", "Deployment"), None);
    }
}
