//! Which identity the parts of a TenantCluster bear.
//!
//! Invariant: this is the one place that says so; nobody else computes a tenant namespace of a TenantCluster.

use kube::ResourceExt;

use super::TenantCluster;
use super::identity::TenantIdentity;

impl TenantCluster {
    /// Under whose name and UID its parts run. Of one that was not read from the API the UID is empty.
    #[must_use]
    pub fn identity(&self) -> TenantIdentity {
        self.taken_over()
            .cloned()
            .unwrap_or_else(|| TenantIdentity {
                name: self.name_any(),
                namespace: self.namespace().unwrap_or_default(),
                uid: self.uid().unwrap_or_default(),
            })
    }

    /// The identity that it took over; none where its parts bear its own.
    #[must_use]
    pub fn taken_over(&self) -> Option<&TenantIdentity> {
        self.status.as_ref()?.identity.as_ref()
    }

    /// The UID that its parts bear, by which everything is found that is known of it beside the API. Of one that was not
    /// read from the API it is empty.
    #[must_use]
    pub fn identity_uid(&self) -> &str {
        match self.taken_over() {
            Some(identity) => &identity.uid,
            None => self.metadata.uid.as_deref().unwrap_or_default(),
        }
    }

    /// The namespace of the management cluster that holds all its parts.
    #[must_use]
    pub fn tenant_namespace(&self) -> String {
        self.identity().tenant_namespace()
    }
}
