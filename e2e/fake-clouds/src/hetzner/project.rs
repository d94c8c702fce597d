//! What there is in one project, and how the API shows it.
//!
//! Invariant: what is shown has the fields that the documentation names.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::catalogue;
use super::limit::Bucket;
use crate::journal::Labels;

/// A project.
#[derive(Clone, Debug)]
pub struct Project {
    /// Servers, by ID.
    pub servers: BTreeMap<u64, Server>,
    /// Primary IPs, by ID.
    pub addresses: BTreeMap<u64, Address>,
    /// Volumes, by ID.
    pub volumes: BTreeMap<u64, Named>,
    /// SSH keys.
    pub keys: Vec<Key>,
    /// Networks.
    pub networks: Vec<Named>,
    /// Firewalls.
    pub firewalls: Vec<Named>,
    /// Images that users made.
    pub images: Vec<Named>,
    pub(super) actions: BTreeMap<u64, Action>,
    pub(super) bucket: Bucket,
}

/// An SSH key.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its ID.
    pub id: u64,
    /// Its name.
    pub name: String,
}

/// Something with a name and labels.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its ID.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
}

/// A server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its ID.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its status.
    pub status: &'static str,
    /// When it was made.
    pub created: Timestamp,
    /// Its size.
    pub server_type: String,
    /// Where it is.
    pub location: String,
    /// What cloud-init was given.
    pub user_data: String,
    /// Its networks, by ID.
    pub networks: Vec<u64>,
    /// Somebody protected it.
    pub protected: bool,
    /// Its labels.
    pub labels: Labels,
}

/// A primary IP.
#[derive(Clone, Debug)]
pub struct Address {
    /// Its ID.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Which server has it.
    pub server: Option<u64>,
    /// It goes with it.
    pub auto_delete: bool,
    /// Where it is.
    pub location: String,
    /// When it was made.
    pub created: Timestamp,
    /// Its labels.
    pub labels: Labels,
}

/// Something that is done.
#[derive(Clone, Debug)]
pub(super) struct Action {
    pub(super) id: u64,
    pub(super) command: &'static str,
    pub(super) status: &'static str,
    pub(super) server: u64,
    /// When it is over.
    pub(super) until: Timestamp,
    pub(super) error: Option<(&'static str, &'static str)>,
}

impl Project {
    pub(super) fn new(next_id: &mut u64, now: Timestamp) -> Self {
        let mut id = || {
            *next_id += 1;
            *next_id
        };
        let named = |id: u64, name: &str| Named {
            id,
            name: name.to_owned(),
            labels: Labels::new(),
        };
        Self {
            servers: BTreeMap::new(),
            addresses: BTreeMap::new(),
            volumes: BTreeMap::new(),
            keys: vec![Key {
                id: id(),
                name: "covey".to_owned(),
            }],
            networks: vec![named(id(), "workers")],
            firewalls: vec![named(id(), "closed")],
            images: vec![named(id(), "worker-1.35.4")],
            actions: BTreeMap::new(),
            bucket: Bucket::new(now),
        }
    }

    /// Whether something is done to the server.
    pub(super) fn is_locked(&self, id: u64) -> bool {
        let mut actions = self.actions.values();
        actions.any(|action| action.server == id && action.status == "running")
    }

    /// The server as the API shows it.
    pub(super) fn show_server(&self, server: &Server, behaviour: &Behaviour) -> Value {
        let public = |family: &str| {
            let own = |a: &&Address| a.server == Some(server.id) && a.family == family;
            let found = self.addresses.values().find(own);
            found.map(|a| json!({ "id": a.id, "ip": ip(a), "blocked": false, "dns_ptr": null }))
        };
        let private: Vec<_> = server
            .networks
            .iter()
            .map(|network| {
                let ip = format!("10.0.{}.{}", server.id / 250 % 250, server.id % 250 + 2);
                json!({ "network": network, "ip": ip, "alias_ips": [], "mac_address": "86:00:ff:2a:7d:e1" })
            })
            .collect();
        json!({
            "id": server.id, "name": server.name, "status": server.status, "created": server.created.to_string(),
            "public_net": { "ipv4": public("ipv4"), "ipv6": public("ipv6"), "floating_ips": [], "firewalls": [] },
            "private_net": private,
            "server_type": catalogue::server_type(&server.server_type, &behaviour.exhausted),
            "location": catalogue::location(&server.location),
            "image": { "id": 1, "type": "system", "name": "debian-12" },
            "rescue_enabled": false, "locked": self.is_locked(server.id),
            "protection": { "delete": server.protected, "rebuild": server.protected },
            "labels": server.labels, "volumes": [], "load_balancers": [], "placement_group": null,
        })
    }
}

/// Its address, made of its ID.
fn ip(address: &Address) -> String {
    let id = address.id;
    match address.family.as_str() {
        "ipv4" => format!("203.0.{}.{}", id / 250 % 250, id % 250 + 2),
        _ => format!("2001:db8:{id:x}::/64"),
    }
}

impl Address {
    /// As the API shows it.
    pub(super) fn show(&self) -> Value {
        json!({
            "id": self.id, "name": self.name, "ip": ip(self), "type": self.family, "assignee_id": self.server,
            "assignee_type": if self.server.is_some() { "server" } else { "unassigned" },
            "auto_delete": self.auto_delete, "blocked": false, "created": self.created.to_string(),
            "dns_ptr": [], "location": catalogue::location(&self.location), "protection": { "delete": false },
            "labels": self.labels,
        })
    }
}

impl Named {
    /// As the API shows it.
    pub(super) fn show(&self) -> Value {
        json!({ "id": self.id, "name": self.name, "labels": self.labels })
    }
}

impl Action {
    /// As the API shows it.
    pub(super) fn show(&self) -> Value {
        let error = self
            .error
            .map(|(code, message)| json!({ "code": code, "message": message }));
        json!({
            "id": self.id, "command": self.command, "status": self.status,
            "progress": if self.status == "running" { 0 } else { 100 },
            "started": "2026-01-30T23:55:00+00:00", "finished": null,
            "resources": [{ "id": self.server, "type": "server" }], "error": error,
        })
    }
}
