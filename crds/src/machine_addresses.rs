//! `MachineAddresses`: which addresses in the management cluster belong to machines of a tenant cluster, and what is
//! known of its machines elsewhere. The operator writes them; the cloud controller manager, which may read neither
//! pods nor Machines, goes by them, and so does the policy that says where endpoints of load balancers may lead: to
//! `addresses` alone, since those of `machines` may be what a user wrote.
//!
//! Invariant: nothing here was ever said by a guest: KubeVirt's report of interfaces is what the guest's
//! agent says of itself (`pkg/network/setup/netstat.go`), addresses of the pod around it are the cluster
//! network's own. An address belongs to one machine.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Name of the one object in each tenant namespace.
pub const NAME: &str = "machines";

/// Which addresses belong to machines of a tenant cluster. The operator alone writes it.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "covey.dev",
    version = "v1alpha1",
    kind = "MachineAddresses",
    plural = "machineaddresses",
    namespaced,
    derive = "PartialEq",
    doc = "Which addresses belong to machines of a tenant cluster. The operator alone writes it.",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MachineAddressesSpec {
    /// Addresses, and whose each is. Default: none. Example: `{"10.0.1.7": {"machine": "workers-x2k9p",
    /// "instance": "5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11", "node": "node-a", "primary": true}}`.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 20_000))]
    pub addresses: BTreeMap<String, AddressOwner>,

    /// Machines that are no virtual machines of the management cluster, by the names of their Machines: what their
    /// nodes are given. Nobody sends traffic to their addresses by this. Default: none. Example: `{"hosts-x2k9p":
    /// {"providerID": "static://rack-a-1/hosts-x2k9p", "addresses": ["192.0.2.10"], "state": "Present",
    /// "since": "2026-11-26T12:00:00Z"}}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 5_000))]
    pub machines: BTreeMap<String, RemoteMachine>,
}

/// A machine that is no virtual machine of the management cluster. Example: `{"state": "Present", …}`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteMachine {
    /// What provider and node call it. Example: `static://rack-a-1/hosts-x2k9p`.
    #[serde(rename = "providerID")]
    #[schemars(length(max = 512))]
    pub provider_id: String,
    /// IP addresses by which the tenant cluster knows the node, the primary one first, at most 4. Default: none.
    /// Example: `["192.0.2.10"]`.
    #[serde(default)]
    #[schemars(length(max = 4), inner(length(max = 64)))]
    pub addresses: Vec<String>,
    /// The zone that it is in. Default: none. Example: `rack-a`.
    #[serde(default)]
    #[schemars(length(max = 63))]
    pub zone: Option<String>,
    /// The region that it is in. Default: none. Example: `berlin`.
    #[serde(default)]
    #[schemars(length(max = 63))]
    pub region: Option<String>,
    /// What kind of machine it is. Default: none. Example: `large`.
    #[serde(default)]
    #[schemars(length(max = 63))]
    pub instance_type: Option<String>,
    /// How far it is. Example: `Present`.
    pub state: RemoteState,
    /// Since when. Example: `2026-11-26T12:00:00Z`.
    pub since: Time,
}

/// How far a machine is. Example: `Present`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum RemoteState {
    /// It is there; whether it answers is its node's matter.
    Present,
    /// Its provider says that it is stopped.
    Stopped,
    /// Its absence is proven (docs/providers.md): its Node may be deleted. An entry that is not there proves nothing.
    Gone,
}

/// Whose an address is.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressOwner {
    /// Name of the Machine. Example: `workers-x2k9p`.
    #[schemars(length(max = 253))]
    pub machine: String,
    /// UID of the virtual machine's instance: another one has other addresses.
    /// Example: `5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11`.
    #[schemars(length(max = 64))]
    pub instance: String,
    /// The management cluster's node that it runs on: elsewhere it has others. Example: `node-a`.
    #[schemars(length(max = 253))]
    pub node: String,
    /// The machine's address of the family that the cluster network prefers. Example: true.
    pub primary: bool,
}

/// Addresses of one machine, as they are published.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PublishedAddresses {
    /// UID of the instance that has them.
    pub instance: String,
    /// The management cluster's node that it runs on.
    pub node: String,
    /// One for each family, the primary one first.
    pub addresses: Vec<IpAddr>,
}

impl PublishedAddresses {
    /// Whether these are of that instance on that node.
    #[must_use]
    pub fn are_of(&self, instance: &str, node: &str) -> bool {
        self.instance == instance && self.node == node && !self.addresses.is_empty()
    }
}

impl MachineAddresses {
    /// Those of one machine; none where there are none.
    #[must_use]
    pub fn of(&self, machine: &str) -> Option<PublishedAddresses> {
        let entries = self.spec.addresses.iter();
        let of_it = entries.filter(|(_, owner)| owner.machine == machine);
        collect(of_it).remove(machine)
    }

    /// Names of machines that have been gone since before then: nobody needs to be told any more.
    #[must_use]
    pub fn gone_before(&self, then: &Time) -> Vec<&String> {
        let entries = self.spec.machines.iter();
        let old = entries
            .filter(|(_, machine)| machine.state == RemoteState::Gone && machine.since.0 < then.0);
        old.map(|(name, _)| name).collect()
    }

    /// Those of each machine.
    #[must_use]
    pub fn by_machine(&self) -> BTreeMap<String, PublishedAddresses> {
        collect(self.spec.addresses.iter())
    }
}

/// What is no address is left out.
fn collect<'a>(
    entries: impl Iterator<Item = (&'a String, &'a AddressOwner)>,
) -> BTreeMap<String, PublishedAddresses> {
    let mut found = BTreeMap::<String, PublishedAddresses>::new();
    for (address, owner) in entries {
        let Ok(address) = address.parse() else {
            continue;
        };
        let of_it = found.entry(owner.machine.clone()).or_default();
        of_it.instance.clone_from(&owner.instance);
        of_it.node.clone_from(&owner.node);
        match owner.primary {
            true => of_it.addresses.insert(0, address),
            false => of_it.addresses.push(address),
        }
    }
    found
}

/// What makes `before` of one machine into `now`: a JSON merge patch of `spec.addresses`.
#[must_use]
pub fn change(
    machine: &str,
    before: Option<&PublishedAddresses>,
    now: Option<&PublishedAddresses>,
) -> Value {
    let gone = before.into_iter().flat_map(|before| &before.addresses);
    let gone = gone.map(|address| (address.to_string(), Value::Null));
    let mut changes: Map<String, Value> = gone.collect();
    for (place, address) in now
        .into_iter()
        .flat_map(|now| now.addresses.iter().enumerate())
    {
        let owner = AddressOwner {
            machine: machine.to_owned(),
            instance: now.map(|now| now.instance.clone()).unwrap_or_default(),
            node: now.map(|now| now.node.clone()).unwrap_or_default(),
            primary: place == 0,
        };
        changes.insert(address.to_string(), json!(owner));
    }
    Value::Object(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(addresses: &[&str]) -> PublishedAddresses {
        PublishedAddresses {
            instance: "u".to_owned(),
            node: "n".to_owned(),
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
        }
    }

    fn patched(mut object: MachineAddresses, change: &Value) -> MachineAddresses {
        for (address, owner) in change.as_object().unwrap() {
            match owner {
                Value::Null => drop(object.spec.addresses.remove(address)),
                owner => {
                    let owner = serde_json::from_value(owner.clone()).unwrap();
                    object.spec.addresses.insert(address.clone(), owner);
                }
            }
        }
        object
    }

    #[test]
    fn what_is_written_is_read_and_others_are_left_alone() {
        let (one, other) = (
            published(&["fd00::7", "10.0.0.7"]),
            published(&["10.0.0.8"]),
        );
        let mut object = MachineAddresses::new(NAME, MachineAddressesSpec::default());
        object = patched(object, &change("one", None, Some(&one)));
        object = patched(object, &change("other", None, Some(&other)));
        assert_eq!(object.of("one"), Some(one.clone()));
        assert_eq!(object.by_machine()["other"], other);
        let moved = published(&["10.0.0.9"]);
        object = patched(object, &change("one", Some(&one), Some(&moved)));
        assert_eq!(object.of("one"), Some(moved.clone()));
        object = patched(object, &change("one", Some(&moved), None));
        assert_eq!((object.of("one"), object.of("other")), (None, Some(other)));
    }

    #[test]
    fn what_is_no_address_is_nobodys() {
        let mut object = MachineAddresses::new(NAME, MachineAddressesSpec::default());
        let owner = AddressOwner {
            machine: "one".to_owned(),
            ..AddressOwner::default()
        };
        object.spec.addresses.insert("10.0.0".to_owned(), owner);
        assert_eq!(object.of("one"), None);
    }
}
