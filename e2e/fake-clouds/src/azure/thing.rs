//! What there is in a resource group, and how the API shows it.
//!
//! Invariant: what is shown has the fields that the documentation names, under `properties` but for names, tags and zones.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::journal::Labels;

/// What something is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// A virtual machine.
    Vm,
    /// An interface of a network.
    Nic,
    /// A public address.
    Address,
    /// A disk.
    Disk,
}

impl Kind {
    pub(super) fn of(provider: &str, type_: &str) -> Option<Self> {
        match (provider, type_) {
            ("Microsoft.Compute", "virtualMachines") => Some(Self::Vm),
            ("Microsoft.Compute", "disks") => Some(Self::Disk),
            ("Microsoft.Network", "networkInterfaces") => Some(Self::Nic),
            ("Microsoft.Network", "publicIPAddresses") => Some(Self::Address),
            _ => None,
        }
    }

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Vm => "Microsoft.Compute/virtualMachines",
            Self::Disk => "Microsoft.Compute/disks",
            Self::Nic => "Microsoft.Network/networkInterfaces",
            Self::Address => "Microsoft.Network/publicIPAddresses",
        }
    }

    /// As the journal has it.
    pub(super) fn event(self) -> &'static str {
        match self {
            Self::Vm => "vm",
            Self::Disk => "disk",
            Self::Nic => "nic",
            Self::Address => "address",
        }
    }
}

/// A resource group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The subscription.
    pub subscription: String,
    /// What is in it.
    pub things: BTreeMap<(Kind, String), Thing>,
}

/// Something in a resource group.
#[derive(Clone, Debug)]
pub struct Thing {
    /// Its number, of which its GUID is made.
    pub number: u64,
    /// When it was put.
    pub created: Timestamp,
    /// Since when it is found.
    pub found: Timestamp,
    /// Since when it is listed.
    pub listed: Timestamp,
    /// What was put.
    pub body: Value,
    /// Its tags.
    pub tags: Labels,
    /// Its `provisioningState`.
    pub state: &'static str,
    /// Of a machine: whether it runs.
    pub power: &'static str,
    /// Why it failed: code and sentence.
    pub failed: Option<(&'static str, &'static str)>,
    /// What has it, by name: the machine of a disk or an interface, the interface of an address.
    pub user: Option<String>,
    /// It goes with what has it.
    pub goes_along: bool,
    /// Of an interface: the machine that it is reserved for, and until when.
    pub reserved: Option<(String, Timestamp)>,
    /// Somebody put a lock on it.
    pub locked: bool,
    pub(super) change: Option<Change>,
}

/// What is done to something at the moment.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) what: &'static str,
    /// When it is over.
    pub(super) until: Timestamp,
    pub(super) operation: u64,
}

/// A GUID that is a number's.
fn guid(number: u64) -> String {
    format!("{number:08x}-0000-4000-8000-{number:012x}")
}

impl Group {
    pub(super) fn new(subscription: &str, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            subscription: subscription.to_owned(),
            things: BTreeMap::new(),
        }
    }

    pub(super) fn id(&self) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/{}",
            self.subscription, self.name
        )
    }

    fn id_of(&self, kind: Kind, name: &str) -> String {
        format!("{}/providers/{}/{name}", self.id(), kind.path())
    }

    /// `status`: with how a machine is doing.
    pub(super) fn show(&self, kind: Kind, name: &str, thing: &Thing, status: bool) -> Value {
        let mut shown = thing.body.clone();
        shown["id"] = json!(self.id_of(kind, name));
        shown["name"] = json!(name);
        shown["tags"] = json!(thing.tags);
        let has = |kind| {
            let user = thing.user.as_ref();
            user.map(|user| json!({ "id": self.id_of(kind, user) }))
        };
        let user = match kind {
            Kind::Vm => None,
            Kind::Nic | Kind::Disk => has(Kind::Vm),
            Kind::Address => has(Kind::Nic),
        };
        let properties = &mut shown["properties"];
        properties["provisioningState"] = json!(thing.state);
        let (high, low) = (thing.number / 250 % 250, thing.number % 250 + 2);
        match kind {
            Kind::Vm => {
                properties["vmId"] = json!(guid(thing.number));
                properties["timeCreated"] = json!(thing.created.to_string());
                if status {
                    properties["instanceView"] = json!({ "statuses": statuses(thing) });
                }
                // What is sent is not given back.
                if let Some(all) = properties.as_object_mut() {
                    all.remove("userData");
                }
            }
            Kind::Disk => {
                properties["uniqueId"] = json!(guid(thing.number));
                properties["timeCreated"] = json!(thing.created.to_string());
                shown["managedBy"] = user.map_or(Value::Null, |user| user["id"].clone());
            }
            Kind::Nic => {
                properties["resourceGuid"] = json!(guid(thing.number));
                properties["virtualMachine"] = json!(user);
                let ip = &mut properties["ipConfigurations"][0]["properties"];
                ip["privateIPAddress"] = json!(format!("10.1.{high}.{low}"));
            }
            Kind::Address => {
                properties["resourceGuid"] = json!(guid(thing.number));
                properties["ipConfiguration"] = json!(user);
                properties["ipAddress"] = json!(format!("203.0.{high}.{low}"));
            }
        }
        shown
    }
}

fn statuses(thing: &Thing) -> Vec<Value> {
    let state = thing.state.to_lowercase();
    let provisioning = match thing.failed {
        Some((code, message)) if thing.state == "Failed" => json!({
            "code": format!("ProvisioningState/failed/{code}"), "level": "Error", "message": message,
        }),
        _ => json!({ "code": format!("ProvisioningState/{state}"), "level": "Info" }),
    };
    let mut all = vec![provisioning];
    if !thing.power.is_empty() {
        all.push(json!({ "code": format!("PowerState/{}", thing.power), "level": "Info" }));
    }
    all
}
