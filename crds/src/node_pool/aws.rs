//! `spec.provider.aws`: instances of Amazon EC2.
//!
//! Invariant: where they are made and by whom, the ProviderConfig says; here is only what tells machines of one account
//! apart.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node_pool::market::Market;

/// Instances of Amazon EC2.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Aws {
    /// Name of the ProviderConfig of the same namespace that says in which subnet instances are made. Required, no default.
    /// Example: `aws`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub config_name: String,

    /// Types of the instances by EC2's names, the first choice first, 1 to 8. Another one is taken for a new Machine while
    /// none of those before it is left. Required, no default. Example: `["m7i.xlarge"]`.
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")), extend("x-kubernetes-list-type" = "set"))]
    pub types: Vec<String>,

    /// Image that instances start from, with the kubelet of the pool's version, by its ID: anybody may give an image any
    /// name. Default: the one that the ProviderConfig has for that version. Example: `ami-0123456789abcdef0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 21),
        regex(pattern = "^ami-([0-9a-f]{8}|[0-9a-f]{17})$")
    )]
    pub image: Option<String>,

    /// Size of the disk of each instance in GiB, 10 to 4095; the image's is the least that EC2 takes. Default: 30.
    /// Example: 80.
    #[serde(default = "default_disk", rename = "diskGiB")]
    #[schemars(range(min = 10, max = 4095))]
    pub disk_gib: i32,

    /// How instances are bought: `OnDemand`, or `Spot`, which costs less and may be taken back at any time, two minutes
    /// after EC2 said so. Default: `OnDemand`. Example: `Spot`.
    #[serde(default)]
    pub market: Market,
}

fn default_disk() -> i32 {
    30
}
