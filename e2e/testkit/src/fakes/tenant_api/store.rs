//! Objects by path, with the part of server-side apply that an operator notices, and what happened
//! to them.
//!
//! Invariant: what a manager no longer applies goes away, what another applied stays, and an
//! apply that changes nothing keeps the resourceVersion.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::select::Selection;

/// All objects of one stand-in.
#[derive(Default)]
pub(super) struct Store {
    objects: BTreeMap<String, Stored>,
    revision: u64,
    events: Vec<Event>,
}

/// One change, for watches.
struct Event {
    revision: u64,
    type_: &'static str,
    path: String,
    object: Value,
}

#[derive(Clone)]
struct Stored {
    object: Value,
    /// By field manager, in the order of their names.
    applied: BTreeMap<String, Value>,
}

/// What became of a request.
pub(super) enum Outcome {
    Found(Value),
    Created(Value),
    NotFound,
    /// There is one already, or it is not the one that is meant.
    Exists,
}

impl Store {
    pub(super) fn get(&self, path: &str) -> Option<Value> {
        self.objects.get(path).map(|stored| stored.object.clone())
    }

    pub(super) fn paths(&self) -> Vec<String> {
        self.objects.keys().cloned().collect()
    }

    /// The objects of one collection, as a list.
    pub(super) fn list(&self, selection: &Selection) -> Value {
        let below = self
            .objects
            .iter()
            .filter(|(key, stored)| selection.holds(key, &stored.object));
        let items: Vec<Value> = below.map(|(_, stored)| stored.object.clone()).collect();
        let metadata = json!({ "resourceVersion": self.revision.to_string() });
        json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})
    }

    /// The changes after a revision, as lines of a watch, and the revision they lead to.
    pub(super) fn after(&self, revision: u64, selection: &Selection) -> (u64, String) {
        let known = self.events.partition_point(|e| e.revision <= revision);
        let new = self.events.iter().skip(known);
        let lines = new
            .filter(|event| selection.holds(&event.path, &event.object))
            .map(|event| {
                let line = json!({ "type": event.type_, "object": event.object });
                format!("{line}\n")
            });
        (self.revision, lines.collect())
    }

    pub(super) fn apply(&mut self, path: &str, manager: &str, object: Value, dry: bool) -> Outcome {
        let before = self.objects.get(path);
        // A UID says that there is one already, and which.
        let uid = &object["metadata"]["uid"];
        let same = |stored: &Stored| stored.object["metadata"]["uid"] == *uid;
        if !uid.is_null() && !before.is_some_and(same) {
            return Outcome::Exists;
        }
        let mut all = before
            .map(|stored| stored.object.clone())
            .unwrap_or_default();
        let mut applied = before
            .map(|stored| stored.applied.clone())
            .unwrap_or_default();
        if let Some(no_longer) = applied.get(manager) {
            take_away(&mut all, no_longer, &object);
        }
        applied.insert(manager.to_owned(), object);
        for part in applied.values() {
            merge(&mut all, part);
        }
        self.store(path, all, applied, dry)
    }

    pub(super) fn merge(&mut self, path: &str, patch: &Value, dry: bool) -> Outcome {
        let Some(mut before) = self.objects.get(path).cloned() else {
            return Outcome::NotFound;
        };
        let mut object = before.object;
        let meta = &patch["metadata"];
        let differs = |key: &str| !meta[key].is_null() && meta[key] != object["metadata"][key];
        if ["uid", "resourceVersion"].into_iter().any(differs) {
            return Outcome::Exists;
        }
        merge(&mut object, patch);
        for part in before.applied.values_mut() {
            follow(part, patch);
        }
        self.store(path, object, before.applied, dry)
    }

    pub(super) fn replace(&mut self, path: &str, object: Value, dry: bool) -> Outcome {
        let Some(before) = self.objects.get(path).cloned() else {
            return Outcome::NotFound;
        };
        self.store(path, object, before.applied, dry)
    }

    pub(super) fn create(&mut self, path: &str, object: Value, dry: bool) -> Outcome {
        if self.objects.contains_key(path) {
            return Outcome::Exists;
        }
        self.store(path, object, BTreeMap::new(), dry)
    }

    pub(super) fn delete(&mut self, path: &str, dry: bool) -> Outcome {
        let found = if dry {
            self.objects.get(path).cloned()
        } else {
            self.objects.remove(path)
        };
        if let Some(stored) = found.as_ref().filter(|_| !dry) {
            self.revision += 1;
            let mut object = stored.object.clone();
            object["metadata"]["resourceVersion"] = Value::from(self.revision.to_string());
            self.note("DELETED", path, object);
        }
        found.map_or(Outcome::NotFound, |stored| Outcome::Found(stored.object))
    }

    fn note(&mut self, type_: &'static str, path: &str, object: Value) {
        self.events.push(Event {
            revision: self.revision,
            type_,
            path: path.to_owned(),
            object,
        });
    }

    fn store(
        &mut self,
        path: &str,
        mut object: Value,
        applied: BTreeMap<String, Value>,
        dry: bool,
    ) -> Outcome {
        let before = self.objects.get(path).map(|stored| stored.object.clone());
        let next = self.revision + 1;
        let old = before.as_ref().map(|object| &object["metadata"]);
        let keep = |key: &str, new: String| old.map_or(Value::from(new), |m| m[key].clone());
        let server = [
            (
                "uid",
                keep("uid", format!("00000000-0000-4000-8000-{next:012}")),
            ),
            (
                "creationTimestamp",
                keep("creationTimestamp", jiff::Timestamp::now().to_string()),
            ),
            ("resourceVersion", keep("resourceVersion", String::new())),
        ];
        let server = server
            .into_iter()
            .chain(generation(&object, before.as_ref()));
        merge(
            &mut object,
            &json!({ "metadata": Map::from_iter(server.map(own)) }),
        );
        let managers = applied
            .keys()
            .map(|name| json!({ "manager": name, "operation": "Apply" }));
        object["metadata"]["managedFields"] = managers.collect();
        if before.as_ref() != Some(&object) {
            object["metadata"]["resourceVersion"] = Value::from(next.to_string());
            if !dry {
                self.revision = next;
                let type_ = if before.is_some() {
                    "MODIFIED"
                } else {
                    "ADDED"
                };
                self.note(type_, path, object.clone());
                self.objects.insert(
                    path.to_owned(),
                    Stored {
                        object: object.clone(),
                        applied,
                    },
                );
            }
        } else if let Some(stored) = self.objects.get_mut(path).filter(|_| !dry) {
            stored.applied = applied;
        }
        if before.is_some() {
            Outcome::Found(object)
        } else {
            Outcome::Created(object)
        }
    }
}

/// The generation of kinds that have one: it grows with every change of the spec.
fn generation(object: &Value, before: Option<&Value>) -> Option<(&'static str, Value)> {
    let kind = object["kind"].as_str().unwrap_or_default();
    if !["DaemonSet", "Deployment"].contains(&kind) {
        return None;
    }
    let was = before.and_then(|before| before["metadata"]["generation"].as_i64());
    let changed = before.is_none_or(|before| before["spec"] != object["spec"]);
    Some((
        "generation",
        Value::from(was.unwrap_or(0) + i64::from(changed)),
    ))
}

/// Takes away what was applied before and is not any more.
fn take_away(object: &mut Value, before: &Value, now: &Value) {
    let (Value::Object(object), Value::Object(before)) = (object, before) else {
        return;
    };
    for (key, old) in before {
        match (object.get_mut(key), now.get(key)) {
            (Some(field), Some(new)) => take_away(field, old, new),
            (Some(field), None) if old.is_object() => {
                take_away(field, old, &Value::Null);
                if field.as_object().is_some_and(Map::is_empty) {
                    object.remove(key);
                }
            }
            (Some(_), None) => drop(object.remove(key)),
            (None, _) => {}
        }
    }
}

/// What was applied and is changed by a patch is not applied again when somebody else applies something.
fn follow(applied: &mut Value, patch: &Value) {
    let (Value::Object(applied), Value::Object(patch)) = (applied, patch) else {
        return;
    };
    for (key, new) in patch {
        match applied.get_mut(key) {
            Some(old) if old.is_object() && new.is_object() => follow(old, new),
            Some(_) => drop(applied.remove(key)),
            None => {}
        }
    }
}

fn own((key, value): (&str, Value)) -> (String, Value) {
    (key.to_owned(), value)
}

/// JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(outcome: Outcome) -> String {
        match outcome {
            Outcome::Found(object) | Outcome::Created(object) => {
                object["metadata"]["resourceVersion"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            }
            Outcome::NotFound | Outcome::Exists => panic!("nothing was stored"),
        }
    }

    #[test]
    fn field_that_is_no_longer_applied_goes_and_others_fields_stay() {
        let mut store = Store::default();
        let path = "/api/v1/namespaces/a/configmaps/b";
        let first = version(store.apply(path, "x", json!({"data": {"a": "1", "b": "1"}}), false));
        store.apply(path, "y", json!({"data": {"c": "1"}}), false);
        let second = version(store.apply(path, "x", json!({"data": {"a": "1"}}), false));
        assert_eq!(
            store.get(path).unwrap()["data"],
            json!({"a": "1", "c": "1"})
        );
        assert_ne!(first, second);
        let third = version(store.apply(path, "x", json!({"data": {"a": "1"}}), false));
        assert_eq!(second, third);
    }

    #[test]
    fn apply_keeps_what_nobody_applied_and_a_uid_makes_no_object() {
        let mut store = Store::default();
        let path = "/api/v1/nodes/a";
        let labels = |uid: &Value| json!({"metadata": {"uid": uid, "labels": {"x": "y"}}});
        let nowhere = store.apply(path, "x", labels(&json!("1")), false);
        assert!(matches!(nowhere, Outcome::Exists) && store.get(path).is_none());
        store.create(path, json!({"spec": {"providerID": "p"}}), false);
        let uid = store.get(path).unwrap()["metadata"]["uid"].clone();
        store.apply(path, "x", labels(&uid), false);
        let node = store.get(path).unwrap();
        assert_eq!(node["spec"]["providerID"], "p");
        assert_eq!(node["metadata"]["labels"]["x"], "y");
        store.apply(path, "x", json!({"metadata": {}}), false);
        let node = store.get(path).unwrap();
        assert!(node["metadata"].get("labels").is_none(), "{node}");
        assert_eq!(node["metadata"]["uid"], uid);
    }

    #[test]
    fn what_is_patched_stays_when_somebody_else_applies() {
        let mut store = Store::default();
        let path = "/api/v1/nodes/a";
        let named = |name: &str| json!({"spec": {"providerID": name, "taints": []}});
        store.apply(path, "x", named(""), false);
        store.merge(path, &json!({"spec": {"providerID": "p"}}), false);
        store.apply(
            path,
            "y",
            json!({"metadata": {"labels": {"x": "y"}}}),
            false,
        );
        assert_eq!(store.get(path).unwrap()["spec"], named("p")["spec"]);
    }

    #[test]
    fn patch_of_another_uid_or_version_is_a_conflict() {
        let mut store = Store::default();
        let path = "/api/v1/nodes/a";
        store.create(path, json!({"kind": "Node"}), false);
        let before = store.get(path).unwrap();
        for key in ["uid", "resourceVersion"] {
            let patch = |value: &Value| json!({"metadata": {key: value}, "spec": {"x": key}});
            let other = store.merge(path, &patch(&json!("other")), false);
            assert!(matches!(other, Outcome::Exists), "{key}");
            assert_eq!(store.get(path).unwrap(), before);
        }
        let same = json!({"metadata": before["metadata"], "spec": {"x": "y"}});
        assert!(matches!(store.merge(path, &same, false), Outcome::Found(_)));
        assert_eq!(store.get(path).unwrap()["spec"]["x"], "y");
    }

    #[test]
    fn dry_run_changes_nothing() {
        let mut store = Store::default();
        let path = "/api/v1/namespaces/a";
        store.apply(path, "x", json!({"kind": "Namespace"}), true);
        assert_eq!(store.get(path), None);
        store.create(path, json!({"kind": "Namespace"}), false);
        store.delete(path, true);
        assert_eq!(store.paths(), [path]);
        let all = Selection::new(&"/api/v1/namespaces".parse().unwrap());
        assert_eq!(store.list(&all)["items"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_watch_tells_of_every_change_once_and_in_order() {
        let mut store = Store::default();
        let path = "/apis/apps/v1/namespaces/a/deployments/b";
        let all = Selection::new(&"/apis/apps/v1/deployments".parse().unwrap());
        store.apply(
            path,
            "x",
            json!({"kind": "Deployment", "spec": {"a": 1}}),
            false,
        );
        let (first, _) = store.after(0, &all);
        store.apply(
            path,
            "x",
            json!({"kind": "Deployment", "spec": {"a": 1}}),
            false,
        );
        store.apply(
            path,
            "x",
            json!({"kind": "Deployment", "spec": {"a": 2}}),
            false,
        );
        store.delete(path, false);
        let (last, lines) = store.after(first, &all);
        let events: Vec<Value> = lines
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        let told: Vec<_> = events
            .iter()
            .map(|e| (&e["type"], &e["object"]["metadata"]["generation"]))
            .collect();
        assert_eq!(
            told,
            [
                (&json!("MODIFIED"), &json!(2)),
                (&json!("DELETED"), &json!(2))
            ]
        );
        assert_eq!(store.after(last, &all).1, "");
    }
}
