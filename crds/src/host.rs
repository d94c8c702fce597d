//! `Host`: one machine that is there already and is reached by SSH; the inventory of the provider `static`.
//!
//! Invariant: no hop is without pinned keys, and no secret stands in the object: login keys are named by their
//! Secret. What a rule refuses by its text is asked again of the address that is dialled. The status half is in
//! [`status`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod status;
pub use status::{HostClaim, HostFacts, HostNode, HostOwner, HostPhase, HostStatus};

/// IPv4, IPv6, or a DNS name whose last label begins with a letter: what only resolvers take for a number
/// (`0x7f000001`, `127.1`) is none of them.
const ADDRESS: &str = r"self.matches('^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])[.]){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])$') || self.matches('^[0-9A-Fa-f]{0,4}(:[0-9A-Fa-f]{0,4}){2,7}$') || self.matches('^([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?[.])*[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$')";
const ADDRESS_FORM: &str = "address is neither an IP address nor a DNS name: write 192.0.2.10, 2001:db8::10 or edge-1.example.com, without a port (port is a field of its own)";
/// By their text; what a name leads to is seen when it is dialled (provider-static, `session/addresses.rs`).
const DIALLED: &str = r"!self.matches('(?i)^(0[.]|127[.]|169[.]254[.]|22[4-9][.]|2[345][0-9][.]|168[.]63[.]129[.]16$|100[.]100[.]100[.]200$|[0:]+:0*1?$|[0:]+:ffff:|fe[89ab][0-9a-f]:|ff[0-9a-f]{2}:|fd00:ec2:|(.+[.])?localhost$|metadata([.]google[.]internal)?$|instance-data([.]ec2[.]internal)?$)')";
const NOT_DIALLED: &str = "address is the operator's own machine, its link, a group or a cloud's metadata, and is not dialled: write the address at which the machine is reached from the management cluster";
const NODE_ADDRESS: &str = r"self.matches('^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])[.]){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])$') || self.matches('^[0-9A-Fa-f]{0,4}(:[0-9A-Fa-f]{0,4}){2,7}$')";
const NODE_ADDRESS_FORM: &str = "nodeAddress is no IP address: write one that the machine itself has, as ip addr shows it there, such as 10.0.0.10";
const NOT_A_NODES: &str = "nodeAddress is loopback, link-local, a group or a cloud's metadata, at which no node is reached: write one that the machine itself has, as ip addr shows it there, such as 10.0.0.10";
/// IP address and port, as a socket address is written.
const OVERLAY_ENDPOINT: &str = r"self.matches('^(((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])[.]){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])|\\[[0-9A-Fa-f]{0,4}(:[0-9A-Fa-f]{0,4}){2,7}\\]):(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})$')";
const OVERLAY_ENDPOINT_FORM: &str = "overlayEndpoint is no IP address with a port: write 203.0.113.20:51820 or [2001:db8::20]:51820; names are not taken";
/// By their text. Nodes of the tenant cluster dial it, never the operator: what they reach, pods on them do, too.
const OVERLAY_DIALLED: &str = r"!self.matches('(?i)^(0[.]|127[.]|169[.]254[.]|22[4-9][.]|2[345][0-9][.]|168[.]63[.]129[.]16:|100[.]100[.]100[.]200:|\\[([0:]+:0*1?\\]|[0:]+:ffff:|fe[89ab][0-9a-f]:|ff[0-9a-f]{2}:|fd00:ec2:))')";
const OVERLAY_NOT_DIALLED: &str = "overlayEndpoint is loopback, link-local, a group or a cloud's metadata, at which no other node reaches it: write the address and port at which nodes of other sites do";
const KEYS: &str = r"self.all(key, key.matches('^(ssh-ed25519|ecdsa-sha2-nistp(256|384|521)) AAAA[A-Za-z0-9+/]+={0,2}( [^\n]*)?$'))";
const KEYS_FORM: &str = "each of hostKeys is a line as /etc/ssh/ssh_host_ed25519_key.pub of the machine has it, \"ssh-ed25519 AAAA…\" or \"ecdsa-sha2-nistp256 AAAA…\", without the name of the machine in front; keys of other kinds are not taken";

/// One machine that is there already and is reached by SSH.
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "covey.dev",
    version = "v1alpha1",
    kind = "Host",
    plural = "hosts",
    category = "covey",
    namespaced,
    status = "HostStatus",
    derive = "PartialEq",
    doc = "One machine that is there already and is reached by SSH. Node pools of the same namespace take it.",
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')").message("the name must be a DNS label of at most 63 characters (lower-case letters, digits and -, no dots), because what the node is called by its provider holds it"),
    printcolumn(name = "Address", type_ = "string", json_path = ".spec.address"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Machine", type_ = "string", json_path = ".status.claim.machineName"),
    printcolumn(name = "Reachable", type_ = "string", json_path = ".status.conditions[?(@.type=='Reachable')].status"),
    printcolumn(name = "Verified", type_ = "string", json_path = ".status.conditions[?(@.type=='Verified')].status"),
    printcolumn(name = "Clean", type_ = "string", json_path = ".status.conditions[?(@.type=='Clean')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Cores", type_ = "integer", json_path = ".status.facts.cpu", priority = 1),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.facts.memory", priority = 1),
    printcolumn(name = "OS", type_ = "string", json_path = ".status.facts.os", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.status=='False')].message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.escalation == 'Sudo' || self.user == 'root'").message("the user is not root, and only root can make the machine a node: set escalation to Sudo, and let sudo ask that user for no password"),
    validation = Rule::new("has(self.nodeAddress) || self.address.contains(':') || self.address.matches('^[0-9.]+$')").message("address is a name, and nodes are known by IP addresses: set nodeAddress to one that the machine itself has, as ip addr shows it there")
)]
pub struct HostSpec {
    /// IP address or DNS name at which the machine's SSH server is reached, from the management cluster or,
    /// with `via`, from the jump host. Required, no default. Example: `192.0.2.10`.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = Rule::new(ADDRESS).message(ADDRESS_FORM),
        validation = Rule::new(DIALLED).message(NOT_DIALLED)
    )]
    pub address: String,

    /// IP address by which the tenant cluster knows the node: its InternalIP, and the only one in its serving
    /// certificate. The machine itself has to have it, and no two nodes of a tenant cluster the same. A Machine that
    /// has the Host keeps the one that it was given. In a tenant cluster with the addon `overlay` a Machine's address
    /// there is used instead, but for a node that is taken over. Default: `address`; required where that is a name.
    /// Example: `10.0.0.10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(
        validation = Rule::new(NODE_ADDRESS).message(NODE_ADDRESS_FORM),
        validation = Rule::new(DIALLED).message(NOT_A_NODES)
    )]
    pub node_address: Option<String>,

    /// IP address and UDP port at which nodes of other sites reach the machine in the overlay, also through an address
    /// translation that forwards the port (to 51820 of the machine). At least one node of each pair of sites needs
    /// one. Default: none, it begins. Example: `203.0.113.20:51820`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(
        validation = Rule::new(OVERLAY_ENDPOINT).message(OVERLAY_ENDPOINT_FORM),
        validation = Rule::new(OVERLAY_DIALLED).message(OVERLAY_NOT_DIALLED)
    )]
    pub overlay_endpoint: Option<String>,

    /// Port of the SSH server, 1 to 65535. Default: 22. Example: 2222.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,

    /// Who logs in; another one than root needs `escalation`. Required, no default. Example: `root`.
    #[schemars(
        length(min = 1, max = 32),
        regex(pattern = r"^[A-Za-z_][-A-Za-z0-9_.]*$")
    )]
    pub user: String,

    /// Secret of the same namespace with the private key of that user, as `ssh-keygen` writes it, without a
    /// passphrase: its field `ssh-privatekey`, as in Secrets of the type `kubernetes.io/ssh-auth`. The operator
    /// can read it only in a namespace that has a TenantCluster. Required, no default. Example: `rack-a-ssh`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub ssh_key_secret_name: String,

    /// Keys that the machine may show, 1 to 8: nothing is learnt on first use. Of one that shows another key
    /// the condition `Reachable` has the fingerprint. For a new key, pin it beside the old one first.
    /// Required, no default. Example: `["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJd3vK9mUTbOkkXmHq4pZm3O4mUgoyb0xvZ1Hh6yq0pJ"]`.
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 1024)), extend("x-kubernetes-list-type" = "set"))]
    #[x_kube(validation = Rule::new(KEYS).message(KEYS_FORM))]
    pub host_keys: Vec<String>,

    /// Jump hosts, at most 8, tried in their order, one on each way: each is another way to the machine, not a
    /// step on one way. Default: none, the machine is reached directly.
    /// Example: `[{"address": "jump.example.com", "user": "covey", "sshKeySecretName": "jump-ssh", "hostKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJd3vK9mUTbOkkXmHq4pZm3O4mUgoyb0xvZ1Hh6yq0pJ"]}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["address", "port"]))]
    pub via: Vec<JumpHost>,

    /// How the user becomes root: `None`, it is root; `Sudo`, by sudo, which must ask for no password.
    /// Default: `None`. Example: `Sudo`.
    #[serde(default)]
    pub escalation: Escalation,

    /// What node pools select by, at most 64. Default: none. Example: `{"rack": "a"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub labels: BTreeMap<String, String>,

    /// `true`: no Machine takes it. One that has it is drained and replaced. Default: `false`. Example: `true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub maintenance: bool,

    /// `true`: where the machine is a node already, it is taken over as it runs, by a node pool of the tenant cluster
    /// whose authority its kubelet believes. Where it is none, it makes no difference. Default: `false`.
    /// Example: `true`.
    #[serde(default)]
    pub adopt: bool,
}

impl HostSpec {
    /// By which address a tenant cluster is to know the machine; none where only its name is known.
    #[must_use]
    pub fn node_address(&self) -> Option<IpAddr> {
        let said = self.node_address.as_ref();
        said.unwrap_or(&self.address).parse().ok()
    }
}

impl Host {
    /// By which address the tenant cluster of the Machine that has it knows it; where none has, by which it would.
    #[must_use]
    pub fn node_address(&self) -> Option<IpAddr> {
        let claim = self.status.as_ref().and_then(|s| s.claim.as_ref());
        let given = claim.and_then(|claim| claim.node_address.as_ref()?.parse().ok());
        given.or_else(|| self.spec.node_address())
    }
}

/// A machine that leads to others, and has no key of theirs.
#[derive(Clone, Debug, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JumpHost {
    /// IP address or DNS name of its SSH server. Required, no default. Example: `jump.example.com`.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = Rule::new(ADDRESS).message(ADDRESS_FORM),
        validation = Rule::new(DIALLED).message(NOT_DIALLED)
    )]
    pub address: String,

    /// Port of its SSH server, 1 to 65535. Default: 22. Example: 2222.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,

    /// Who logs in there; no right is needed but to forward. Required, no default. Example: `covey`.
    #[schemars(
        length(min = 1, max = 32),
        regex(pattern = r"^[A-Za-z_][-A-Za-z0-9_.]*$")
    )]
    pub user: String,

    /// Secret of the same namespace with the private key of that user, in the field `ssh-privatekey`.
    /// Required, no default. Example: `jump-ssh`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub ssh_key_secret_name: String,

    /// Keys that it may show, 1 to 8. Required, no default.
    /// Example: `["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJd3vK9mUTbOkkXmHq4pZm3O4mUgoyb0xvZ1Hh6yq0pJ"]`.
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 1024)), extend("x-kubernetes-list-type" = "set"))]
    #[x_kube(validation = Rule::new(KEYS).message(KEYS_FORM))]
    pub host_keys: Vec<String>,
}

/// How a user becomes root.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Escalation {
    /// It is root.
    #[default]
    None,
    /// By `sudo -n`, which never asks.
    Sudo,
}

fn default_port() -> u16 {
    22
}
