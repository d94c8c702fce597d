//! `spec.aws` of a ProviderConfig: a subnet, and who makes machines in it.
//!
//! Invariant: region and zone never change; the external ID of a role is no field, because whoever could say it could have
//! another one's role; nor is which role may be taken on without a key, which the platform's configuration says.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::rules::ZONE_STAYS;

const SOMEBODY: &str = "has(self.credentialsSecretName) || has(self.roleARN)";
const NOBODY: &str = "nobody is named who makes machines: set credentialsSecretName, or roleARN alone where the platform lets this namespace take that role on without a key (docs/aws.md)";

/// A subnet of AWS.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(SOMEBODY).message(NOBODY))]
pub struct AwsSubnet {
    /// Secret of the same namespace with the field `credentials.json`: what `aws iam create-access-key` says of the key of a
    /// user that has the rights of docs/aws.md, or may take on the role that has them. The operator can read it only in a
    /// namespace that has a TenantCluster. Default: none, the operator takes on `roleARN` by a token of its own account
    /// (web identity), which the platform has to let this namespace do. Example: `aws`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub credentials_secret_name: Option<String>,

    /// Role that the key takes on, in whose account machines are made. Its trust policy asks for the external ID that
    /// docs/aws.md says, or trusts the operator's account where there is no key. Default: none, the rights of the key's user. Example: `arn:aws:iam::111111111111:role/covey`.
    #[serde(default, rename = "roleARN", skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 20, max = 640),
        regex(pattern = "^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+$")
    )]
    pub role_arn: Option<String>,

    /// Region of all machines. Cannot change. Required, no default. Example: `eu-central-1`.
    #[schemars(length(min = 1, max = 32), regex(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$"))]
    #[x_kube(
        validation = Rule::new("self == oldSelf").message("region cannot change: machines are there already; make another ProviderConfig, and name it in the node pools")
    )]
    pub region: String,

    /// Zone of the subnet, and so of all machines; the same name is another zone in another account. Cannot change. Required,
    /// no default. Example: `eu-central-1a`.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message(ZONE_STAYS))]
    pub zone: String,

    /// ID of the subnet that machines are in. Required, no default. Example: `subnet-0123456789abcdef0`.
    #[serde(rename = "subnetID")]
    #[schemars(
        length(min = 1, max = 24),
        regex(pattern = "^subnet-([0-9a-f]{8}|[0-9a-f]{17})$")
    )]
    pub subnet_id: String,

    /// IDs of the security groups of each machine's interface, at most 16. Default: none, the default group of the network.
    /// Example: `["sg-0123456789abcdef0"]`.
    #[serde(
        default,
        rename = "securityGroupIDs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 16), inner(length(min = 1, max = 20), regex(pattern = "^sg-([0-9a-f]{8}|[0-9a-f]{17})$")), extend("x-kubernetes-list-type" = "set"))]
    pub security_group_ids: Vec<String>,

    /// Whether machines have a public IPv4 address, which costs by itself. Without one the subnet needs a NAT gateway.
    /// Default: true. Example: false.
    #[serde(default = "super::rules::yes", rename = "publicIPv4")]
    pub public_ipv4: bool,

    /// What the images call the disk that they are started from (`RootDeviceName`): by another name a machine would get a
    /// second disk. Default: `/dev/xvda`. Example: `/dev/sda1`.
    #[serde(default = "first_disk")]
    #[schemars(length(min = 1, max = 32), regex(pattern = "^/dev/(sd|xvd)[a-z0-9]+$"))]
    pub root_device: String,

    /// Images by the minor version of Kubernetes (1.36) whose kubelet they hold, at most 16, by their IDs. A node pool may
    /// name another. Default: none, each node pool names one. Example: `{"1.36": "ami-0123456789abcdef0"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = {"type": "string", "minLength": 1, "maxLength": 21, "pattern": "^ami-([0-9a-f]{8}|[0-9a-f]{17})$"}))]
    pub images: BTreeMap<String, String>,
}

fn first_disk() -> String {
    "/dev/xvda".to_owned()
}
