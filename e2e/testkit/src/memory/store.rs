//! The objects of the API in memory, what happened to them, and how they are written.
//!
//! Invariant: every change has a revision of its own and is told to watches in that order; a write
//! that changes nothing has none. What controllers do (owners' dependents, the contents of a namespace
//! that goes) is done before the write that caused it is answered.

mod deletion;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Clock;
use super::resources::{self, Resource};
use super::shape::Type;

pub(super) use deletion::{Preconditions, Propagation};
pub(super) use write::{Change, Write};

/// Kind, namespace (empty without one) and name.
pub(super) type Key = (usize, String, String);

/// Why a request is not carried out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
        }
    }

    pub(super) fn not_found(what: &str) -> Self {
        Self::new(404, "NotFound", format!("{what} not found"))
    }

    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(409, "Conflict", message)
    }
}

/// One change.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) revision: u64,
    pub(super) key: Key,
    pub(super) before: Option<Arc<Value>>,
    /// As it is now, or as it was last.
    pub(super) object: Arc<Value>,
    pub(super) gone: bool,
}

pub(super) struct Store {
    objects: BTreeMap<Key, Arc<Value>>,
    history: Vec<Event>,
    revision: u64,
    /// Changes up to this one are forgotten.
    compacted: u64,
    /// Whether anything was ever deleted.
    deletes: bool,
    uids: u64,
    addresses: u32,
    ports: u16,
    schemas: BTreeMap<&'static str, Value>,
    clock: Clock,
}

/// Namespaces that every API server makes for itself.
pub(super) const BUILT_IN: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

impl Store {
    pub(super) fn new(clock: Clock, schemas: BTreeMap<&'static str, Value>) -> Self {
        let mut store = Self {
            objects: BTreeMap::new(),
            history: Vec::new(),
            revision: 1,
            compacted: 0,
            deletes: false,
            uids: 0,
            addresses: 0,
            ports: 0,
            schemas,
            clock,
        };
        for name in BUILT_IN {
            let namespace = json!({ "metadata": { "name": name } });
            let write = Write::new(&resources::ALL[0], "", name, "kube-apiserver");
            // Nothing is there that could be in its way.
            let _ = store.create(&write, namespace);
        }
        store
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Forgets how what is there came about.
    pub(super) fn compact(&mut self) {
        self.compacted = self.revision;
        self.history.clear();
    }

    pub(super) fn is_forgotten(&self, revision: u64) -> bool {
        revision < self.compacted
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.objects.get(key).cloned()
    }

    /// All of a kind, in a namespace or (empty) everywhere, in the order of their keys.
    pub(super) fn list<'a>(
        &'a self,
        resource: &Resource,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        let index = resource.index();
        let from = (index, namespace.to_owned(), String::new());
        let range = self.objects.range(from..);
        range.take_while(move |((kind, place, _), _)| {
            *kind == index && (namespace.is_empty() || place == namespace)
        })
    }

    /// What happened after a revision.
    pub(super) fn since(&self, revision: u64) -> impl Iterator<Item = &Event> {
        let first = self
            .history
            .partition_point(|event| event.revision <= revision);
        self.history.iter().skip(first)
    }

    fn type_of(&self, resource: &Resource) -> Type<'_> {
        match self.schema(resource) {
            Some(schema) => Type::Kind(schema),
            None => Type::Object,
        }
    }

    fn schema(&self, resource: &Resource) -> Option<&Value> {
        let custom = resource.is_custom();
        self.schemas.get(resource.kind).filter(|_| custom)
    }

    /// Seconds, as the server writes them.
    fn now(&self) -> Value {
        let now = (self.clock)();
        let seconds = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
        Value::from(seconds.to_string())
    }

    fn uid(&mut self) -> String {
        self.uids += 1;
        // What differs comes first: names are made of the first ten digits.
        format!("{:08x}-0000-4000-8000-{:012}", self.uids, self.uids)
    }

    /// Stores an object under a new revision, or takes it away, and tells.
    fn put(&mut self, key: &Key, mut object: Value, gone: bool) -> Arc<Value> {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = Value::from(self.revision.to_string());
        let object = Arc::new(object);
        let before = match gone {
            true => self.objects.remove(key),
            false => self.objects.insert(key.clone(), Arc::clone(&object)),
        };
        self.history.push(Event {
            revision: self.revision,
            key: key.clone(),
            before,
            object: Arc::clone(&object),
            gone,
        });
        object
    }
}
