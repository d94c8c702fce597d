//! `spec.provider.gcp`: instances of Google's Compute Engine.
//!
//! Invariant: where they are made and by whose account, the ProviderConfig says; here is only what tells machines of one
//! account apart.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node_pool::market::Market;

/// Instances of Google's Compute Engine.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gcp {
    /// Name of the ProviderConfig of the same namespace that says in which project and zone instances are made.
    /// Required, no default. Example: `google`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub config_name: String,

    /// Machine types of the instances by Google's names, the first choice first, 1 to 8. Another one is taken for a new
    /// Machine while none of those before it is left. Required, no default. Example: `["e2-standard-4"]`.
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 63), regex(pattern = "^[a-z0-9-]+$")), extend("x-kubernetes-list-type" = "set"))]
    pub types: Vec<String>,

    /// Image that instances start from, with the kubelet of the pool's version; a family is none, because its newest image
    /// changes. Default: the one that the ProviderConfig has for that version.
    /// Example: `projects/example/global/images/worker-1-36`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 255),
        regex(pattern = "^projects/[a-z0-9.:-]+/global/images/[a-z0-9-]+$")
    )]
    pub image: Option<String>,

    /// Size of the disk of each instance in GiB, 10 to 65536. Default: 30. Example: 80.
    #[serde(default = "default_disk", rename = "diskGiB")]
    #[schemars(range(min = 10, max = 65536))]
    pub disk_gib: i32,

    /// How instances are bought: `OnDemand`, or `Spot`, which costs less and may be taken back at any time, half a minute
    /// after it was said. Default: `OnDemand`. Example: `Spot`.
    #[serde(default)]
    pub market: Market,
}

fn default_disk() -> i32 {
    30
}
