//! Under whose name and UID the parts of a tenant cluster run.
//!
//! Invariant: an identity never changes while there is a part that bears it; it is a TenantCluster's own, unless
//! `status.identity` says another one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names;

/// Under whose name and UID the parts of a tenant cluster run: labels, the tenant namespace, etcd's token, names in
/// clouds and backups.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantIdentity {
    /// Name of the TenantCluster that the parts were made for. Example: `standby-4f7ks`.
    #[schemars(length(min = 1, max = 46))]
    pub name: String,

    /// Its namespace. Example: `covey-standby`.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,

    /// Its UID. Example: `0a1b2c3d-1111-4222-8333-444455556666`.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
}

impl TenantIdentity {
    /// The namespace of the management cluster that holds all parts.
    #[must_use]
    pub fn tenant_namespace(&self) -> String {
        names::tenant_namespace(&self.name, &self.uid)
    }
}
