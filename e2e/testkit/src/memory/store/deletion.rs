//! Deletes, and what goes with what is deleted.
//!
//! Invariant: an object with finalizers stays, marked, until the last one is off; a namespace goes after
//! its contents, and what has owners goes when none of them is left.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Key, Refusal, Store, Write};

/// What a deletion demands of the object.
#[derive(Clone, Debug, Default)]
pub(in crate::memory) struct Preconditions {
    pub(in crate::memory) uid: Option<String>,
    pub(in crate::memory) resource_version: Option<String>,
}

/// What becomes of what it owns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::memory) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

const FOREGROUND: &str = "foregroundDeletion";

impl Store {
    /// Deletes an object; `true`: it is gone.
    pub(in crate::memory) fn delete(
        &mut self,
        write: &Write<'_>,
        wanted: &Preconditions,
        propagation: Propagation,
    ) -> Result<(bool, Arc<Value>), Refusal> {
        let Some(live) = self.get(&write.key) else {
            return Err(Refusal::not_found(&write.what()));
        };
        for (key, wanted) in [
            ("uid", &wanted.uid),
            ("resourceVersion", &wanted.resource_version),
        ] {
            if wanted
                .as_deref()
                .is_some_and(|wanted| live["metadata"][key] != wanted)
            {
                let message = format!("{}: the precondition {key} does not hold", write.what());
                return Err(Refusal::conflict(message));
            }
        }
        if write.dry {
            return Ok((false, live));
        }
        self.deletes = true;
        if propagation == Propagation::Orphan {
            self.orphan(&live["metadata"]["uid"]);
        }
        self.mark(&write.key, propagation == Propagation::Foreground);
        self.settle();
        Ok(match self.get(&write.key) {
            Some(held) => (false, held),
            None => (true, live),
        })
    }

    /// Marks an object as going, and takes it away where nothing holds it.
    fn mark(&mut self, key: &Key, foreground: bool) {
        let Some(live) = self.get(key) else { return };
        let mut next = (*live).clone();
        if foreground && self.has_dependents(&live["metadata"]["uid"]) {
            let finalizers = next["metadata"]["finalizers"].as_array().cloned();
            let mut finalizers = finalizers.unwrap_or_default();
            finalizers.push(json!(FOREGROUND));
            next["metadata"]["finalizers"] = Value::Array(finalizers);
        }
        let is_namespace = key.0 == 0;
        if !is_namespace && !next["metadata"]["finalizers"].is_array() {
            self.put(key, next, true);
            return;
        }
        if !next["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        next["metadata"]["deletionTimestamp"] = self.now();
        if is_namespace {
            next["status"]["phase"] = json!("Terminating");
        } else {
            next["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            if let Some(generation) = next["metadata"]["generation"].as_i64() {
                next["metadata"]["generation"] = json!(generation + 1);
            }
        }
        self.put(key, next, false);
    }

    /// What the controllers do, until nothing is left for them.
    pub(super) fn settle(&mut self) {
        // As long as nothing was ever deleted, they have nothing to do.
        while self.deletes && self.step() {}
    }

    fn step(&mut self) -> bool {
        let before = self.revision;
        let uids: BTreeSet<String> = self
            .objects
            .values()
            .filter_map(|object| object["metadata"]["uid"].as_str().map(str::to_owned))
            .collect();
        let keys: Vec<Key> = self.objects.keys().cloned().collect();
        for key in keys {
            let Some(object) = self.get(&key) else {
                continue;
            };
            let going = !object["metadata"]["deletionTimestamp"].is_null();
            if key.0 == 0 && going {
                self.empty(&key);
                continue;
            }
            let owners = object["metadata"]["ownerReferences"].as_array();
            let is_left =
                |owner: &Value| owner["uid"].as_str().is_some_and(|uid| uids.contains(uid));
            let abandoned = owners.is_some_and(|owners| !owners.iter().any(is_left));
            let owners_go = owners
                .is_some_and(|owners| owners.iter().any(|owner| self.waits_for(&owner["uid"])));
            if !going && (abandoned || owners_go) {
                self.mark(&key, false);
            }
            if going
                && self.waits_for(&object["metadata"]["uid"])
                && !self.has_dependents(&object["metadata"]["uid"])
            {
                self.release(&key, &object);
            }
        }
        self.revision != before
    }

    /// Marks the contents of a namespace, or takes it away when it has none.
    fn empty(&mut self, key: &Key) {
        let inside: Vec<Key> = self
            .objects
            .keys()
            .filter(|(_, namespace, _)| *namespace == key.2)
            .cloned()
            .collect();
        if inside.is_empty()
            && let Some(namespace) = self.get(key)
        {
            self.put(key, (*namespace).clone(), true);
        }
        for key in inside {
            self.mark(&key, false);
        }
    }

    /// Whether an object of this UID goes after its dependents.
    fn waits_for(&self, uid: &Value) -> bool {
        self.objects.values().any(|object| {
            object["metadata"]["uid"] == *uid
                && object["metadata"]["finalizers"]
                    .as_array()
                    .is_some_and(|finalizers| finalizers.iter().any(|f| f == FOREGROUND))
        })
    }

    fn has_dependents(&self, uid: &Value) -> bool {
        self.objects.values().any(|object| is_owned(object, uid))
    }

    /// Takes the finalizer of the garbage collector off.
    fn release(&mut self, key: &Key, object: &Value) {
        let mut next = object.clone();
        let finalizers = next["metadata"]["finalizers"].as_array().cloned();
        let left: Vec<_> = finalizers
            .into_iter()
            .flatten()
            .filter(|f| f != FOREGROUND)
            .collect();
        let gone = left.is_empty();
        match next["metadata"].as_object_mut() {
            Some(meta) if gone => drop(meta.remove("finalizers")),
            Some(meta) => drop(meta.insert("finalizers".to_owned(), Value::Array(left))),
            None => {}
        }
        self.put(key, next, gone);
    }

    fn orphan(&mut self, uid: &Value) {
        let owned: Vec<Key> = self
            .objects
            .iter()
            .filter(|(_, object)| is_owned(object, uid))
            .map(|(key, _)| key.clone())
            .collect();
        for key in owned {
            let Some(object) = self.get(&key) else {
                continue;
            };
            let mut next = (*object).clone();
            let owners = next["metadata"]["ownerReferences"].as_array_mut();
            if let Some(owners) = owners {
                owners.retain(|owner| owner["uid"] != *uid);
                if owners.is_empty()
                    && let Some(meta) = next["metadata"].as_object_mut()
                {
                    meta.remove("ownerReferences");
                }
            }
            self.put(&key, next, false);
        }
    }
}

fn is_owned(object: &Value, uid: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == *uid))
}
