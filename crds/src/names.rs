//! Names of objects, labels and annotations that more than one component must agree on.
//!
//! Invariant: whatever must be unique is derived from a UID, never from namespace and name
//! (two tenants "a-b/c" and "a/b-c" must not meet).

/// Label on everything in a tenant namespace, and on the namespace: UID of the TenantCluster.
pub const LABEL_TENANT_UID: &str = "covey.dev/tenant-cluster-uid";
/// Label: name of the TenantCluster, for people.
pub const LABEL_TENANT_NAME: &str = "covey.dev/tenant-cluster";
/// Label: namespace of the TenantCluster, for people and to find the owner across namespaces.
pub const LABEL_TENANT_NAMESPACE: &str = "covey.dev/tenant-cluster-namespace";
/// Label: which part of the control plane an object is (`etcd`, `control-plane`, …).
pub const LABEL_COMPONENT: &str = "app.kubernetes.io/component";
/// Label: who manages the object.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`LABEL_MANAGED_BY`].
pub const MANAGED_BY: &str = "covey";
/// Annotation: hash of the object as it was wanted; changes when a wanted field goes away.
pub const ANNOTATION_HASH: &str = "covey.dev/hash";
/// Finalizer on a TenantCluster: removed once its tenant namespace is gone.
pub const FINALIZER: &str = "covey.dev/tenant-cluster";

/// Name of the RoleBinding that lets the operator work in a tenant namespace or a user's namespace.
pub const OPERATOR_BINDING: &str = "covey-operator";

/// Prefix of every tenant namespace; admission policies of the chart rely on it.
pub const TENANT_NAMESPACE_PREFIX: &str = "covey-";
/// Longest name of a TenantCluster: the tenant namespace must stay within 63 characters
/// (`covey-` + name + `-` + five of the UID).
pub const MAX_NAME_LENGTH: usize = 63 - TENANT_NAMESPACE_PREFIX.len() - 1 - 5;

/// The tenant namespace of a TenantCluster: `covey-<name>-<first five of the UID>`.
#[must_use]
pub fn tenant_namespace(name: &str, uid: &str) -> String {
    let short: String = uid
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(5)
        .collect();
    format!("{TENANT_NAMESPACE_PREFIX}{name}-{short}")
}

/// The Secret with the administrator's kubeconfig, in the namespace of the TenantCluster; its key
/// is `value`, as Cluster API, Flux and Argo CD expect.
#[must_use]
pub fn kubeconfig_secret(name: &str) -> String {
    format!("{name}-kubeconfig")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_name_still_fits_into_a_namespace() {
        let name = "n".repeat(MAX_NAME_LENGTH);
        let namespace = tenant_namespace(&name, "0a1b2c3d-0000-0000-0000-000000000000");
        assert_eq!(namespace.len(), 63);
        assert!(namespace.ends_with("-0a1b2"));
    }
}
