//! What is put: machines with their disks, interfaces, addresses, and tags of disks.
//!
//! Invariant: a request is refused as a whole, or is carried out; what is there and is put again stays the same thing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::catalogue::{LOCATION, SECURITY_GROUP, SUBNET, has_image, size};
use super::contents::Contents;
use super::refused::{invalid, not_found, refused};
use super::thing::{Group, Kind, Thing};
use crate::answer::Answer;
use crate::journal::{Labels, event};
use crate::serve::later;

/// Most bytes of user data, before they are encoded.
const USER_DATA: usize = 64 * 1024;
/// Most tags.
const TAGS: usize = 50;

/// Which group.
pub(super) type Place = (String, String);

impl Contents {
    /// `PUT`. `is_new`: it must not be there yet.
    pub(super) fn put(
        &mut self,
        place: &Place,
        (kind, name): (Kind, &str),
        body: &Value,
        is_new: bool,
        now: Timestamp,
    ) -> Answer {
        let key = (kind, name.to_owned());
        let Some(group) = self.groups.get(place) else {
            return not_found(name);
        };
        let tags = match tags(&body["tags"]) {
            Ok(tags) => tags,
            Err(refused) => return refused,
        };
        if body["location"] != LOCATION {
            let why = "The location is not available for the resource type.";
            return refused(400, "LocationNotAvailableForResourceType", why);
        }
        let there = group.things.get(&key);
        if there.is_some() && is_new {
            let why = "The condition '*' set in If-None-Match was not met.";
            return refused(412, "PreconditionFailed", why);
        }
        if there.is_some_and(|there| there.state == "Deleting") {
            let why = "Another operation is in progress.";
            return refused(409, "AnotherOperationInProgress", why);
        }
        let checked = match kind {
            Kind::Vm => self.check_machine(group, name, body, now),
            Kind::Nic => check_interface(group, body),
            Kind::Address => Ok(()),
            Kind::Disk => Err(invalid("disk", "none is made here")),
        };
        if let Err(refused) = checked {
            return refused;
        }
        let is_there = there.is_some();
        let (takes, what) = match kind {
            Kind::Vm => (self.behaviour.create_takes, "create"),
            _ => (self.behaviour.put_takes, "put"),
        };
        let change = self.begin(what, later(now, takes));
        let operation = self.address_of(&place.0, change.operation);
        if is_there {
            if let Some(thing) = self.thing(place, &key) {
                thing.tags = tags;
                thing.body = body.clone();
            }
            self.operations.entry(change.operation).or_default().is_done = true;
        } else {
            let mut thing = self.thing_of(body, tags, now);
            thing.state = if kind == Kind::Vm {
                "Creating"
            } else {
                "Updating"
            };
            thing.change = Some(change);
            if kind == Kind::Vm && self.is_exhausted(body) {
                thing.failed = Some((
                    "AllocationFailed",
                    "Allocation failed. We do not have sufficient capacity for the requested VM size in this region.",
                ));
            }
            self.add(place, &key, thing);
        }
        self.attach(place, &key, body, now);
        let group = self.groups.get(place);
        let shown =
            group.and_then(|group| Some(group.show(kind, name, group.things.get(&key)?, false)));
        let status = if is_there { 200 } else { 201 };
        Answer::ok(status, shown.unwrap_or_default()).with("azure-asyncoperation", operation)
    }

    /// `PATCH`: other tags.
    pub(super) fn patch(
        &mut self,
        place: &Place,
        (kind, name): (Kind, &str),
        body: &Value,
        now: Timestamp,
    ) -> Answer {
        let key = (kind, name.to_owned());
        let tags = match tags(&body["tags"]) {
            Ok(tags) => tags,
            Err(refused) => return refused,
        };
        match self.thing(place, &key).filter(|thing| thing.found <= now) {
            None => not_found(name),
            Some(thing) => {
                thing.tags = tags;
                Answer::ok(202, json!({ "name": name }))
            }
        }
    }

    pub(super) fn thing(&mut self, place: &Place, key: &(Kind, String)) -> Option<&mut Thing> {
        self.groups.get_mut(place)?.things.get_mut(key)
    }

    fn thing_of(&mut self, body: &Value, tags: Labels, now: Timestamp) -> Thing {
        Thing {
            number: self.id(),
            created: now,
            found: later(now, self.behaviour.found_after),
            listed: later(now, self.behaviour.listed_after),
            body: body.clone(),
            tags,
            state: "Succeeded",
            power: "",
            failed: None,
            user: None,
            goes_along: false,
            reserved: None,
            locked: false,
            change: None,
        }
    }

    fn add(&mut self, place: &Place, key: &(Kind, String), thing: Thing) {
        let came = event(
            thing.created,
            key.0.event(),
            thing.number,
            &thing.tags,
            true,
        );
        self.journal.events.push(came);
        if let Some(group) = self.groups.get_mut(place) {
            group.things.insert(key.clone(), thing);
        }
    }

    fn is_exhausted(&self, body: &Value) -> bool {
        let size = text(&body["properties"]["hardwareProfile"]["vmSize"]);
        self.behaviour.exhausted.contains(&size)
    }

    /// What it names becomes its own.
    fn attach(&mut self, place: &Place, key: &(Kind, String), body: &Value, now: Timestamp) {
        let properties = &body["properties"];
        let last = |id: &Value| text(id).rsplit('/').next().unwrap_or_default().to_owned();
        let along = |of: &Value| of["deleteOption"] == "Delete";
        match key.0 {
            Kind::Vm => {
                let net = &properties["networkProfile"]["networkInterfaces"][0];
                if let Some(nic) = self.thing(place, &(Kind::Nic, last(&net["id"]))) {
                    nic.user = Some(key.1.clone());
                    nic.goes_along = along(&net["properties"]);
                    nic.reserved = None;
                }
                let os = &properties["storageProfile"]["osDisk"];
                let disk_key = (Kind::Disk, text(&os["name"]));
                if self.thing(place, &disk_key).is_none() {
                    let inherits = !self.behaviour.disks_have_no_tags;
                    let given = tags(&body["tags"]).unwrap_or_default();
                    let given = if inherits { given } else { Labels::new() };
                    let body = json!({ "location": LOCATION, "properties": { "diskSizeGB": os["diskSizeGB"] } });
                    let mut disk = self.thing_of(&body, given, now);
                    disk.user = Some(key.1.clone());
                    disk.goes_along = along(os);
                    self.add(place, &disk_key, disk);
                }
            }
            Kind::Nic => {
                let ip = &properties["ipConfigurations"][0]["properties"]["publicIPAddress"];
                if let Some(address) = self.thing(place, &(Kind::Address, last(&ip["id"]))) {
                    address.user = Some(key.1.clone());
                    address.goes_along = along(&ip["properties"]);
                }
            }
            Kind::Address | Kind::Disk => {}
        }
    }

    fn check_machine(
        &self,
        group: &Group,
        name: &str,
        body: &Value,
        now: Timestamp,
    ) -> Result<(), Answer> {
        let properties = &body["properties"];
        let wanted = text(&properties["hardwareProfile"]["vmSize"]);
        let Some((_, why)) = size(&wanted) else {
            return Err(invalid("vmSize", &format!("{wanted} is no size")));
        };
        if !why.is_empty() {
            let why = format!(
                "The requested VM size '{wanted}' is currently not available in '{LOCATION}'."
            );
            return Err(refused(409, "SkuNotAvailable", &why));
        }
        let image = text(&properties["storageProfile"]["imageReference"]["id"]);
        if !has_image(&image) {
            let why = format!("The gallery image {image} is not available.");
            return Err(refused(404, "GalleryImageNotFound", &why));
        }
        let data = STANDARD.decode(text(&properties["userData"]));
        match data {
            Err(_) => return Err(invalid("userData", "it is not in Base64")),
            Ok(data) if data.len() > USER_DATA => {
                return Err(invalid("userData", "it is too long"));
            }
            Ok(_) => {}
        }
        let keys = &properties["osProfile"]["linuxConfiguration"]["ssh"]["publicKeys"];
        if keys[0]["keyData"].as_str().is_none_or(str::is_empty) {
            let parameter = "linuxConfiguration.ssh.publicKeys";
            return Err(invalid(parameter, "a key or a password is required"));
        }
        let disk = text(&properties["storageProfile"]["osDisk"]["name"]);
        let is_there = group.things.contains_key(&(Kind::Vm, name.to_owned()));
        if !is_there && group.things.contains_key(&(Kind::Disk, disk.clone())) {
            let why = format!(
                "Disk {disk} already exists in resource group {}. Only CreateOption.Attach is supported.",
                group.name.to_uppercase()
            );
            return Err(refused(409, "ConflictingUserInput", &why));
        }
        let nic = text(&properties["networkProfile"]["networkInterfaces"][0]["id"]);
        let nic = nic.rsplit('/').next().unwrap_or_default().to_owned();
        let Some(nic) = group.things.get(&(Kind::Nic, nic)) else {
            let why = "A resource that networkInterfaces refers to was not found.";
            return Err(refused(400, "InvalidResourceReference", why));
        };
        if nic.user.as_deref().is_some_and(|user| user != name) {
            let why = "The network interface is in use by another virtual machine.";
            return Err(refused(400, "NicInUse", why));
        }
        if nic
            .reserved
            .as_ref()
            .is_some_and(|(for_, until)| for_ != name && *until > now)
        {
            return Err(reserved());
        }
        let machines = self.groups.values().flat_map(|group| group.things.keys());
        let machines = machines.filter(|(kind, other)| *kind == Kind::Vm && other != name);
        if machines.count() >= self.behaviour.machine_limit {
            let why = "Operation could not be completed as it results in exceeding approved standardDSv5Family Cores \
                       quota.";
            return Err(refused(409, "OperationNotAllowed", why));
        }
        Ok(())
    }
}

pub(super) fn reserved() -> Answer {
    let why = "Nic(s) in request is reserved for another Virtual Machine for 180 seconds.";
    refused(400, "NicReservedForAnotherVm", why)
}

fn check_interface(group: &Group, body: &Value) -> Result<(), Answer> {
    let properties = &body["properties"];
    let ip = &properties["ipConfigurations"][0]["properties"];
    let missing = |what: &str| {
        let why = format!("A resource that {what} refers to was not found.");
        Err(refused(400, "InvalidResourceReference", &why))
    };
    if !text(&ip["subnet"]["id"]).ends_with(SUBNET) {
        return missing("subnet");
    }
    let rules = &properties["networkSecurityGroup"]["id"];
    if rules.is_string() && !text(rules).ends_with(SECURITY_GROUP) {
        return missing("networkSecurityGroup");
    }
    let address = &ip["publicIPAddress"]["id"];
    if address.is_string() {
        let name = text(address)
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        if !group.things.contains_key(&(Kind::Address, name)) {
            return missing("publicIPAddress");
        }
    }
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Tags of a request, if they are some that the documentation allows.
fn tags(given: &Value) -> Result<Labels, Answer> {
    let mut tags = Labels::new();
    for (name, value) in given.as_object().into_iter().flatten() {
        let value = text(value);
        if name.len() > 512 || name.contains(['<', '>', '%', '&', '\\', '?', '/']) {
            let why = format!("The tag name '{name}' has reserved characters.");
            return Err(refused(400, "InvalidTagNameCharacters", &why));
        }
        if value.len() > 256 {
            return Err(refused(
                400,
                "InvalidTagValueLength",
                "The tag value is too long.",
            ));
        }
        tags.insert(name.clone(), value);
    }
    if tags.len() > TAGS {
        return Err(refused(
            400,
            "InvalidTagCount",
            "There are more than 50 tags.",
        ));
    }
    Ok(tags)
}
