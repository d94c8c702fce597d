//! `spec.provider.hetzner`: servers of the Hetzner Cloud.
//!
//! Invariant: where they are made and by whose account, the ProviderConfig says; here is only what tells machines of one
//! account apart.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Servers of the Hetzner Cloud.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hetzner {
    /// Name of the ProviderConfig of the same namespace that says in which project, and where, servers are made.
    /// Required, no default. Example: `hetzner`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub config_name: String,

    /// Sizes of the servers by Hetzner's names, the first choice first, 1 to 8. Another one is taken for a new Machine
    /// while none of those before it is left. Required, no default. Example: `["cx32"]`.
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 63), regex(pattern = "^[a-z0-9-]+$")), extend("x-kubernetes-list-type" = "set"))]
    pub types: Vec<String>,

    /// Image that servers start from, with the kubelet of the pool's version: the ID of a snapshot, or the name of an
    /// image of Hetzner's. Default: the one that the ProviderConfig has for that version. Example: `98765432`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$")
    )]
    pub image: Option<String>,
}
