//! What is sent to the API and what comes back, as far as it matters here.
//!
//! Invariant: what an answer leaves out is none, and a value that nobody knows is kept as it came, so that an answer of
//! a newer API is still read. Numbers of 64 bits come as texts.

use std::fmt;

use providers::identity::Labels;
use serde::{Deserialize, Serialize};

/// A project.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct ProjectInfo {
    /// Its number.
    pub id: String,
}

/// An instance.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Instance {
    /// Its ID.
    pub id: String,
    /// Its name, of which there is one in a zone.
    pub name: String,
    /// `PROVISIONING`, `STAGING`, `RUNNING`, `STOPPING`, `SUSPENDING`, `SUSPENDED`, `REPAIRING`, `TERMINATED`.
    pub status: String,
    /// When it was made, in RFC 3339.
    pub creation_timestamp: Option<String>,
    /// Its size, as a link.
    pub machine_type: String,
    /// Its labels, as Google spells them.
    pub labels: Labels,
    /// Its networks.
    pub network_interfaces: Vec<Interface>,
    /// How it is kept.
    pub scheduling: Option<Scheduling>,
    /// It must not be deleted.
    pub deletion_protection: bool,
}

/// One network of an instance.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Interface {
    /// Its address there.
    #[serde(rename = "networkIP")]
    pub network_ip: Option<String>,
    /// Its public addresses.
    pub access_configs: Vec<AccessConfig>,
}

/// A public address of an instance.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct AccessConfig {
    /// The address.
    #[serde(rename = "natIP")]
    pub nat_ip: Option<String>,
}

/// How an instance is kept.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Scheduling {
    /// `STANDARD` or `SPOT`.
    pub provisioning_model: String,
    /// What becomes of a spot instance that is taken back: `DELETE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_termination_action: Option<String>,
    /// It is started anew after its host failed.
    pub automatic_restart: bool,
    /// What becomes of it while its host is maintained: `MIGRATE` or `TERMINATE`.
    pub on_host_maintenance: String,
}

/// A disk.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Disk {
    /// Its ID.
    pub id: String,
    /// Its name, of which there is one in a zone.
    pub name: String,
    /// When it was made, in RFC 3339.
    pub creation_timestamp: Option<String>,
    /// Its labels, as Google spells them.
    pub labels: Labels,
    /// Who has it, as links.
    pub users: Vec<String>,
}

/// An address that is a thing of its own, and costs as one. Covey makes none.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Address {
    /// Its ID.
    pub id: String,
    /// Its name, of which there is one in a region.
    pub name: String,
    /// When it was made, in RFC 3339.
    pub creation_timestamp: Option<String>,
    /// Its labels, as Google spells them.
    pub labels: Labels,
    /// Who has it, as links.
    pub users: Vec<String>,
}

/// A size in a zone.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineType {
    /// `e2-standard-4`.
    pub name: String,
    /// Processors.
    pub guest_cpus: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// `X86_64` or `ARM64`; none: the former.
    pub architecture: Option<String>,
    /// It is on its way out.
    pub deprecated: Option<Deprecated>,
}

/// That something is on its way out.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Deprecated {
    /// `DEPRECATED`, `OBSOLETE` or `DELETED`.
    pub state: String,
}

/// An image.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Image {
    /// `READY`, `PENDING`, `FAILED`, `DELETING`.
    pub status: String,
}

/// Something that is done and takes a while.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Operation {
    /// Its ID.
    pub id: String,
    /// `insert`, `delete`, …
    pub operation_type: String,
    /// What it is done to, as a link.
    pub target_link: String,
    /// When it was asked for, in RFC 3339.
    pub insert_time: Option<String>,
    /// When it was over, in RFC 3339.
    pub end_time: Option<String>,
    /// `PENDING`, `RUNNING`, `DONE`.
    pub status: String,
    /// Why it failed.
    pub error: Option<OperationError>,
    /// The status of HTTP that it would have had, had it failed at once.
    pub http_error_status_code: Option<u16>,
}

/// Why an operation failed.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct OperationError {
    /// The first one counts.
    pub errors: Vec<OperationFault>,
}

/// One reason why an operation failed.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct OperationFault {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
}

/// The answer to a call that was refused.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Refused {
    /// Why.
    pub error: Fault,
}

/// What went wrong, as the API says it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Fault {
    /// For people.
    pub message: String,
    /// The first one counts.
    pub errors: Vec<Detail>,
}

/// One reason of a refusal.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Detail {
    /// For programs.
    pub reason: String,
}

/// A page of a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// What is on it; an empty one has none.
    #[serde(default = "Vec::new")]
    pub items: Vec<T>,
    /// The next one; none: there is none.
    #[serde(default)]
    pub next_page_token: Option<String>,
    /// Something about it.
    #[serde(default)]
    pub warning: Option<Warning>,
    /// Which lists these are: an answer without it is none of a list.
    pub kind: String,
}

/// Something about a list.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Warning {
    /// `UNREACHABLE`, `NO_RESULTS_ON_PAGE`, …
    pub code: String,
}

/// A token that was had.
#[derive(Clone, Deserialize)]
pub struct Granted {
    /// The token.
    pub access_token: String,
    /// How long it lives, in seconds.
    pub expires_in: u32,
}

/// Why no token was had (RFC 6749, 5.2).
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct NotGranted {
    /// For programs.
    pub error: String,
    /// For people.
    pub error_description: String,
}

/// `POST …/instances`.
#[derive(Clone, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateInstance {
    /// Its name.
    pub name: String,
    /// Its size, below the project.
    pub machine_type: String,
    /// Its labels.
    pub labels: Labels,
    /// Its disk.
    pub disks: Vec<CreateDisk>,
    /// Its network.
    pub network_interfaces: Vec<CreateInterface>,
    /// What it can ask for.
    pub metadata: Metadata,
    /// What rules of the firewall choose it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Tags>,
    /// How it is kept.
    pub scheduling: Scheduling,
}

impl fmt::Debug for CreateInstance {
    /// Without the user data, which have a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateInstance")
            .field("name", &self.name)
            .field("machine_type", &self.machine_type)
            .finish_non_exhaustive()
    }
}

/// The disk of an instance that is made.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateDisk {
    /// It is started from it.
    pub boot: bool,
    /// It goes with the instance.
    pub auto_delete: bool,
    /// What it is made of.
    pub initialize_params: InitializeParams,
}

/// What a disk is made of.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The image.
    pub source_image: String,
    /// Its size in GB.
    pub disk_size_gb: String,
    /// Its labels.
    pub labels: Labels,
}

/// The network of an instance that is made.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateInterface {
    /// The subnet.
    pub subnetwork: String,
    /// A public address; none: it has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access_configs: Vec<CreateAccess>,
}

/// A public address of an instance that is made.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct CreateAccess {
    /// `ONE_TO_ONE_NAT`.
    #[serde(rename = "type")]
    pub type_: &'static str,
    /// Its name.
    pub name: &'static str,
}

/// What an instance can ask for.
#[derive(Clone, Eq, PartialEq, Serialize)]
pub struct Metadata {
    /// By key.
    pub items: Vec<MetadataItem>,
}

/// One thing that an instance can ask for.
#[derive(Clone, Eq, PartialEq, Serialize)]
pub struct MetadataItem {
    /// What it is called.
    pub key: &'static str,
    /// What it is.
    pub value: String,
}

/// What rules of the firewall choose an instance by.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Tags {
    /// By name.
    pub items: Vec<String>,
}
