//! What there is in one project, and how the API shows it.
//!
//! Invariant: what is shown has the fields that the documentation names; numbers of 64 bits are texts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::journal::Labels;

/// What stands before the path of a thing in a link.
const LINK: &str = "https://www.googleapis.com/compute/v1";

/// A project.
#[derive(Clone, Debug)]
pub struct Project {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u64,
    /// Instances, by zone and name.
    pub instances: BTreeMap<(String, String), Instance>,
    /// Disks, by zone and name.
    pub disks: BTreeMap<(String, String), Disk>,
    /// Addresses that are things of their own, by region and name.
    pub addresses: BTreeMap<(String, String), Address>,
    /// Images, by name.
    pub images: Vec<String>,
    /// Subnets, by region and name.
    pub subnets: Vec<(String, String)>,
    pub(super) operations: BTreeMap<u64, Operation>,
    /// Which operation a request began, by `requestId`.
    pub(super) requests: BTreeMap<String, u64>,
}

/// An instance.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its ID.
    pub id: u64,
    /// Its status.
    pub status: &'static str,
    /// When it was asked for.
    pub created: Timestamp,
    /// Since when it is found.
    pub visible: Timestamp,
    /// What was asked for.
    pub body: Value,
    /// Its labels.
    pub labels: Labels,
    /// Somebody protected it.
    pub protected: bool,
}

/// A disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Its ID.
    pub id: u64,
    /// When it was made.
    pub created: Timestamp,
    /// Which instance has it, by name.
    pub user: Option<String>,
    /// It goes with it.
    pub auto_delete: bool,
    /// Its labels.
    pub labels: Labels,
}

/// An address that is a thing of its own.
#[derive(Clone, Debug)]
pub struct Address {
    /// Its ID.
    pub id: u64,
    /// When it was made.
    pub created: Timestamp,
    /// Its labels.
    pub labels: Labels,
}

/// Something that is done.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) id: u64,
    pub(super) kind: &'static str,
    pub(super) zone: String,
    pub(super) target: String,
    pub(super) begun: Timestamp,
    /// When it is over.
    pub(super) until: Timestamp,
    pub(super) is_done: bool,
    /// How it fails: code, status of HTTP, sentence.
    pub(super) error: Option<(&'static str, u16, &'static str)>,
}

impl Project {
    pub(super) fn new(name: &str, number: u64) -> Self {
        Self {
            name: name.to_owned(),
            number,
            instances: BTreeMap::new(),
            disks: BTreeMap::new(),
            addresses: BTreeMap::new(),
            images: vec!["worker-1-36".to_owned()],
            subnets: vec![("europe-west1".to_owned(), "workers".to_owned())],
            operations: BTreeMap::new(),
            requests: BTreeMap::new(),
        }
    }

    /// What is done to an instance at the moment.
    pub(super) fn running(&self, zone: &str, name: &str) -> Option<&Operation> {
        let mut operations = self.operations.values();
        operations.find(|o| !o.is_done && o.zone == zone && o.target == name)
    }

    pub(super) fn show_instance(&self, zone: &str, name: &str, instance: &Instance) -> Value {
        let body = &instance.body;
        let mut net = body["networkInterfaces"][0].clone();
        let id = instance.id;
        net["networkIP"] = json!(format!("10.132.{}.{}", id / 250 % 250, id % 250 + 2));
        if net["accessConfigs"].is_array() {
            net["accessConfigs"][0]["natIP"] =
                json!(format!("203.0.{}.{}", id / 250 % 250, id % 250 + 2));
        }
        json!({
            "kind": "compute#instance", "id": id.to_string(), "name": name, "status": instance.status,
            "creationTimestamp": instance.created.to_string(), "labels": instance.labels,
            "zone": self.link(&format!("zones/{zone}")),
            "machineType": self.link(body["machineType"].as_str().unwrap_or_default()),
            "networkInterfaces": [net], "scheduling": body["scheduling"],
            "deletionProtection": instance.protected, "metadata": body["metadata"],
        })
    }

    pub(super) fn show_disk(&self, zone: &str, name: &str, disk: &Disk) -> Value {
        let user = disk.user.as_ref();
        let users: Vec<_> = user
            .map(|user| self.link(&format!("zones/{zone}/instances/{user}")))
            .into_iter()
            .collect();
        json!({
            "kind": "compute#disk", "id": disk.id.to_string(), "name": name, "labels": disk.labels, "users": users,
            "creationTimestamp": disk.created.to_string(), "status": "READY",
        })
    }

    pub(super) fn show_operation(&self, operation: &Operation) -> Value {
        let target = format!("zones/{}/instances/{}", operation.zone, operation.target);
        let mut shown = json!({
            "kind": "compute#operation", "id": operation.id.to_string(),
            "name": format!("operation-{}", operation.id), "operationType": operation.kind,
            "targetLink": self.link(&target), "insertTime": operation.begun.to_string(),
            "status": if operation.is_done { "DONE" } else { "RUNNING" },
        });
        if operation.is_done {
            shown["endTime"] = json!(operation.until.to_string());
            if let Some((code, status, message)) = operation.error {
                shown["error"] = json!({ "errors": [{ "code": code, "message": message }] });
                shown["httpErrorStatusCode"] = json!(status);
            }
        }
        shown
    }

    fn link(&self, path: &str) -> String {
        format!("{LINK}/projects/{}/{path}", self.name)
    }
}

impl Address {
    pub(super) fn show(&self, name: &str) -> Value {
        json!({
            "kind": "compute#address", "id": self.id.to_string(), "name": name, "labels": self.labels,
            "creationTimestamp": self.created.to_string(), "status": "RESERVED", "users": [],
        })
    }
}
