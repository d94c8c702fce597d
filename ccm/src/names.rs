//! Names, labels, annotations and taints: ours, Kubernetes' own, and those of the KubeVirt CCM.
//!
//! Invariant: what must be unique in the tenant namespace is derived from UIDs, so two tenant
//! clusters with the same Services never meet, not even in one namespace.

use sha2::{Digest, Sha256};

/// Field manager of everything that is applied in the management cluster.
pub const FIELD_MANAGER: &str = "covey-ccm";
/// Name of the Lease in the tenant namespace.
pub const LEASE: &str = api::names::LEASE_CLOUD_CONTROLLER;

/// Label on mirrors and their EndpointSlices: UID of the tenant's Service.
pub const LABEL_SERVICE_UID: &str = "covey.dev/service-uid";
/// Annotation on mirrors, for people: name of the tenant's Service.
pub const ANNOTATION_SERVICE: &str = api::names::ANNOTATION_MADE_FOR;
/// Annotation on mirrors, for people: namespace of the tenant's Service.
pub const ANNOTATION_SERVICE_NAMESPACE: &str = api::names::ANNOTATION_MADE_FOR_NAMESPACE;
/// Annotation of the operator on mirrors: they stay although no Service is there for them.
pub const ANNOTATION_KEPT: &str = api::names::ANNOTATION_KEPT_FOR_RESTORE;
/// Annotation on mirrors that the operator keeps: whether a Service is there for them.
pub const ANNOTATION_ORPHAN: &str = api::names::ANNOTATION_ORPHAN;
/// Annotation on a tenant's Service of a copy of another tenant cluster: it has no load balancer while it has this.
pub const ANNOTATION_COPIED: &str = api::names::ANNOTATION_COPIED;
/// Value of `app.kubernetes.io/component` on mirrors and their EndpointSlices.
pub const COMPONENT: &str = api::names::COMPONENT_LOAD_BALANCER;
/// Who manages an EndpointSlice (`endpointslice.kubernetes.io/managed-by`, KEP-752).
pub const SLICES_MANAGED_BY: &str = "ccm.covey.dev";
/// The label for that.
pub const LABEL_SLICES_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Value of that label on what the EndpointSlice controller made of a selector.
pub const SLICES_OF_SELECTOR: &str = "endpointslice-controller.k8s.io";
/// Label on an EndpointSlice: the Service that it belongs to.
pub const LABEL_SLICE_OF: &str = "kubernetes.io/service-name";

/// Finalizer on the tenant's Service while it may have a load balancer.
pub const FINALIZER: &str = api::names::FINALIZER_LOAD_BALANCER;
/// Label on a node that load balancers leave out.
pub const LABEL_EXCLUDE: &str = api::names::LABEL_EXCLUDED;
/// Taint on a node that the Cluster Autoscaler is about to delete.
pub const TAINT_TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
pub use api::names::TAINT_UNINITIALIZED;
/// Taint on a node whose machine is shut down.
pub const TAINT_SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// Taint on a node whose machine is proven dead: pods and volumes may be had elsewhere (KEP-2268).
pub const TAINT_OUT_OF_SERVICE: &str = api::names::TAINT_OUT_OF_SERVICE;
/// Value of [`TAINT_OUT_OF_SERVICE`] when we set it; one with another value is an administrator's.
pub const OUT_OF_SERVICE_BY_US: &str = "machine-is-off";
/// Namespace in which kubelets renew a Lease of their node's name (KEP-589).
pub const NAMESPACE_LEASES: &str = "kube-node-lease";
/// Annotation of the kubelet: the addresses that it was told to use.
pub const ANNOTATION_PROVIDED_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// Labels of zone, region and instance type: on virtual machines (first) and nodes (all).
pub const TOPOLOGY: [&[&str]; 3] = [
    &[
        api::names::LABEL_ZONE,
        "failure-domain.beta.kubernetes.io/zone",
    ],
    &[
        api::names::LABEL_REGION,
        "failure-domain.beta.kubernetes.io/region",
    ],
    &[
        api::names::LABEL_INSTANCE_TYPE,
        "beta.kubernetes.io/instance-type",
    ],
];

/// Label of the KubeVirt CCM on its mirrors: name of the tenant's Service.
pub const LEGACY_SERVICE: &str = "cluster.x-k8s.io/tenant-service-name";
/// Label of the KubeVirt CCM on its mirrors: namespace of the tenant's Service.
pub const LEGACY_NAMESPACE: &str = "cluster.x-k8s.io/tenant-service-namespace";
/// Label of the KubeVirt CCM on its mirrors and on machines: name of the tenant cluster.
pub const LEGACY_CLUSTER: &str = "cluster.x-k8s.io/cluster-name";
/// Label that the KubeVirt CCM selects machines by, with the value `worker`.
pub const LEGACY_ROLE: &str = "cluster.x-k8s.io/role";

/// Namespace and name of the tenant's Service whose endpoints are the nodes' kube-proxies; the
/// operator's addon makes it (`tenant-cp/src/addons/kube_proxy.rs`).
pub const KUBE_PROXY: (&str, &str) = ("kube-system", "kube-proxy");

/// The mirror of a tenant's Service: 35 characters, a DNS label that begins with a letter.
#[must_use]
pub fn mirror(cluster_uid: &str, service_uid: &str) -> String {
    let digest = Sha256::digest(format!("{cluster_uid}/{service_uid}"));
    format!("lb-{}", hex::encode(&digest[..16]))
}

/// What the KubeVirt CCM calls the mirror: `a` and the Service's UID without dashes, 32 characters
/// (k8s.io/cloud-provider `DefaultLoadBalancerName`).
#[must_use]
pub fn legacy_mirror(service_uid: &str) -> String {
    let plain = service_uid.chars().filter(|c| *c != '-');
    std::iter::once('a').chain(plain).take(32).collect()
}

/// An EndpointSlice of a mirror.
#[must_use]
pub fn slice(mirror: &str, family: &str, number: usize) -> String {
    format!("{mirror}-{}-{number}", family.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UID: &str = "0a1b2c3d-1111-4222-8333-444455556666";

    #[test]
    fn legacy_name_is_the_one_of_the_go_library() {
        assert_eq!(legacy_mirror(UID), "a0a1b2c3d11114222833344445555666");
    }

    proptest! {
        #[test]
        fn names_are_dns_labels_and_differ_by_cluster_and_by_service(
            a in ".{0,80}", b in ".{0,80}",
        ) {
            let name = mirror(&a, UID);
            prop_assert!(name.len() <= 63 && name.starts_with("lb-"));
            prop_assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
            if a != b {
                prop_assert_ne!(&name, &mirror(&b, UID));
                prop_assert_ne!(mirror(UID, &a), mirror(UID, &b));
            }
        }
    }
}
