//! `spec.azure` of a ProviderConfig: a resource group, and where machines are made in it.
//!
//! Invariant: subscription, group, location and zone never change.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::rules::ZONE_STAYS;

const ZONE: &str =
    "has(self.zone) == has(oldSelf.zone) && (!has(self.zone) || self.zone == oldSelf.zone)";

/// A resource group of Azure.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(ZONE).message(ZONE_STAYS))]
pub struct AzureGroup {
    /// Secret of the same namespace with the field `credentials.json`: what `az ad sp create-for-rbac` says of a principal
    /// that has the roles of docs/azure.md. The operator can read it only in a namespace that has a TenantCluster.
    /// Required, no default. Example: `azure`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub credentials_secret_name: String,

    /// ID of the subscription. Cannot change. Required, no default. Example: `11111111-0000-4000-8000-000000000001`.
    #[serde(rename = "subscriptionID")]
    #[schemars(
        length(min = 36, max = 36),
        regex(pattern = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
    )]
    #[x_kube(
        validation = Rule::new("self == oldSelf").message("subscriptionID cannot change: machines are there already; make another ProviderConfig, and name it in the node pools")
    )]
    pub subscription_id: String,

    /// Name of the resource group that machines are made in, which is there already. Cannot change. Required, no default.
    /// Example: `workers`.
    #[schemars(
        length(min = 1, max = 90),
        regex(pattern = r"^[A-Za-z0-9_().-]*[A-Za-z0-9_()-]$")
    )]
    #[x_kube(
        validation = Rule::new("self == oldSelf").message("resourceGroup cannot change: machines are there already; make another ProviderConfig, and name it in the node pools")
    )]
    pub resource_group: String,

    /// Location of all machines, by Azure's name. Cannot change. Required, no default. Example: `westeurope`.
    #[schemars(length(min = 1, max = 32), regex(pattern = "^[a-z0-9]+$"))]
    #[x_kube(
        validation = Rule::new("self == oldSelf").message("location cannot change: machines are there already; make another ProviderConfig, and name it in the node pools")
    )]
    pub location: String,

    /// Zone of all machines; the same number is another zone in another subscription. Cannot change. Default: none, Azure
    /// chooses and does not say which. Example: `1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1), regex(pattern = "^[1-9]$"))]
    pub zone: Option<String>,

    /// ID of the subnet that machines are in; its network is in the same location. Required, no default.
    /// Example: `/subscriptions/11111111-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/net/subnets/workers`.
    #[serde(rename = "subnetID")]
    #[schemars(
        length(min = 1, max = 512),
        regex(
            pattern = r"^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[A-Za-z0-9_().-]{1,90}/providers/Microsoft\.Network/virtualNetworks/[A-Za-z0-9_.-]+/subnets/[A-Za-z0-9_.-]+$"
        )
    )]
    pub subnet_id: String,

    /// ID of the network security group of each machine's interface. Default: none, the rules of the subnet alone.
    /// Example: `/subscriptions/11111111-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/networkSecurityGroups/workers`.
    #[serde(
        default,
        rename = "securityGroupID",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(
        length(min = 1, max = 512),
        regex(
            pattern = r"^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[A-Za-z0-9_().-]{1,90}/providers/Microsoft\.Network/networkSecurityGroups/[A-Za-z0-9_.-]+$"
        )
    )]
    pub security_group_id: Option<String>,

    /// Whether machines have a public IPv4 address, which costs by itself. Without one the subnet needs a NAT gateway.
    /// Default: true. Example: false.
    #[serde(default = "super::rules::yes", rename = "publicIPv4")]
    pub public_ipv4: bool,

    /// Public key of SSH (RSA or Ed25519), without which Azure makes no machine. Whether anybody can use it the rules of the
    /// network decide. Required, no default. Example: `ssh-ed25519 AAAAC3NzaC1lZDI1 jane@example.com`.
    #[schemars(
        length(min = 1, max = 2048),
        regex(pattern = "^ssh-(rsa|ed25519) [A-Za-z0-9+/=]+( .*)?$")
    )]
    pub ssh_key: String,

    /// Images by the minor version of Kubernetes (1.36) whose kubelet they hold, at most 16: IDs of versions of an image of a
    /// gallery, or of managed images. A node pool may name another. Default: none, each node pool names one.
    /// Example: `{"1.36": "/subscriptions/11111111-0000-4000-8000-000000000001/resourceGroups/images/providers/Microsoft.Compute/images/worker-1-36"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = {"type": "string", "minLength": 1, "maxLength": 512, "pattern": "^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[A-Za-z0-9_().-]{1,90}/providers/Microsoft\\.Compute/(images/[A-Za-z0-9_.-]+|galleries/[A-Za-z0-9_.]+/images/[A-Za-z0-9_.-]+/versions/[0-9.]+)$"}))]
    pub images: BTreeMap<String, String>,
}
