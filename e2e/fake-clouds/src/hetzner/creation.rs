//! Making servers and primary IPs: what is refused, and what comes of the rest.
//!
//! Invariant: a request is refused as a whole, or carried out as a whole.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::catalogue;
use super::contents::Contents;
use super::project::{Action, Address, Key, Named, Server};
use crate::answer::Answer;

use crate::journal::Labels;
use crate::journal::event;
use crate::serve::later;

/// Most bytes of `user_data`.
const USER_DATA: usize = 32 * 1024;

impl Contents {
    pub(super) fn create_server(&mut self, token: &str, body: &Value, now: Timestamp) -> Answer {
        match self.checked(token, body) {
            Err(refused) => refused,
            Ok(server) => self.made(token, body, server, now),
        }
    }

    /// What is asked for, or why it is not made. Its ID and time are not there yet.
    fn checked(&self, token: &str, body: &Value) -> Result<Server, Answer> {
        let Some(project) = self.projects.get(token) else {
            return Err(Answer::not_found("project"));
        };
        let name = text(body, "name");
        if !is_host_name(&name) {
            return Err(Answer::invalid("name", "is not a hostname of RFC 1123"));
        }
        let labels = labels(body)?;
        let server_type = text(body, "server_type");
        let Some(type_) = catalogue::server_type(&server_type, &self.behaviour.exhausted) else {
            return Err(Answer::invalid("server_type", "server type not found"));
        };
        if !type_["deprecation"].is_null() {
            let why = "the server type is deprecated";
            return Err(Answer::error(422, "invalid_server_type", why));
        }
        let location = text(body, "location");
        if catalogue::location(&location).is_none() {
            return Err(Answer::invalid("location", "location not found"));
        }
        let image = text(body, "image");
        let own = |i: &&Named| i.id.to_string() == image || i.name == image;
        if !image.starts_with("debian-") && !project.images.iter().any(|i| own(&i)) {
            return Err(Answer::invalid("image", "image not found"));
        }
        let user_data = text(body, "user_data");
        if user_data.len() > USER_DATA {
            return Err(Answer::invalid("user_data", "is too long"));
        }
        for key in list(body, "ssh_keys") {
            let known = |k: &Key| key.as_str() == Some(&k.name) || key.as_u64() == Some(k.id);
            if !project.keys.iter().any(known) {
                return Err(Answer::invalid("ssh_keys", "SSH key not found"));
            }
        }
        let networks: Vec<u64> = list(body, "networks")
            .iter()
            .filter_map(Value::as_u64)
            .collect();
        if networks
            .iter()
            .any(|n| !project.networks.iter().any(|k| k.id == *n))
        {
            return Err(Answer::invalid("networks", "network not found"));
        }
        if project.servers.values().any(|server| server.name == name) {
            return Err(Answer::taken("name"));
        }
        for family in ["ipv4", "ipv6"] {
            let Some(id) = body["public_net"][family].as_u64() else {
                continue;
            };
            match project.addresses.get(&id) {
                None => return Err(Answer::invalid("public_net", "primary IP not found")),
                Some(a) if a.server.is_some() => {
                    let why = "the primary IP is already assigned";
                    return Err(Answer::error(422, "primary_ip_assigned", why));
                }
                Some(a) if a.family != family => {
                    let why = "the primary IP has the wrong version";
                    return Err(Answer::error(412, "primary_ip_version_mismatch", why));
                }
                Some(a) if a.location != location => {
                    let why = "the primary IP is in another location";
                    return Err(Answer::error(422, "primary_ip_datacenter_mismatch", why));
                }
                Some(_) => {}
            }
        }
        if project.servers.len() >= self.behaviour.server_limit {
            return Err(Answer::limit("server_limit"));
        }
        if self.behaviour.exhausted.contains(&server_type) {
            return Err(Answer::error(412, "resource_unavailable", "none is left"));
        }
        Ok(Server {
            id: 0,
            name,
            status: "initializing",
            created: Timestamp::UNIX_EPOCH,
            server_type,
            location,
            user_data,
            networks,
            protected: false,
            labels,
        })
    }

    fn made(&mut self, token: &str, body: &Value, mut server: Server, now: Timestamp) -> Answer {
        (server.id, server.created) = (self.id(), now);
        let action = Action {
            id: self.id(),
            command: "create_server",
            status: "running",
            server: server.id,
            until: later(now, self.behaviour.create_takes),
            error: None,
        };
        // Addresses that are not named are made, without labels.
        for family in ["ipv4", "ipv6"] {
            let net = &body["public_net"];
            let enabled = net[format!("enable_{family}")].as_bool().unwrap_or(true);
            let id = match net[family].as_u64() {
                Some(id) => Some(id),
                None if enabled => {
                    let name = format!("primary_ip-{}-{family}", server.id);
                    let at = (server.location.as_str(), now);
                    self.add_address(token, &name, family, at, true, Labels::new())
                }
                None => None,
            };
            let project = self.projects.get_mut(token);
            let address = id.and_then(|id| project?.addresses.get_mut(&id));
            if let Some(address) = address {
                address.server = Some(server.id);
            }
        }
        let Contents {
            projects,
            behaviour,
            journal,
            ..
        } = self;
        let Some(project) = projects.get_mut(token) else {
            return Answer::not_found("project");
        };
        let came = event(now, "server", server.id, &server.labels, true);
        journal.events.push(came);
        let shown = action.show();
        project.actions.insert(action.id, action);
        project.servers.insert(server.id, server.clone());
        let password = list(body, "ssh_keys").is_empty().then_some("hunter2");
        Answer::ok(
            201,
            json!({
                "server": project.show_server(&server, behaviour), "action": shown, "next_actions": [],
                "root_password": password,
            }),
        )
    }

    pub(super) fn create_address(&mut self, token: &str, body: &Value, now: Timestamp) -> Answer {
        let (name, family) = (text(body, "name"), text(body, "type"));
        let location = text(body, "location");
        let labels = match labels(body) {
            Ok(labels) => labels,
            Err(refused) => return refused,
        };
        if !["ipv4", "ipv6"].contains(&family.as_str()) {
            return Answer::invalid("type", "is neither ipv4 nor ipv6");
        }
        if catalogue::location(&location).is_none() {
            return Answer::invalid("location", "location not found");
        }
        let Some(project) = self.projects.get(token) else {
            return Answer::not_found("project");
        };
        if project.addresses.values().any(|known| known.name == name) {
            return Answer::taken("name");
        }
        if project.addresses.len() >= self.behaviour.address_limit {
            return Answer::limit("primary_ip_limit");
        }
        let auto = body["auto_delete"].as_bool().unwrap_or_default();
        let made = self.add_address(token, &name, &family, (&location, now), auto, labels);
        let project = self.projects.get(token);
        let made = made.and_then(|id| project?.addresses.get(&id));
        match made {
            Some(made) => Answer::ok(201, json!({ "primary_ip": made.show(), "action": null })),
            None => Answer::not_found("project"),
        }
    }

    /// Adds one; gives its ID.
    fn add_address(
        &mut self,
        token: &str,
        name: &str,
        family: &str,
        (location, now): (&str, Timestamp),
        auto_delete: bool,
        labels: Labels,
    ) -> Option<u64> {
        let id = self.id();
        let project = self.projects.get_mut(token)?;
        let came = event(now, "primary_ip", id, &labels, true);
        self.journal.events.push(came);
        let address = Address {
            id,
            name: name.to_owned(),
            family: family.to_owned(),
            server: None,
            auto_delete,
            location: location.to_owned(),
            created: now,
            labels,
        };
        project.addresses.insert(id, address);
        Some(id)
    }
}

fn text(body: &Value, field: &str) -> String {
    body[field].as_str().unwrap_or_default().to_owned()
}

fn list<'a>(body: &'a Value, field: &str) -> &'a [Value] {
    body[field].as_array().map_or(&[], Vec::as_slice)
}

/// Labels of a request, if they are some that the documentation allows.
fn labels(body: &Value) -> Result<Labels, Answer> {
    let Some(given) = body["labels"].as_object() else {
        return Ok(Labels::new());
    };
    let mut labels = Labels::new();
    for (key, value) in given {
        let value = value.as_str().unwrap_or_default();
        let name = key.rsplit('/').next().unwrap_or_default();
        let fits = |text: &str| {
            let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
            text.len() <= 63
                && is_end(text.chars().next())
                && is_end(text.chars().last())
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        if !fits(name) || key.starts_with("hetzner.cloud/") || !(value.is_empty() || fits(value)) {
            return Err(Answer::invalid("labels", "is no valid label"));
        }
        labels.insert(key.clone(), value.to_owned());
    }
    Ok(labels)
}

fn is_host_name(name: &str) -> bool {
    !name.is_empty()
        && name.split('.').all(|part| {
            !part.is_empty()
                && part.len() <= 63
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        })
}
