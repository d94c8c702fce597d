//! What comes back from the API, as far as it matters here.
//!
//! Invariant: what an answer leaves out is none, and a value that nobody knows is kept as it came, so that an answer of
//! a newer API is still read. What is asked for by its name has an ID, or the answer is another.

use providers::identity::Labels;
use serde::{Deserialize, Deserializer};

/// A resource group.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
pub struct Group {
    /// `/subscriptions/ID/resourceGroups/NAME`.
    pub id: String,
}

/// Something in a resource group.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Thing<P> {
    /// Its ID, whose end is its name.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its tags, as Azure has them.
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Labels,
    /// Its zone.
    #[serde(default, deserialize_with = "or_default")]
    pub zones: Vec<String>,
    /// Of a disk: the ID of the machine that has it.
    #[serde(default)]
    pub managed_by: Option<String>,
    /// All else.
    #[serde(default)]
    pub properties: P,
}

/// A virtual machine.
pub type Vm = Thing<VmProperties>;
/// An interface of a network.
pub type Nic = Thing<NicProperties>;
/// A public address.
pub type Address = Thing<AddressProperties>;
/// A disk.
pub type Disk = Thing<DiskProperties>;

/// Of a virtual machine.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct VmProperties {
    /// A GUID, which no other ever has.
    pub vm_id: String,
    /// `Creating`, `Updating`, `Succeeded`, `Failed`, `Deleting`.
    pub provisioning_state: String,
    /// When it was made, in RFC 3339.
    pub time_created: Option<String>,
    /// Its size.
    pub hardware_profile: Hardware,
    /// Its disk.
    pub storage_profile: Storage,
    /// `Spot` or `Regular`.
    pub priority: Option<String>,
    /// How it is doing; none: that was not asked.
    pub instance_view: Option<InstanceView>,
}

/// The size of a machine.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Hardware {
    /// `Standard_D4s_v5`.
    pub vm_size: Option<String>,
}

/// The disks of a machine.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Storage {
    /// The one that it is started from.
    pub os_disk: OsDisk,
}

/// The disk that a machine is started from.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct OsDisk {
    /// Its name.
    pub name: Option<String>,
}

/// How a machine is doing.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct InstanceView {
    /// Each a code: `PowerState/running`, `ProvisioningState/failed/AllocationFailed`.
    pub statuses: Vec<Status>,
}

/// One thing of how a machine is doing.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Status {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: Option<String>,
}

/// Of an interface.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct NicProperties {
    /// A GUID, which no other ever has.
    pub resource_guid: String,
    /// As of a machine.
    pub provisioning_state: String,
    /// Its addresses.
    pub ip_configurations: Vec<IpConfiguration>,
    /// The machine that has it.
    pub virtual_machine: Option<Link>,
}

/// An address of an interface.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct IpConfiguration {
    /// All of it.
    pub properties: IpProperties,
}

/// Of an address of an interface.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct IpProperties {
    /// The address in the subnet.
    #[serde(rename = "privateIPAddress")]
    pub private_ip_address: Option<String>,
}

/// Something else, by its ID.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Link {
    /// Its ID.
    pub id: String,
}

/// Of a public address.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct AddressProperties {
    /// A GUID, which no other ever has.
    pub resource_guid: String,
    /// As of a machine.
    pub provisioning_state: String,
    /// The address.
    pub ip_address: Option<String>,
    /// What has it.
    pub ip_configuration: Option<Link>,
}

/// Of a disk.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct DiskProperties {
    /// A GUID, which no other ever has.
    pub unique_id: String,
    /// When it was made, in RFC 3339.
    pub time_created: Option<String>,
    /// `Succeeded`, `Deleting`.
    pub provisioning_state: String,
}

/// Something that is done and takes a while.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct Operation {
    /// `InProgress`, `Succeeded`, `Failed`, `Canceled`.
    pub status: String,
    /// Why it failed.
    #[serde(default)]
    pub error: Fault,
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
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
}

/// A page of a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// What is on it: an answer without it is none of a list.
    pub value: Vec<T>,
    /// Where the next one is; none: there is none.
    #[serde(default)]
    pub next_link: Option<String>,
}

/// A size, or something else that can be had.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Sku {
    /// `virtualMachines` of sizes.
    pub resource_type: String,
    /// `Standard_D4s_v5`.
    pub name: String,
    /// What its processors are counted with.
    pub family: String,
    /// Where in a location it is.
    pub location_info: Vec<LocationInfo>,
    /// What it has.
    pub capabilities: Vec<Capability>,
    /// What keeps it from the subscription.
    pub restrictions: Vec<Restriction>,
}

/// Where in a location a size is.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct LocationInfo {
    /// `westeurope`.
    pub location: String,
    /// Its zones.
    pub zones: Vec<String>,
}

/// Something that a size has.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Capability {
    /// `vCPUs`.
    pub name: String,
    /// `4`.
    pub value: String,
}

/// What keeps a size from a subscription.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Restriction {
    /// `Location` or `Zone`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `NotAvailableForSubscription` or `QuotaId`.
    pub reason_code: String,
    /// Where.
    pub restriction_info: RestrictionInfo,
}

/// Where a size is kept from a subscription.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct RestrictionInfo {
    /// In which zones.
    pub zones: Vec<String>,
}

/// How much there is of something, and may be.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Usage {
    /// Of what.
    pub name: UsageName,
    /// How much there is.
    pub current_value: i64,
    /// How much there may be.
    pub limit: i64,
}

/// Of what something is counted.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct UsageName {
    /// `cores`, `lowPriorityCores`, or a family of sizes.
    pub value: String,
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
    /// For people; it begins with Entra ID's own code, and goes on for lines.
    pub error_description: String,
}

/// First 64 bits of a GUID, by which something is told from all else where a number is asked for; none: it is no GUID.
#[must_use]
pub fn number(guid: &str) -> Option<u64> {
    let digits: String = guid.chars().filter(char::is_ascii_hexdigit).collect();
    let first = digits.get(..16).filter(|_| digits.len() == 32)?;
    u64::from_str_radix(first, 16).ok()
}

/// What may be said to be nothing (`null`).
fn or_default<'a, T: Deserialize<'a> + Default, D: Deserializer<'a>>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}
