//! Which request does what, and which permission it needs.
//!
//! Invariant: who is let in is asked first, then everything else.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::catalogue::{ZONES, machine_types, region};
use super::contents::Contents;
use super::lists::list;
use super::project::Operation;
use super::refused::{invalid, not_found, refused};
use crate::answer::Answer;
use crate::faults::Script;
use crate::journal::{Journal, event};
use crate::late::Late;
use crate::query::Query;
use crate::serve::{Asked, Vendor, later};

impl Vendor for Contents {
    const PREFIX: &'static str = "/compute/v1";

    fn script(&self) -> &Script {
        &self.script
    }

    fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    fn late(&mut self) -> &mut Vec<Late> {
        &mut self.late
    }

    /// Limits are for each minute and not told.
    fn count(&mut self, _: &str, _: Timestamp) -> (bool, Vec<(&'static str, String)>) {
        (true, Vec::new())
    }

    fn answer(&mut self, asked: &Asked<'_>, now: Timestamp) -> Answer {
        self.settle(now);
        if (asked.method, asked.path) == ("POST", "/token") {
            return self.exchange(asked.body, now);
        }
        let parts: Vec<_> = asked.path.trim_matches('/').split('/').collect();
        let ["projects", project, rest @ ..] = parts.as_slice() else {
            return not_found(asked.path);
        };
        let body = match asked.body {
            [] => Value::Null,
            bytes => match serde_json::from_slice(bytes) {
                Ok(body) => body,
                Err(_) => return refused(400, "parseError", "Parse Error"),
            },
        };
        let needed = permissions(asked.method, rest, &body);
        if let Err(refused) = self.let_in(asked.token, project, &needed, now) {
            return refused;
        }
        if !self.projects.contains_key(*project) {
            return not_found(&format!("projects/{project}"));
        }
        if let ["zones", zone, ..] = rest
            && !ZONES.contains(zone)
        {
            return invalid("zone", &format!("Unknown zone '{zone}'"));
        }
        self.route(asked, project, rest, &body, now)
    }

    fn played(status: u16, code: &str) -> Answer {
        refused(status, code, "played")
    }

    fn throttled() -> Answer {
        Self::played(403, "rateLimitExceeded")
    }
}

/// What a call needs (reference of the API, "IAM Permissions" of each method).
fn permissions(method: &str, rest: &[&str], body: &Value) -> Vec<&'static str> {
    match (method, rest) {
        ("GET", []) => vec!["compute.projects.get"],
        ("GET", ["zones", _, "machineTypes"]) => vec!["compute.machineTypes.list"],
        ("GET", ["zones", _, "instances"]) => vec!["compute.instances.list"],
        ("GET", ["zones", _, "disks"]) => vec!["compute.disks.list"],
        ("GET", ["zones", _, "operations"]) => vec!["compute.zoneOperations.list"],
        ("GET", ["regions", _, "addresses"]) => vec!["compute.addresses.list"],
        ("GET", ["global", "images", ..]) => vec!["compute.images.get"],
        ("GET", ["zones", _, "instances", _]) => vec!["compute.instances.get"],
        ("DELETE", ["zones", _, "instances", _]) => vec!["compute.instances.delete"],
        ("DELETE", ["zones", _, "disks", _]) => vec!["compute.disks.delete"],
        ("DELETE", ["regions", _, "addresses", _]) => vec!["compute.addresses.delete"],
        ("POST", ["zones", _, "instances", _, "start"]) => vec!["compute.instances.start"],
        ("POST", ["zones", _, "instances", _, "reset"]) => vec!["compute.instances.reset"],
        ("POST", ["zones", _, "instances"]) => {
            let mut all = vec![
                "compute.instances.create",
                "compute.disks.create",
                "compute.images.useReadOnly",
                "compute.subnetworks.use",
            ];
            let disk = &body["disks"][0]["initializeParams"];
            let net = &body["networkInterfaces"][0];
            for (given, permission) in [
                (&body["labels"], "compute.instances.setLabels"),
                (&body["metadata"], "compute.instances.setMetadata"),
                (&body["tags"], "compute.instances.setTags"),
                (&disk["labels"], "compute.disks.setLabels"),
                (&net["accessConfigs"], "compute.subnetworks.useExternalIp"),
            ] {
                if !given.is_null() {
                    all.push(permission);
                }
            }
            all
        }
        _ => Vec::new(),
    }
}

impl Contents {
    fn route(
        &mut self,
        asked: &Asked<'_>,
        project: &str,
        rest: &[&str],
        body: &Value,
        now: Timestamp,
    ) -> Answer {
        let query = Query::read(asked.query);
        let partial = self.behaviour.is_partial;
        let Some(of_it) = self.projects.get_mut(project) else {
            return not_found(project);
        };
        let shown = |all: Vec<Value>| list(all, &query, asked.endless, partial);
        match (asked.method, rest) {
            ("GET", []) => Answer::ok(
                200,
                json!({ "kind": "compute#project", "id": of_it.number.to_string(), "name": of_it.name }),
            ),
            ("GET", ["zones", zone, "machineTypes"]) => shown(machine_types(zone)),
            ("GET", ["zones", zone, "instances"]) => {
                let found = of_it.instances.iter();
                let found = found.filter(|((z, _), i)| z == zone && i.visible <= now);
                let found = found.map(|((z, name), i)| of_it.show_instance(z, name, i));
                shown(found.collect())
            }
            ("GET", ["zones", zone, "disks"]) => {
                let found = of_it.disks.iter().filter(|((z, _), _)| z == zone);
                shown(
                    found
                        .map(|((z, name), disk)| of_it.show_disk(z, name, disk))
                        .collect(),
                )
            }
            ("GET", ["zones", zone, "operations"]) => {
                let found = of_it.operations.values().filter(|o| o.zone == *zone);
                shown(found.map(|o| of_it.show_operation(o)).collect())
            }
            ("GET", ["regions", region, "addresses"]) => {
                let found = of_it.addresses.iter().filter(|((r, _), _)| r == region);
                shown(found.map(|((_, name), a)| a.show(name)).collect())
            }
            ("GET", ["global", "images", name]) => {
                match of_it.images.iter().any(|known| known == name) {
                    true => Answer::ok(200, json!({ "name": name, "status": "READY" })),
                    false => not_found(asked.path),
                }
            }
            ("GET", ["zones", zone, "instances", name]) => {
                let key = ((*zone).to_owned(), (*name).to_owned());
                let found = of_it.instances.get(&key).filter(|i| i.visible <= now);
                match found {
                    Some(found) => Answer::ok(200, of_it.show_instance(zone, name, found)),
                    None => not_found(asked.path),
                }
            }
            ("POST", ["zones", zone, "instances"]) => {
                let request = query.get("requestId");
                self.create(project, zone, body, request, now)
            }
            ("DELETE", ["zones", zone, "instances", name]) => {
                self.change(project, zone, name, "delete", now)
            }
            ("POST", ["zones", zone, "instances", name, "start"]) => {
                self.change(project, zone, name, "start", now)
            }
            ("POST", ["zones", zone, "instances", name, "reset"]) => {
                self.change(project, zone, name, "reset", now)
            }
            ("DELETE", ["zones", zone, "disks", name]) => {
                self.delete_disk(project, zone, name, now)
            }
            ("DELETE", ["regions", region, "addresses", name]) => {
                let key = ((*region).to_owned(), (*name).to_owned());
                let Some(gone) = of_it.addresses.remove(&key) else {
                    return not_found(asked.path);
                };
                let gone = event(now, "address", gone.id, &gone.labels, false);
                self.journal.events.push(gone);
                Answer::ok(200, json!({ "status": "DONE", "operationType": "delete" }))
            }
            _ => not_found(asked.path),
        }
    }

    /// Something is done to an instance.
    fn change(
        &mut self,
        project: &str,
        zone: &str,
        name: &str,
        kind: &'static str,
        now: Timestamp,
    ) -> Answer {
        let id = self.id();
        let until = later(now, self.behaviour.change_takes);
        let fails = kind == "delete" && self.behaviour.deletion_fails > 0;
        let path = format!("projects/{project}/zones/{zone}/instances/{name}");
        let Some(of_it) = self.projects.get_mut(project) else {
            return not_found(&path);
        };
        let is_busy = of_it.running(zone, name).is_some();
        let key = (zone.to_owned(), name.to_owned());
        let Some(instance) = of_it.instances.get_mut(&key) else {
            return not_found(&path);
        };
        if instance.visible > now {
            return not_found(&path);
        }
        if is_busy {
            return refused(400, "resourceNotReady", "The resource is not ready");
        }
        if kind == "delete" && instance.protected {
            let why = "Resource cannot be deleted if it's protected against deletion.";
            return refused(400, "invalid", why);
        }
        match kind {
            "delete" => instance.status = "STOPPING",
            "start" => instance.status = "STAGING",
            _ => {}
        }
        if fails {
            self.behaviour.deletion_fails -= 1;
        }
        let operation = Operation {
            id,
            kind,
            zone: zone.to_owned(),
            target: name.to_owned(),
            begun: now,
            until,
            is_done: false,
            error: fails.then_some(("INTERNAL_ERROR", 500, "Internal error.")),
        };
        let shown = of_it.show_operation(&operation);
        of_it.operations.insert(id, operation);
        Answer::ok(200, shown)
    }

    fn delete_disk(&mut self, project: &str, zone: &str, name: &str, now: Timestamp) -> Answer {
        let path = format!("projects/{project}/zones/{zone}/disks/{name}");
        let key = (zone.to_owned(), name.to_owned());
        let disks = self.projects.get_mut(project).map(|of_it| &mut of_it.disks);
        let Some(disks) = disks else {
            return not_found(&path);
        };
        match disks.get(&key) {
            None => not_found(&path),
            Some(disk) if disk.user.is_some() => {
                let why = "The disk resource is already being used";
                refused(400, "resourceInUseByAnotherResource", why)
            }
            Some(disk) => {
                let gone = event(now, "disk", disk.id, &disk.labels, false);
                self.journal.events.push(gone);
                disks.remove(&key);
                Answer::ok(200, json!({ "status": "DONE", "operationType": "delete" }))
            }
        }
    }

    /// Whether a subnet is in the region of a zone.
    pub(super) fn has_subnet(&self, project: &str, zone: &str, link: &str) -> bool {
        let subnets = self.projects.get(project).map(|of_it| &of_it.subnets);
        subnets.into_iter().flatten().any(|(of_region, name)| {
            of_region == region(zone)
                && link == format!("projects/{project}/regions/{of_region}/subnetworks/{name}")
        })
    }
}
