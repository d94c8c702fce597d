//! `ProviderConfig`: an account at a cloud, and where machines are made in it. Node pools of the same namespace name it.
//!
//! Invariant: no secret stands in it, credentials are named by their Secret; where the cloud's API is, is not in it
//! either, because whoever could say that would be sent the credentials. Cloud, place and account never change: machines
//! that are there are looked for where they were made.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names;
use crate::node_pool::provider::ProviderKind;

mod aws;
mod azure;
mod rules;
pub use aws::AwsSubnet;
pub use azure::AzureGroup;
use rules::yes;

const ADDRESS: &str = "self.publicIPv4 || self.publicIPv6 || has(self.network)";
const NO_ADDRESS: &str =
    "servers would have no address: set publicIPv4 or publicIPv6, or name a network";
const ONE_CLOUD: &str = "(has(self.hetzner) ? 1 : 0) + (has(self.gcp) ? 1 : 0) + (has(self.azure) ? 1 : 0) + (has(self.aws) ? 1 : 0) == 1";
const CLOUD: &str = "has(self.hetzner) == has(oldSelf.hetzner) && has(self.gcp) == has(oldSelf.gcp) && has(self.azure) == has(oldSelf.azure) && has(self.aws) == has(oldSelf.aws)";
const CLOUD_STAYS: &str = "the cloud of a ProviderConfig cannot change: machines are there already; make another ProviderConfig, and name it in the node pools";
const FIRST_KEY: &str = "self[0] == oldSelf[0]";
const FIRST_KEY_STAYS: &str = "the first of sshKeys cannot change, because the project is known again by it; add others behind it, or make another ProviderConfig";

/// An account at a cloud, and where machines are made in it.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "covey.dev",
    version = "v1alpha1",
    kind = "ProviderConfig",
    plural = "providerconfigs",
    shortname = "pc",
    category = "covey",
    namespaced,
    status = "ProviderConfigStatus",
    derive = "PartialEq",
    doc = "An account at a cloud, and where machines are made in it. Node pools of the same namespace name it.",
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.account) || (has(self.status) && has(self.status.account) && self.status.account == oldSelf.status.account)").message("status.account of a ProviderConfig cannot change: machines are looked for where they were made; make another ProviderConfig for another account"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Location", type_ = "string", json_path = ".spec.hetzner.location"),
    printcolumn(name = "Zone", type_ = "string", json_path = ".spec.gcp.zone"),
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.azure.location"),
    printcolumn(name = "Account", type_ = "string", json_path = ".status.account"),
    printcolumn(name = "Leaks", type_ = "string", json_path = ".status.conditions[?(@.type=='Leaks')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(ONE_CLOUD).message("a ProviderConfig names exactly one cloud: set hetzner, gcp, azure or aws"),
    validation = Rule::new(CLOUD).message(CLOUD_STAYS)
)]
pub struct ProviderConfigSpec {
    /// A project of the Hetzner Cloud. Default: none; exactly one cloud is named.
    /// Example: `{"tokenSecretName": "hetzner", "location": "fsn1", "sshKeys": ["covey"]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hetzner: Option<HetznerProject>,

    /// A zone of a project of the Google Cloud. Default: none; exactly one cloud is named.
    /// Example: `{"keySecretName": "google", "project": "example", "zone": "europe-west1-b", "subnet": "workers"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcp: Option<GcpProject>,

    /// A resource group of Azure. Default: none; exactly one cloud is named.
    /// Example: `{"credentialsSecretName": "azure", "subscriptionID": "11111111-0000-4000-8000-000000000001", "resourceGroup": "workers", "location": "westeurope", "subnetID": "/subscriptions/11111111-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/net/subnets/workers", "sshKey": "ssh-ed25519 AAAA"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<AzureGroup>,

    /// A subnet of AWS. Default: none; exactly one cloud is named.
    /// Example: `{"credentialsSecretName": "aws", "region": "eu-central-1", "zone": "eu-central-1a", "subnetID": "subnet-0123456789abcdef0"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsSubnet>,

    /// How much Machines may take by this ProviderConfig. What is there already is never deleted because of it.
    /// Default: none, as much as the account may have. Example: `{"machines": 20, "hourly": "0.50"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<CloudLimits>,

    /// Currency of the account (ISO 4217), in which the cloud and `prices` say what sizes cost; no cloud is asked for it.
    /// Default: none, and under a budget of a node pool nothing is made. Example: `EUR`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 3), regex(pattern = "^[A-Z]{3}$"))]
    pub currency: Option<String>,

    /// Prices of an hour by size, at most 64, in the currency of the account, which count instead of what the cloud says.
    /// Default: none, what the cloud says. Example: `{"cx32": "0.0113"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "minLength": 1, "maxLength": 16, "pattern": "^[0-9]{1,8}(\\.[0-9]{1,6})?$"}))]
    pub prices: BTreeMap<String, String>,
}

/// How much Machines may take by a ProviderConfig, all its node pools together.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudLimits {
    /// How many there may be, 0 to 100000, those that are being deleted included. Default: none, as many as the account
    /// may have. Example: 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub machines: Option<i32>,

    /// What their sizes may cost in an hour, in the currency of the account and without tax; addresses, volumes and
    /// traffic do not count. A size of which nobody knows the price is not made then. Default: none, no bound.
    /// Example: `0.50`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 16),
        regex(pattern = r"^[0-9]{1,8}(\.[0-9]{1,6})?$")
    )]
    pub hourly: Option<String>,
}

/// A project of the Hetzner Cloud.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(ADDRESS).message(NO_ADDRESS))]
pub struct HetznerProject {
    /// Secret of the same namespace with the field `token`: one of the project, with the permission Read & Write. The
    /// operator can read it only in a namespace that has a TenantCluster. Required, no default. Example: `hetzner`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub token_secret_name: String,

    /// Location of all machines, by Hetzner's name. Cannot change. Required, no default. Example: `fsn1`.
    #[schemars(length(min = 1, max = 32), regex(pattern = "^[a-z0-9-]+$"))]
    #[x_kube(
        validation = Rule::new("self == oldSelf").message("location cannot change: machines are there already; make another ProviderConfig, and name it in the node pools")
    )]
    pub location: String,

    /// Names of SSH keys of the project that servers get, 1 to 16. Without any Hetzner makes a password and sends it by
    /// mail. The first one cannot change: a token does not say whose it is, so the project is known by that key.
    /// Required, no default. Example: `["covey"]`.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 128)), extend("x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = Rule::new(FIRST_KEY).message(FIRST_KEY_STAYS))]
    pub ssh_keys: Vec<String>,

    /// Name of the private network that servers are in. Default: none, nodes reach each other by their public
    /// addresses. Example: `workers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub network: Option<String>,

    /// Names of firewalls that servers are behind, at most 5. Default: none, a public address is reached by everybody.
    /// Example: `["closed"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), inner(length(min = 1, max = 128)), extend("x-kubernetes-list-type" = "set"))]
    pub firewalls: Vec<String>,

    /// Whether servers have a public IPv4 address, which costs by itself. Default: true. Example: false.
    #[serde(default = "yes", rename = "publicIPv4")]
    pub public_ipv4: bool,

    /// Whether servers have a public IPv6 network. Default: true. Example: false.
    #[serde(default = "yes", rename = "publicIPv6")]
    pub public_ipv6: bool,

    /// Images by the minor version of Kubernetes (1.36) whose kubelet they hold, at most 16: the ID of a snapshot, or the name
    /// of an image of Hetzner's. A node pool may name another. Default: none, each node pool names one.
    /// Example: `{"1.36": "98765432"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = {"type": "string", "minLength": 1, "maxLength": 63}))]
    pub images: BTreeMap<String, String>,
}

/// A zone of a project of the Google Cloud.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GcpProject {
    /// Secret of the same namespace with the field `key.json`: the key of a service account that has the role of
    /// docs/gcp.md in the project. The operator can read it only in a namespace that has a TenantCluster.
    /// Required, no default. Example: `google`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub key_secret_name: String,

    /// ID of the project. Cannot change. Required, no default. Example: `example-4711`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9.:]*[a-z0-9])?$")
    )]
    #[x_kube(
        validation = Rule::new("self == oldSelf").message("project cannot change: machines are there already; make another ProviderConfig, and name it in the node pools")
    )]
    pub project: String,

    /// Zone of all machines, by Google's name. Cannot change. Required, no default. Example: `europe-west1-b`.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]+(-[a-z0-9]+)+$"))]
    #[x_kube(
        validation = Rule::new("self == oldSelf").message("zone cannot change: machines are there already; make another ProviderConfig, and name it in the node pools")
    )]
    pub zone: String,

    /// Name of the subnet that instances are in; it is in the region of the zone. Required, no default: without one they
    /// would be in the project's first network. Example: `workers`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub subnet: String,

    /// Network tags of instances, by which rules of the firewall choose them, at most 64. Default: none.
    /// Example: `["workers"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63), regex(pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$")), extend("x-kubernetes-list-type" = "set"))]
    pub network_tags: Vec<String>,

    /// Whether instances have a public IPv4 address, which costs by itself. Without one the subnet needs Cloud NAT.
    /// Default: true. Example: false.
    #[serde(default = "yes", rename = "publicIPv4")]
    pub public_ipv4: bool,

    /// Images by the minor version of Kubernetes (1.36) whose kubelet they hold, at most 16; families are none. A node pool
    /// may name another. Default: none, each node pool names one.
    /// Example: `{"1.36": "projects/example/global/images/worker-1-36"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^projects/[a-z0-9.:-]+/global/images/[a-z0-9-]+$"}))]
    pub images: BTreeMap<String, String>,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderConfigStatus {
    /// Generation of the spec that this status speaks of. Absent until the first look. Example: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Whose the credentials are, as the cloud says it: recorded once, and credentials of another account are refused
    /// from then on. Absent until they let the operator in. Example: `ssh-key-4711`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub account: Option<String>,

    /// Times of which nobody knows what was made in them, at most 8, the first one first: the management cluster may have
    /// been brought back to an older state since, and what was made after it may be somebody's. What was made in one of
    /// them and is of no Machine is told and not deleted, until the annotation `covey.dev/delete-unknown` names its `to`. It
    /// goes once nothing is left of it. Absent without any.
    /// Example: `[{"from": "2026-11-28T22:00:00Z", "to": "2026-11-29T10:05:00Z"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub gaps: Vec<Gap>,

    /// Until when nothing is doubted any more: the end of the last of `gaps` of which nothing was left. Absent without any.
    /// Example: `2026-11-29T10:05:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounted_until: Option<Time>,

    /// `Ready`: the credentials let the operator in, and what the spec names is there. `Leaks`: something of a Machine
    /// that is gone is there still. `InUse`: Machines need it, so it stays, and so does the Secret that it names.
    /// `Budget`: what they take is within the limits, and no Machine waits for more; absent without limits.
    /// Example: `[{"type": "Ready", "status": "False", "reason": "CredentialsRefused", "message": "…"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A time of which nobody knows what was made in it.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// When an operator was last known to be at work. Absent: nobody knows, all that is older is doubted.
    /// Example: `2026-11-28T22:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Time>,
    /// When one was again. Example: `2026-11-29T10:05:00Z`.
    pub to: Time,
}

/// What a ProviderConfig says of any cloud.
#[derive(Clone, Copy, Debug)]
pub struct CloudAccount<'a> {
    /// Which cloud.
    pub kind: ProviderKind,
    /// Secret of the same namespace that has the credentials; none: the operator is let in by a token of its own account.
    pub secret_name: Option<&'a str>,
    /// Images by the minor version of Kubernetes.
    pub images: &'a BTreeMap<String, String>,
}

impl ProviderConfigSpec {
    /// What it says of its cloud; none where it names none, which a rule keeps out.
    #[must_use]
    pub fn cloud(&self) -> Option<CloudAccount<'_>> {
        let hetzner = self.hetzner.as_ref().map(|project| CloudAccount {
            kind: ProviderKind::Hetzner,
            secret_name: Some(&project.token_secret_name),
            images: &project.images,
        });
        let gcp = self.gcp.as_ref().map(|project| CloudAccount {
            kind: ProviderKind::Gcp,
            secret_name: Some(&project.key_secret_name),
            images: &project.images,
        });
        let azure = self.azure.as_ref().map(|group| CloudAccount {
            kind: ProviderKind::Azure,
            secret_name: Some(&group.credentials_secret_name),
            images: &group.images,
        });
        let aws = self.aws.as_ref().map(|subnet| CloudAccount {
            kind: ProviderKind::Aws,
            secret_name: subnet.credentials_secret_name.as_deref(),
            images: &subnet.images,
        });
        hetzner.or(gcp).or(azure).or(aws)
    }
}

impl ProviderConfig {
    /// Until when a person has said that what is of no Machine is nobody's: the end of the gap that the annotation names,
    /// which is one of the status. None where nobody has, or the annotation names no such gap (any more).
    #[must_use]
    pub fn confirmed_until(&self) -> Option<&Time> {
        let annotations = self.metadata.annotations.as_ref()?;
        let said = annotations.get(names::ANNOTATION_DELETE_UNKNOWN)?;
        let gaps = &self.status.as_ref()?.gaps;
        let named = gaps.iter().find(|gap| gap.to.0.to_string() == *said)?;
        Some(&named.to)
    }
}
