//! Which request does what.
//!
//! Invariant: who is let in is asked first, then the rate, then everything else, as the documentation has it: requests
//! that are not let in count too.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::contents::Contents;
use super::pages::page;
use super::project::{Action, Address, Key, Named};
use crate::answer::Answer;

use super::{catalogue, selector};
use crate::faults::Script;
use crate::journal::Journal;
use crate::journal::event;
use crate::late::Late;
use crate::query::Query;
use crate::serve::later;
use crate::serve::{Asked, Vendor};

impl Vendor for Contents {
    const PREFIX: &'static str = "/v1";

    fn script(&self) -> &Script {
        &self.script
    }

    fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    fn late(&mut self) -> &mut Vec<Late> {
        &mut self.late
    }

    fn count(&mut self, token: &str, now: Timestamp) -> (bool, Vec<(&'static str, String)>) {
        let token = self.readers.get(token).map_or(token, String::as_str);
        let limit = self.behaviour.rate_limit;
        match self.projects.get_mut(token) {
            Some(project) => {
                let (taken, headers) = project.bucket.take(now, limit);
                (taken, headers.shown())
            }
            None => (true, Vec::new()),
        }
    }

    fn answer(&mut self, asked: &Asked<'_>, now: Timestamp) -> Answer {
        self.settle(now);
        let reader = self.readers.get(asked.token).cloned();
        if reader.is_some() && asked.method != "GET" {
            let why = "the token is only allowed to perform GET requests";
            return Answer::error(403, "token_readonly", why);
        }
        let token = reader.unwrap_or_else(|| asked.token.to_owned());
        if !self.projects.contains_key(&token) {
            return Answer::error(401, "unauthorized", "unable to authenticate");
        }
        let body = match asked.body {
            [] => Value::Null,
            bytes => match serde_json::from_slice(bytes) {
                Ok(body) => body,
                Err(_) => return Answer::error(400, "json_error", "invalid JSON"),
            },
        };
        let parts: Vec<_> = asked.path.trim_matches('/').split('/').collect();
        match (asked.method, parts.as_slice()) {
            ("GET", [list]) => self.list(&token, list, asked, now),
            ("POST", ["servers"]) => self.create_server(&token, &body, now),
            ("POST", ["primary_ips"]) => self.create_address(&token, &body, now),
            ("DELETE", ["servers", id]) => self.delete_server(&token, id, now),
            ("DELETE", ["primary_ips", id]) => self.delete_address(&token, id, now),
            ("GET", ["images", id]) => self.image(&token, id),
            ("GET", ["servers", id, "actions"]) => self.actions(&token, id, asked),
            ("POST", ["servers", id, "actions", command @ ("poweron" | "reset")]) => {
                self.start(&token, id, command, now)
            }
            _ => Answer::not_found("page"),
        }
    }

    fn played(status: u16, code: &str) -> Answer {
        Answer::error(status, code, "played")
    }

    fn throttled() -> Answer {
        Self::played(429, "rate_limit_exceeded")
    }
}

impl Contents {
    fn list(&self, token: &str, list: &str, asked: &Asked<'_>, now: Timestamp) -> Answer {
        let Some(project) = self.projects.get(token) else {
            return Answer::not_found("project");
        };
        let lag = self.behaviour.visible_after;
        let visible = |created: Timestamp| later(created, lag) <= now;
        let all: Vec<Value> = match list {
            "servers" => {
                let servers = project.servers.values().filter(|s| visible(s.created));
                servers
                    .map(|s| project.show_server(s, &self.behaviour))
                    .collect()
            }
            "primary_ips" => {
                let addresses = project.addresses.values().filter(|a| visible(a.created));
                addresses.map(Address::show).collect()
            }
            "volumes" => project.volumes.values().map(Named::show).collect(),
            "networks" => project.networks.iter().map(Named::show).collect(),
            "firewalls" => project.firewalls.iter().map(Named::show).collect(),
            "images" => project.images.iter().map(image).collect(),
            "ssh_keys" => {
                let key = |k: &Key| json!({ "id": k.id, "name": k.name, "labels": {} });
                project.keys.iter().map(key).collect()
            }
            "locations" => {
                let names = catalogue::LOCATIONS.iter();
                names
                    .filter_map(|(name, _)| catalogue::location(name))
                    .collect()
            }
            "server_types" => {
                let exhausted = &self.behaviour.exhausted;
                let names = catalogue::TYPES.iter();
                names
                    .filter_map(|t| catalogue::server_type(t.0, exhausted))
                    .collect()
            }
            _ => return Answer::not_found("page"),
        };
        chosen(list, all, asked)
    }

    fn image(&self, token: &str, id: &str) -> Answer {
        let images = self.projects.get(token).map(|project| &project.images);
        let found = images
            .into_iter()
            .flatten()
            .find(|i| i.id.to_string() == id);
        match found {
            Some(found) => Answer::ok(200, json!({ "image": image(found) })),
            None => Answer::not_found("image"),
        }
    }

    fn delete_server(&mut self, token: &str, id: &str, now: Timestamp) -> Answer {
        let action = self.id();
        let takes = self.behaviour.delete_takes;
        let Some(project) = self.projects.get_mut(token) else {
            return Answer::not_found("project");
        };
        let id: u64 = id.parse().unwrap_or_default();
        let locked = project.is_locked(id);
        let Some(server) = project.servers.get_mut(&id) else {
            return Answer::not_found("server");
        };
        if server.protected {
            return Answer::error(403, "protected", "the server is protected");
        }
        if locked {
            return Answer::error(423, "locked", "the server is locked");
        }
        server.status = "deleting";
        let action = Action {
            id: action,
            command: "delete_server",
            status: "running",
            server: id,
            until: later(now, takes),
            error: None,
        };
        let shown = action.show();
        project.actions.insert(action.id, action);
        Answer::ok(200, json!({ "action": shown }))
    }

    fn delete_address(&mut self, token: &str, id: &str, now: Timestamp) -> Answer {
        let Some(project) = self.projects.get_mut(token) else {
            return Answer::not_found("project");
        };
        let id: u64 = id.parse().unwrap_or_default();
        match project.addresses.get(&id) {
            None => Answer::not_found("primary IP"),
            Some(address) if address.server.is_some() => {
                let why = "the primary IP must be unassigned first";
                Answer::error(422, "must_be_unassigned", why)
            }
            Some(address) => {
                let gone = event(now, "primary_ip", id, &address.labels, false);
                self.journal.events.push(gone);
                project.addresses.remove(&id);
                Answer::empty()
            }
        }
    }

    fn actions(&self, token: &str, id: &str, asked: &Asked<'_>) -> Answer {
        let id: u64 = id.parse().unwrap_or_default();
        let project = self.projects.get(token);
        let Some(project) = project.filter(|project| project.servers.contains_key(&id)) else {
            return Answer::not_found("server");
        };
        let query = Query::read(asked.query);
        let mut own: Vec<_> = project
            .actions
            .values()
            .filter(|a| a.server == id)
            .collect();
        if query.get("sort") == Some("id:desc") {
            own.reverse();
        }
        let own = own.into_iter().map(Action::show).collect();
        page("actions", own, &query, asked.endless)
    }

    fn start(&mut self, token: &str, id: &str, command: &str, now: Timestamp) -> Answer {
        let action = self.id();
        let takes = self.behaviour.start_takes;
        let id: u64 = id.parse().unwrap_or_default();
        let Some(project) = self.projects.get_mut(token) else {
            return Answer::not_found("project");
        };
        if project.is_locked(id) {
            return Answer::error(423, "locked", "the server is locked");
        }
        let Some(server) = project.servers.get_mut(&id) else {
            return Answer::not_found("server");
        };
        server.status = "starting";
        let action = Action {
            id: action,
            command: match command {
                "reset" => "reset_server",
                _ => "start_server",
            },
            status: "running",
            server: id,
            until: later(now, takes),
            error: None,
        };
        let shown = action.show();
        project.actions.insert(action.id, action);
        Answer::ok(201, json!({ "action": shown }))
    }
}

fn image(of_it: &Named) -> Value {
    json!({
        "id": of_it.id, "name": of_it.name, "type": "snapshot", "status": "available", "architecture": "x86",
        "labels": of_it.labels, "deprecated": null,
    })
}

/// Those that were asked for, of a list.
fn chosen(list: &str, mut all: Vec<Value>, asked: &Asked<'_>) -> Answer {
    let query = Query::read(asked.query);
    if let Some(name) = query.get("name") {
        all.retain(|one| one["name"] == name);
    }
    if let Some(text) = query.get("label_selector") {
        let mut wrong = false;
        all.retain(|one| {
            let labels = one["labels"].as_object();
            let labels = labels.into_iter().flatten();
            let labels = labels
                .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
                .collect();
            let is = selector::chooses(text, &labels);
            wrong |= is.is_none();
            is == Some(true)
        });
        if wrong || selector::chooses(text, &crate::journal::Labels::new()).is_none() {
            return Answer::invalid("label_selector", "is no selector");
        }
    }
    page(list, all, &query, asked.endless)
}
