//! What is sent to the API and what comes back, as far as it matters here.
//!
//! Invariant: what an answer leaves out is none, and a value that nobody knows is kept as it came, so that an answer of
//! a newer API is still read.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Labels of one thing.
pub type Labels = BTreeMap<String, String>;

/// A server.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Server {
    /// Its ID.
    pub id: u64,
    /// Its name, of which there is one in a project.
    pub name: String,
    /// `running`, `initializing`, `starting`, `stopping`, `off`, `deleting`, `migrating`, `rebuilding`, `unknown`.
    pub status: String,
    /// When it was made, in RFC 3339.
    pub created: Option<String>,
    /// Its public addresses.
    pub public_net: PublicNet,
    /// Its addresses in networks.
    pub private_net: Vec<PrivateNet>,
    /// Its size.
    pub server_type: TypeName,
    /// Where it is.
    pub location: Option<Location>,
    /// Something is done to it.
    pub locked: bool,
    /// What must not be done to it.
    pub protection: Protection,
    /// Its labels.
    pub labels: Labels,
}

/// Public addresses of a server.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct PublicNet {
    /// IPv4.
    pub ipv4: Option<Address>,
    /// IPv6: a network.
    pub ipv6: Option<Address>,
}

/// One public address of a server.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Address {
    /// ID of its primary IP.
    pub id: Option<u64>,
    /// `1.2.3.4`, or `2001:db8::/64`.
    pub ip: String,
}

/// One address of a server in a network.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct PrivateNet {
    /// ID of the network.
    pub network: u64,
    /// The address.
    pub ip: String,
}

/// Name of a size.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct TypeName {
    /// `cx22`.
    pub name: String,
}

/// What must not be done to something.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Protection {
    /// It must not be deleted.
    pub delete: bool,
}

/// A location.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Location {
    /// `fsn1`.
    pub name: String,
    /// `eu-central`.
    pub network_zone: String,
}

/// A public address that is a thing of its own, and costs as one.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct PrimaryIp {
    /// Its ID.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// `ipv4` or `ipv6`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whose it is; none: nobody's.
    pub assignee_id: Option<u64>,
    /// When it was made, in RFC 3339.
    pub created: Option<String>,
    /// What must not be done to it.
    pub protection: Protection,
    /// Its labels.
    pub labels: Labels,
}

/// A volume. Covey makes none; a driver inside a tenant cluster may.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Volume {
    /// Its ID.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Which server has it; none: none.
    pub server: Option<u64>,
    /// When it was made, in RFC 3339.
    pub created: Option<String>,
    /// Its labels.
    pub labels: Labels,
}

/// Something that has a name: an SSH key, an image, a network, a firewall.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Named {
    /// Its ID.
    pub id: u64,
    /// Its name; images that users made have none.
    pub name: Option<String>,
    /// Of an image: `x86` or `arm`.
    pub architecture: Option<String>,
    /// Of an image: `available`, `creating`, `unavailable`.
    pub status: Option<String>,
    /// Of an image: since when it is deprecated, in RFC 3339.
    pub deprecated: Option<String>,
}

/// A size.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct ServerType {
    /// Its ID.
    pub id: u64,
    /// `cx22`.
    pub name: String,
    /// Processors.
    pub cores: u32,
    /// Memory in GB, which are 2^30 bytes each.
    pub memory: f64,
    /// Disk in GB.
    pub disk: u64,
    /// `x86` or `arm`.
    pub architecture: String,
    /// What it costs, by location.
    pub prices: Vec<Price>,
    /// Everywhere: since when it is not made any more.
    pub deprecation: Option<Deprecation>,
    /// Where it is made.
    pub locations: Vec<TypeLocation>,
}

/// What a size costs in a location.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Price {
    /// `fsn1`.
    pub location: String,
    /// For an hour.
    pub price_hourly: Amount,
}

/// An amount of money.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Amount {
    /// Without tax, as a decimal number.
    pub net: String,
}

/// A size in a location.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct TypeLocation {
    /// `fsn1`.
    pub name: String,
    /// Some of it is left; none: nobody said.
    pub available: Option<bool>,
    /// Since when it is not made there any more.
    pub deprecation: Option<Deprecation>,
}

/// That something will not be made any more.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Deprecation {
    /// When that was said, in RFC 3339.
    pub announced: Option<String>,
    /// From when on none can be made, in RFC 3339.
    pub unavailable_after: Option<String>,
}

/// Something that is done and takes a while.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Action {
    /// Its ID.
    pub id: u64,
    /// `create_server`, `start_server`, …
    pub command: String,
    /// `running`, `success`, `error`.
    pub status: String,
    /// Why it failed.
    pub error: Option<Fault>,
}

/// What went wrong, as the API says it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Fault {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
    /// More, of some codes.
    pub details: Option<serde_json::Value>,
}

/// The answer to a call that was refused.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Refused {
    /// Why.
    pub error: Fault,
}

/// What stands beside a list.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Meta {
    /// Which page it is.
    pub pagination: Option<Pagination>,
}

/// Which page it is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Pagination {
    /// The next one; none: there is none.
    pub next_page: Option<u32>,
    /// Entries of all pages; none: that is not known.
    pub total_entries: Option<u64>,
}

/// `POST /servers`.
#[derive(Clone, Eq, PartialEq, Serialize)]
pub struct CreateServer {
    /// Its name.
    pub name: String,
    /// Its size.
    pub server_type: String,
    /// Its image: an ID or a name.
    pub image: String,
    /// Where.
    pub location: String,
    /// Who may log in, by name.
    pub ssh_keys: Vec<String>,
    /// Networks, by ID.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<u64>,
    /// Firewalls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub firewalls: Vec<FirewallRef>,
    /// What cloud-init does.
    pub user_data: String,
    /// Its labels.
    pub labels: Labels,
    /// Its public addresses.
    pub public_net: WantedNet,
    /// It is started at once.
    pub start_after_create: bool,
}

impl fmt::Debug for CreateServer {
    /// Without the user data, which have a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateServer")
            .field("name", &self.name)
            .field("server_type", &self.server_type)
            .finish_non_exhaustive()
    }
}

/// A firewall of a server.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct FirewallRef {
    /// Its ID.
    pub firewall: u64,
}

/// Public addresses of a server that is made.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct WantedNet {
    /// It has an IPv4 address.
    pub enable_ipv4: bool,
    /// It has an IPv6 network.
    pub enable_ipv6: bool,
    /// Which: ID of a primary IP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<u64>,
    /// Which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<u64>,
}

/// `POST /primary_ips`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct CreatePrimaryIp {
    /// Its name.
    pub name: String,
    /// `ipv4` or `ipv6`.
    #[serde(rename = "type")]
    pub type_: &'static str,
    /// What may have it.
    pub assignee_type: &'static str,
    /// Where.
    pub location: String,
    /// It goes with what has it.
    pub auto_delete: bool,
    /// Its labels.
    pub labels: Labels,
}
