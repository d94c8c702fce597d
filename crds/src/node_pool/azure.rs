//! `spec.provider.azure`: virtual machines of Azure.
//!
//! Invariant: where they are made and by whom, the ProviderConfig says; here is only what tells machines of one account
//! apart.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node_pool::market::Market;

/// Virtual machines of Azure.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Azure {
    /// Name of the ProviderConfig of the same namespace that says in which resource group virtual machines are made.
    /// Required, no default. Example: `azure`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub config_name: String,

    /// Sizes of the virtual machines by Azure's names, the first choice first, 1 to 8. Another one is taken for a new
    /// Machine while none of those before it is left. Required, no default. Example: `["Standard_D4s_v5"]`.
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 63), regex(pattern = "^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?$")), extend("x-kubernetes-list-type" = "set"))]
    pub types: Vec<String>,

    /// Image that virtual machines start from, with the kubelet of the pool's version: the ID of a version of an image of a
    /// gallery, or of a managed image; `latest` is none, because it changes. Default: the one that the ProviderConfig has
    /// for that version.
    /// Example: `/subscriptions/11111111-0000-4000-8000-000000000001/resourceGroups/images/providers/Microsoft.Compute/images/worker-1-36`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 512),
        regex(
            pattern = r"^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[A-Za-z0-9_().-]{1,90}/providers/Microsoft\.Compute/(images/[A-Za-z0-9_.-]+|galleries/[A-Za-z0-9_.]+/images/[A-Za-z0-9_.-]+/versions/[0-9.]+)$"
        )
    )]
    pub image: Option<String>,

    /// Size of the disk of each virtual machine in GiB, 10 to 4095; the image's is the least that Azure takes. Default: 30.
    /// Example: 80.
    #[serde(default = "default_disk", rename = "diskGiB")]
    #[schemars(range(min = 10, max = 4095))]
    pub disk_gib: i32,

    /// How virtual machines are bought: `OnDemand`, or `Spot`, which costs less and may be taken back at any time, half a
    /// minute after Azure said so inside it. Default: `OnDemand`. Example: `Spot`.
    #[serde(default)]
    pub market: Market,
}

fn default_disk() -> i32 {
    30
}
