//! Making instances: what is refused at once, and the operation that the rest becomes.
//!
//! Invariant: a request is refused as a whole, or is an operation; with a `requestId` that is known it is the first one's
//! operation, as far as that has come.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::catalogue;
use super::contents::Contents;
use super::project::{Disk, Instance, Operation};
use super::refused::{invalid, not_found, refused};
use crate::answer::Answer;
use crate::journal::{Labels, event};
use crate::serve::later;

/// How long a `requestId` is known.
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// Most bytes of a value of metadata.
const METADATA: usize = 256 * 1024;

impl Contents {
    pub(super) fn create(
        &mut self,
        project: &str,
        zone: &str,
        body: &Value,
        request: Option<&str>,
        now: Timestamp,
    ) -> Answer {
        if let Some(request) = request {
            if !is_uuid(request) {
                return invalid("requestId", "must be a UUID that is not zero");
            }
            if let Some(before) = self.operation_of(project, request, now) {
                return before;
            }
        }
        let name = text(&body["name"]);
        let labels = match self.checked(project, zone, body) {
            Ok(labels) => labels,
            Err(refused) => return refused,
        };
        let Some(of_it) = self.projects.get(project) else {
            return not_found(project);
        };
        let key = (zone.to_owned(), name.clone());
        if of_it.instances.contains_key(&key) || of_it.running(zone, &name).is_some() {
            let why = format!(
                "The resource 'projects/{project}/zones/{zone}/instances/{name}' already exists"
            );
            return refused(409, "alreadyExists", &why);
        }
        let is_full = of_it.instances.len() >= self.behaviour.instance_limit;
        if is_full && self.behaviour.limit_is_told_at_once {
            return refused(
                403,
                "quotaExceeded",
                "Quota 'INSTANCES' exceeded. Limit: 1 in region.",
            );
        }
        let type_ = machine_type(body);
        let is_exhausted = self.behaviour.exhausted.contains(&type_);
        let error = match (is_exhausted, is_full) {
            (true, _) => Some((
                "ZONE_RESOURCE_POOL_EXHAUSTED",
                503,
                "The zone does not have enough resources available to fulfill the request.",
            )),
            (_, true) => Some((
                "QUOTA_EXCEEDED",
                403,
                "Quota 'CPUS' exceeded. Limit: 8.0 in region.",
            )),
            _ => None,
        };
        let id = self.id();
        if error.is_none() {
            self.add_instance(project, &key, body, &labels, now);
        }
        let operation = Operation {
            id,
            kind: "insert",
            zone: zone.to_owned(),
            target: name,
            begun: now,
            until: later(now, self.behaviour.create_takes),
            is_done: false,
            error,
        };
        let Some(of_it) = self.projects.get_mut(project) else {
            return not_found(project);
        };
        if let Some(request) = request {
            of_it.requests.insert(request.to_owned(), id);
        }
        let shown = of_it.show_operation(&operation);
        of_it.operations.insert(id, operation);
        Answer::ok(200, shown)
    }

    fn operation_of(&self, project: &str, request: &str, now: Timestamp) -> Option<Answer> {
        let of_it = self.projects.get(project)?;
        let operation = of_it.operations.get(of_it.requests.get(request)?)?;
        let is_known = now.duration_since(operation.begun) < DAY;
        is_known.then(|| Answer::ok(200, of_it.show_operation(operation)))
    }

    /// Its labels, where nothing is wrong with it.
    fn checked(&self, project: &str, zone: &str, body: &Value) -> Result<Labels, Answer> {
        if !is_name(&text(&body["name"])) {
            return Err(invalid(
                "resource.name",
                "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'",
            ));
        }
        let labels = labels(&body["labels"])?;
        if !catalogue::has(&machine_type(body)) {
            return Err(invalid(
                "resource.machineType",
                "The referenced resource does not exist.",
            ));
        }
        let disk = &body["disks"][0];
        let image = text(&disk["initializeParams"]["sourceImage"]);
        let known = self.projects.get(project).map(|of_it| &of_it.images);
        let of_project = format!("projects/{project}/global/images/");
        let name = image.strip_prefix(&of_project).unwrap_or_default();
        if !known.is_some_and(|known| known.iter().any(|image| image == name)) {
            return Err(not_found(&image));
        }
        let subnet = text(&body["networkInterfaces"][0]["subnetwork"]);
        if !self.has_subnet(project, zone, &subnet) {
            let field = "resource.networkInterfaces[0].subnetwork";
            return Err(invalid(
                field,
                "The referenced subnetwork resource cannot be found.",
            ));
        }
        let items = body["metadata"]["items"].as_array();
        for item in items.into_iter().flatten() {
            if text(&item["value"]).len() > METADATA {
                let field = "resource.metadata.items[0].value";
                return Err(invalid(
                    field,
                    "metadata value is too large: 262144 bytes at most",
                ));
            }
        }
        Ok(labels)
    }

    fn add_instance(
        &mut self,
        project: &str,
        key: &(String, String),
        body: &Value,
        instance_labels: &Labels,
        now: Timestamp,
    ) {
        let (id, disk) = (self.id(), self.id());
        let visible = later(now, self.behaviour.visible_after);
        let keeps = self.behaviour.keeps_disks;
        let boot = &body["disks"][0];
        let disk_labels = labels(&boot["initializeParams"]["labels"]).unwrap_or_default();
        let events = &mut self.journal.events;
        events.push(event(now, "instance", id, instance_labels, true));
        events.push(event(now, "disk", disk, &disk_labels, true));
        let Some(of_it) = self.projects.get_mut(project) else {
            return;
        };
        let boots = Disk {
            id: disk,
            created: now,
            user: Some(key.1.clone()),
            auto_delete: boot["autoDelete"] == true && !keeps,
            labels: disk_labels,
        };
        of_it.disks.insert(key.clone(), boots);
        let instance = Instance {
            id,
            status: "PROVISIONING",
            created: now,
            visible,
            body: body.clone(),
            labels: instance_labels.clone(),
            protected: false,
        };
        of_it.instances.insert(key.clone(), instance);
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The last part of what says the size.
fn machine_type(body: &Value) -> String {
    let link = text(&body["machineType"]);
    link.rsplit('/').next().unwrap_or_default().to_owned()
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').map(str::len).collect();
    let is_hex = |c: char| c == '-' || c.is_ascii_hexdigit();
    parts == [8, 4, 4, 4, 12] && text.chars().all(is_hex) && text.chars().any(|c| !"-0".contains(c))
}

fn is_name(name: &str) -> bool {
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name
            .chars()
            .all(|c| c == '-' || c.is_ascii_digit() || c.is_ascii_lowercase())
}

/// Labels of a request, if they are some that the documentation allows.
fn labels(given: &Value) -> Result<Labels, Answer> {
    let mut labels = Labels::new();
    let is = |c: char| "-_".contains(c) || c.is_ascii_digit() || c.is_ascii_lowercase();
    for (key, value) in given.as_object().into_iter().flatten() {
        let value = text(value);
        let begins = key.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins
            || key.len() > 63
            || value.len() > 63
            || !key.chars().chain(value.chars()).all(is)
        {
            return Err(invalid(
                "resource.labels",
                &format!("'{key}: {value}' is no label"),
            ));
        }
        labels.insert(key.clone(), value);
    }
    Ok(labels)
}
