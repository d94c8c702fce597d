//! Creates, applies, patches and replaces.
//!
//! Invariant: what the server owns (UID, times, generation, managed fields) no client changes; a write
//! of the status changes nothing else, and one of the object does not change its status.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Key, Refusal, Store};
use crate::memory::defaults;
use crate::memory::fields::{self, Set};
use crate::memory::managers::{self, Manager, Operation};
use crate::memory::resources::Resource;

/// Who writes what.
pub(in crate::memory) struct Write<'a> {
    pub(in crate::memory) resource: &'static Resource,
    pub(in crate::memory) key: Key,
    pub(in crate::memory) manager: &'a str,
    pub(in crate::memory) status: bool,
    pub(in crate::memory) dry: bool,
}

/// How an object is changed.
pub(in crate::memory) enum Change {
    /// Server-side apply.
    Apply { config: Value, force: bool },
    /// A merge patch (RFC 7396).
    Merge(Value),
    /// All of it.
    Replace(Value),
}

type Written = Result<(bool, Arc<Value>), Refusal>;

impl<'a> Write<'a> {
    pub(in crate::memory) fn new(
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        manager: &'a str,
    ) -> Self {
        Self {
            resource,
            key: (resource.index(), namespace.to_owned(), name.to_owned()),
            manager,
            status: false,
            dry: false,
        }
    }

    /// As messages have it.
    pub(in crate::memory) fn what(&self) -> String {
        let group = match self.resource.group {
            "" => String::new(),
            group => format!(".{group}"),
        };
        format!("{}{group} {:?}", self.resource.plural, self.key.2)
    }
}

impl Store {
    /// Makes an object.
    pub(in crate::memory) fn create(&mut self, write: &Write<'_>, object: Value) -> Written {
        if self.get(&write.key).is_some() {
            let message = format!("{} already exists", write.what());
            return Err(Refusal::new(409, "AlreadyExists", message));
        }
        self.admit_into(write)?;
        let mut object = object;
        if let Some(map) = object.as_object_mut().filter(|_| write.resource.status) {
            map.remove("status");
        }
        let next = self.completed(write, None, object);
        let mut managers = Vec::new();
        let empty = json!({});
        // What the server adds by itself after it has noted who said what.
        let mut said = next.clone();
        if let Some(map) = said.as_object_mut() {
            map.retain(|key, _| key != "status" && !key.starts_with("deprecated"));
            if write.resource.kind == "Namespace" {
                map.remove("spec");
            }
        }
        managers::update(
            &mut managers,
            &self.update(write),
            &empty,
            &said,
            self.type_of(write.resource),
        );
        self.finish(write, None, next, &managers)
    }

    /// Changes an object; an apply may make it.
    pub(in crate::memory) fn change(&mut self, write: &Write<'_>, change: Change) -> Written {
        let live = self.get(&write.key);
        let said = match &change {
            Change::Apply { config, .. } => config,
            Change::Merge(object) | Change::Replace(object) => object,
        };
        let Some(live) = live else {
            if !said["metadata"]["uid"].is_null() {
                let message = format!(
                    "{}: uid mismatch: no existing object was found",
                    write.what()
                );
                return Err(Refusal::conflict(message));
            }
            let Change::Apply { config, force } = change else {
                return Err(Refusal::not_found(&write.what()));
            };
            if write.status {
                return Err(Refusal::not_found(&write.what()));
            }
            self.admit_into(write)?;
            return self.apply(write, None, config, force);
        };
        for key in ["uid", "resourceVersion"] {
            let wanted = &said["metadata"][key];
            if !wanted.is_null() && *wanted != "" && *wanted != live["metadata"][key] {
                let message = format!(
                    "{}: {key} is not {wanted}; apply to the latest version",
                    write.what()
                );
                return Err(Refusal::conflict(message));
            }
        }
        match change {
            Change::Apply { config, force } => self.apply(write, Some(&live), config, force),
            Change::Merge(patch) => {
                let mut next = (*live).clone();
                json_merge(&mut next, &patch);
                self.replace(write, &live, next)
            }
            Change::Replace(next) => self.replace(write, &live, next),
        }
    }

    fn replace(&mut self, write: &Write<'_>, live: &Arc<Value>, next: Value) -> Written {
        let next = self.completed(write, Some(live), next);
        let mut managers = managers::read(live);
        let type_ = self.type_of(write.resource);
        managers::update(&mut managers, &self.update(write), live, &next, type_);
        self.finish(write, Some(live), next, &managers)
    }

    fn apply(
        &mut self,
        write: &Write<'_>,
        live: Option<&Arc<Value>>,
        config: Value,
        force: bool,
    ) -> Written {
        let type_ = self.type_of(write.resource);
        let mut config = config;
        if let Some(map) = config.as_object_mut().filter(|_| write.resource.status) {
            match write.status {
                true => map.retain(|key, _| {
                    ["apiVersion", "kind", "metadata", "status"].contains(&key.as_str())
                }),
                false => drop(map.remove("status")),
            }
        }
        if write.status
            && let Some(meta) = config.get_mut("metadata").and_then(Value::as_object_mut)
        {
            meta.retain(|key, _| ["name", "namespace", "uid"].contains(&key.as_str()));
        }
        let mut said = Set::of(&config, type_);
        managers::strip(&mut said);
        let empty = json!({});
        let before = live.map_or(&empty, |live| &**live);
        let mut next = fields::merge(before, &config, type_);
        let mut managers = live.map(|live| managers::read(live)).unwrap_or_default();
        let own = Manager {
            operation: Operation::Apply,
            ..self.update(write)
        };
        managers::apply(&mut managers, own, said, before, &mut next, force, type_).map_err(
            |conflicts| {
                let message = format!(
                    "Apply failed with {} conflicts: {}",
                    conflicts.len(),
                    conflicts.join(", ")
                );
                Refusal::conflict(message)
            },
        )?;
        let next = self.completed(write, live, next);
        self.finish(write, live, next, &managers)
    }

    fn update(&self, write: &Write<'_>) -> Manager {
        Manager {
            name: write.manager.to_owned(),
            operation: Operation::Update,
            api_version: write.resource.api_version(),
            subresource: if write.status { "status" } else { "" }.to_owned(),
            time: self.now(),
            set: Set::default(),
        }
    }

    /// The object with everything that is not the client's to say.
    fn completed(&mut self, write: &Write<'_>, live: Option<&Arc<Value>>, said: Value) -> Value {
        let mut next = match (live, write.status) {
            // Of a status write nothing else counts.
            (Some(live), true) => {
                let mut next = (**live).clone();
                next["status"] = said["status"].clone();
                next
            }
            _ => said,
        };
        next["apiVersion"] = json!(write.resource.api_version());
        next["kind"] = json!(write.resource.kind);
        if !next["metadata"].is_object() {
            next["metadata"] = json!({});
        }
        let (_, namespace, name) = &write.key;
        next["metadata"]["name"] = json!(name);
        if write.resource.namespaced {
            next["metadata"]["namespace"] = json!(namespace);
        }
        match live {
            None => self.begin(write, &mut next),
            Some(live) if !write.status => keep(&mut next, live, write.resource),
            Some(_) => {}
        }
        let schema = self.schema(write.resource).cloned();
        defaults::fill(write.resource, schema.as_ref(), &mut next);
        if let Some(status) = next.get_mut("status") {
            defaults::trim_status(write.resource, status);
        }
        if next["status"].is_null()
            && let Some(map) = next.as_object_mut()
        {
            map.remove("status");
        }
        if let Some(meta) = next["metadata"].as_object_mut() {
            // Empty ones are not stored.
            for key in ["annotations", "finalizers", "labels", "ownerReferences"] {
                let empty = |value: &Value| {
                    value.is_null()
                        || value.as_array().is_some_and(Vec::is_empty)
                        || value.as_object().is_some_and(Map::is_empty)
                };
                if meta.get(key).is_some_and(empty) {
                    meta.remove(key);
                }
            }
        }
        self.allocate(write.resource, &mut next);
        generation(&mut next, live.map(|live| &**live), write.resource);
        next
    }

    /// What a new object gets.
    fn begin(&mut self, write: &Write<'_>, object: &mut Value) {
        let (uid, now) = (self.uid(), self.now());
        if let Some(meta) = object["metadata"].as_object_mut() {
            for key in [
                "deletionTimestamp",
                "generation",
                "managedFields",
                "resourceVersion",
            ] {
                meta.remove(key);
            }
            meta.insert("uid".to_owned(), Value::from(uid));
            meta.insert("creationTimestamp".to_owned(), now);
        }
        if write.resource.kind == "PersistentVolumeClaim" {
            // The admission plugin StorageObjectInUseProtection.
            object["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
        }
        if let Some(status) = defaults::first_status(write.resource) {
            object["status"] = status;
        }
    }

    fn allocate(&mut self, resource: &Resource, object: &mut Value) {
        if resource.kind != "Service" || object["spec"]["type"] == "ExternalName" {
            return;
        }
        let spec = &mut object["spec"];
        if spec["clusterIP"].is_null() || spec["clusterIP"] == "" {
            self.addresses += 1;
            let [_, _, high, low] = (self.addresses + 256).to_be_bytes();
            spec["clusterIP"] = json!(format!("10.96.{high}.{low}"));
        }
        if spec["clusterIPs"].is_null() {
            spec["clusterIPs"] = json!([spec["clusterIP"]]);
        }
        let outside = spec["type"] == "NodePort"
            || spec["type"] == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false;
        let ports = spec["ports"].as_array_mut().filter(|_| outside);
        for port in ports.into_iter().flatten() {
            if port["nodePort"].is_null() {
                self.ports += 1;
                port["nodePort"] = json!(30_000 + self.ports);
            }
        }
    }

    fn admit_into(&self, write: &Write<'_>) -> Result<(), Refusal> {
        if !write.resource.namespaced {
            return Ok(());
        }
        let namespace = &write.key.1;
        let key = (0, String::new(), namespace.clone());
        let Some(found) = self.get(&key) else {
            return Err(Refusal::not_found(&format!("namespaces {namespace:?}")));
        };
        match found["metadata"]["deletionTimestamp"].is_null() {
            true => Ok(()),
            false => {
                let what = write.what();
                let message = format!(
                    "{what} is forbidden: unable to create new content in namespace {namespace} \
                     because it is being terminated"
                );
                Err(Refusal::new(403, "Forbidden", message))
            }
        }
    }

    fn finish(
        &mut self,
        write: &Write<'_>,
        live: Option<&Arc<Value>>,
        mut next: Value,
        managers: &[Manager],
    ) -> Written {
        next["metadata"]["managedFields"] = managers::render(managers);
        if let Some(live) = live {
            next["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
            if same(live, &next) {
                return Ok((false, Arc::clone(live)));
            }
        }
        if write.dry {
            return Ok((live.is_none(), Arc::new(next)));
        }
        let going = !next["metadata"]["deletionTimestamp"].is_null();
        let held = next["metadata"]["finalizers"].is_array() || write.resource.kind == "Namespace";
        let stored = self.put(&write.key, next, going && !held);
        self.settle();
        Ok((live.is_none(), stored))
    }
}

/// The same but for when its managers wrote.
fn same(live: &Value, next: &Value) -> bool {
    let timeless = |object: &Value| {
        let mut object = object.clone();
        let managers = object["metadata"]["managedFields"].as_array_mut();
        for manager in managers.into_iter().flatten() {
            manager["time"] = Value::Null;
        }
        object
    };
    timeless(live) == timeless(next)
}

/// What a write of an object cannot change.
fn keep(next: &mut Value, live: &Value, resource: &Resource) {
    for key in [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "uid",
    ] {
        let value = live["metadata"][key].clone();
        if let Some(meta) = next["metadata"].as_object_mut() {
            match value.is_null() {
                true => drop(meta.remove(key)),
                false => drop(meta.insert(key.to_owned(), value)),
            }
        }
    }
    if resource.status {
        next["status"] = live["status"].clone();
    }
    if resource.kind == "Service" {
        for key in ["clusterIP", "clusterIPs"] {
            if next["spec"][key].is_null() && next["spec"]["type"] != "ExternalName" {
                next["spec"][key] = live["spec"][key].clone();
            }
        }
    }
}

fn generation(next: &mut Value, live: Option<&Value>, resource: &Resource) {
    if !resource.counted {
        return;
    }
    let content = |object: &Value| {
        let map = object.as_object().into_iter().flatten();
        let rest = map.filter(|(key, _)| !["metadata", "status"].contains(&key.as_str()));
        rest.map(|(key, value)| (key.clone(), value.clone()))
            .collect::<Map<_, _>>()
    };
    let was = live
        .and_then(|live| live["metadata"]["generation"].as_i64())
        .unwrap_or(0);
    let changed = live.is_none_or(|live| content(live) != content(next));
    next["metadata"]["generation"] = json!(was + i64::from(changed));
}

/// JSON merge patch (RFC 7396).
fn json_merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(target) = target else {
        return;
    };
    for (key, value) in patch {
        match value.is_null() {
            true => drop(target.remove(key)),
            false => json_merge(target.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}
