//! Sets of fields, as `metadata.managedFields` holds them, and what apply and update do with them.
//!
//! After sigs.k8s.io/structured-merge-diff v6: `f:` a field, `k:` an item by its keys, `v:` an item
//! of a set, `.` the thing itself. Invariant: pure; an object and the set of its fields are walked by
//! the same shapes, so what is merged by keys is also owned by keys.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::shape::{Shape, Type};

/// A set of paths.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Set {
    member: bool,
    below: BTreeMap<String, Set>,
}

/// What differs from one object to the next.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Added or modified.
    pub(super) changed: Set,
    pub(super) removed: Set,
}

impl Set {
    /// Every field that a value says.
    pub(super) fn of(value: &Value, type_: Type<'_>) -> Self {
        let mut set = Self::default();
        match (type_.shape(value), value) {
            (Shape::Fields, Value::Object(map)) => {
                for (key, value) in map {
                    let child = type_.field(key);
                    let mut below = Self::of(value, child);
                    below.member |= is_empty(value) || type_.is_free();
                    set.below.insert(format!("f:{key}"), below);
                }
            }
            (Shape::Keyed(keys), Value::Array(items)) => {
                for item in items {
                    let mut below = Self::of(item, type_.item());
                    below.member = true;
                    set.below.insert(name_of(item, keys), below);
                }
            }
            (Shape::Set, Value::Array(items)) => {
                for item in items {
                    set.below.insert(format!("v:{item}"), Self::leaf());
                }
            }
            _ => set.member = true,
        }
        set
    }

    fn leaf() -> Self {
        Self {
            member: true,
            below: BTreeMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.below.values().all(Self::is_empty)
    }

    /// The part below a path of fields, taken out.
    pub(super) fn take(&mut self, path: &[&str]) -> Self {
        match path {
            [] => std::mem::take(self),
            [last] => self.below.remove(&format!("f:{last}")).unwrap_or_default(),
            [first, rest @ ..] => {
                let child = self.below.get_mut(&format!("f:{first}"));
                child.map(|child| child.take(rest)).unwrap_or_default()
            }
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.member |= other.member;
        for (key, theirs) in &other.below {
            self.below.entry(key.clone()).or_default().add(theirs);
        }
    }

    pub(super) fn subtract(&mut self, other: &Self) {
        self.member &= !other.member;
        for (key, theirs) in &other.below {
            if let Some(ours) = self.below.get_mut(key) {
                ours.subtract(theirs);
            }
        }
        self.below.retain(|_, below| !below.is_empty());
    }

    pub(super) fn common(&self, other: &Self) -> Self {
        let both = self.below.iter().filter_map(|(key, ours)| {
            let common = ours.common(other.below.get(key)?);
            (!common.is_empty()).then(|| (key.clone(), common))
        });
        Self {
            member: self.member && other.member,
            below: both.collect(),
        }
    }

    /// Takes out the thing at a path, not what is below it.
    pub(super) fn forget(&mut self, path: &[&str]) {
        match path {
            [] => self.member = false,
            [first, rest @ ..] => {
                if let Some(child) = self.below.get_mut(&format!("f:{first}")) {
                    child.forget(rest);
                }
            }
        }
    }

    /// Reads `fieldsV1`.
    pub(super) fn parse(fields: &Value) -> Self {
        let map = fields.as_object().into_iter().flatten();
        let below: BTreeMap<_, _> = map
            .clone()
            .filter(|(key, _)| *key != ".")
            .map(|(key, below)| (key.clone(), Self::parse(below)))
            .collect();
        Self {
            member: below.is_empty() || map.into_iter().any(|(key, _)| key == "."),
            below,
        }
    }

    /// `fieldsV1`.
    pub(super) fn render(&self) -> Value {
        let mut map = Map::new();
        if self.member && !self.below.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        map.extend(
            self.below
                .iter()
                .map(|(key, below)| (key.clone(), below.render())),
        );
        Value::Object(map)
    }

    /// Paths for people, as the real server's messages of conflicts have them.
    pub(super) fn paths(&self) -> Vec<String> {
        let own = self.member.then(String::new);
        let below = self.below.iter().flat_map(|(key, set)| {
            let name = match key.split_once(':') {
                Some(("f", name)) => format!(".{name}"),
                Some((_, keys)) => format!("[{keys}]"),
                None => key.clone(),
            };
            set.paths()
                .into_iter()
                .map(move |path| format!("{name}{path}"))
        });
        own.into_iter().chain(below).collect()
    }

    /// Takes the members out of a value; what has become empty by that goes too.
    pub(super) fn remove_from(&self, value: &mut Value, type_: Type<'_>) {
        match (type_.shape(value), value) {
            (Shape::Fields, Value::Object(map)) => {
                for (key, below) in &self.below {
                    let Some(key) = key.strip_prefix("f:") else {
                        continue;
                    };
                    let Some(child) = map.get_mut(key) else {
                        continue;
                    };
                    below.remove_from(child, type_.field(key));
                    if below.member && (below.below.is_empty() || is_empty(child))
                        || is_empty(child) && !below.below.is_empty()
                    {
                        map.remove(key);
                    }
                }
            }
            (Shape::Keyed(keys), Value::Array(items)) => {
                items.retain(|item| {
                    !self
                        .below
                        .get(&name_of(item, keys))
                        .is_some_and(|b| b.member)
                });
                for item in items {
                    if let Some(below) = self.below.get(&name_of(item, keys)) {
                        below.remove_from(item, type_.item());
                    }
                }
            }
            (Shape::Set, Value::Array(items)) => {
                items.retain(|item| !self.below.contains_key(&format!("v:{item}")));
            }
            _ => {}
        }
    }
}

/// What is different in `after`.
pub(super) fn compare(before: &Value, after: &Value, type_: Type<'_>) -> Comparison {
    let mut found = Comparison::default();
    match (type_.shape(after), before, after) {
        (Shape::Fields, Value::Object(old), Value::Object(new)) => {
            for (key, after) in new {
                let name = format!("f:{key}");
                let inner = match old.get(key) {
                    Some(before) => compare(before, after, type_.field(key)),
                    None => all_new(after, type_.field(key)),
                };
                found.take_in(name, inner);
            }
            for (key, before) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
                found.take_in(format!("f:{key}"), all_gone(before, type_.field(key)));
            }
        }
        (Shape::Keyed(keys), Value::Array(old), Value::Array(new)) => {
            let of = |list: &[Value], name: &str| {
                let mut same = list.iter().filter(|item| name_of(item, keys) == name);
                same.next().cloned()
            };
            for item in new {
                let name = name_of(item, keys);
                let inner = match of(old, &name) {
                    Some(before) => compare(&before, item, type_.item()),
                    None => all_new(item, type_.item()),
                };
                found.take_in(name, inner);
            }
            for item in old {
                let name = name_of(item, keys);
                if of(new, &name).is_none() {
                    found.take_in(name, all_gone(item, type_.item()));
                }
            }
        }
        (Shape::Set, Value::Array(old), Value::Array(new)) => {
            for item in new.iter().filter(|item| !old.contains(item)) {
                found.changed.below.insert(format!("v:{item}"), Set::leaf());
            }
            for item in old.iter().filter(|item| !new.contains(item)) {
                found.removed.below.insert(format!("v:{item}"), Set::leaf());
            }
        }
        (_, before, after) => found.changed.member = before != after,
    }
    found
}

fn all_new(value: &Value, type_: Type<'_>) -> Comparison {
    let mut changed = Set::of(value, type_);
    changed.member = true;
    Comparison {
        changed,
        removed: Set::default(),
    }
}

fn all_gone(value: &Value, type_: Type<'_>) -> Comparison {
    let gone = all_new(value, type_);
    Comparison {
        removed: gone.changed,
        changed: Set::default(),
    }
}

impl Comparison {
    fn take_in(&mut self, name: String, inner: Self) {
        if !inner.changed.is_empty() {
            self.changed.below.insert(name.clone(), inner.changed);
        }
        if !inner.removed.is_empty() {
            self.removed.below.insert(name, inner.removed);
        }
    }
}

/// `live` with everything that `config` says.
pub(super) fn merge(live: &Value, config: &Value, type_: Type<'_>) -> Value {
    match (type_.shape(config), live, config) {
        (Shape::Fields, Value::Object(old), Value::Object(new)) => {
            let mut merged = old.clone();
            for (key, value) in new {
                let value = match old.get(key) {
                    Some(before) => merge(before, value, type_.field(key)),
                    None => value.clone(),
                };
                merged.insert(key.clone(), value);
            }
            Value::Object(merged)
        }
        (Shape::Keyed(keys), Value::Array(old), Value::Array(new)) => {
            let names: Vec<_> = new.iter().map(|item| name_of(item, keys)).collect();
            let mut merged: Vec<Value> = Vec::new();
            for (name, item) in names.iter().zip(new) {
                let before = old.iter().find(|old| name_of(old, keys) == *name);
                merged.push(match before {
                    Some(before) => merge(before, item, type_.item()),
                    None => item.clone(),
                });
            }
            merged.extend(
                old.iter()
                    .filter(|item| !names.contains(&name_of(item, keys)))
                    .cloned(),
            );
            Value::Array(merged)
        }
        (Shape::Set, Value::Array(old), Value::Array(new)) => {
            let more = new.iter().filter(|item| !old.contains(item));
            Value::Array(old.iter().chain(more).cloned().collect())
        }
        _ => config.clone(),
    }
}

/// `k:{"name":"a"}`. A protocol that is left out is the default one.
fn name_of(item: &Value, keys: &[&str]) -> String {
    let mut map = Map::new();
    for key in keys {
        let value = match (item.get(*key), *key) {
            (Some(value), _) => value.clone(),
            (None, "protocol") => Value::from("TCP"),
            (None, _) => continue,
        };
        map.insert((*key).to_owned(), value);
    }
    format!("k:{}", Value::Object(map))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
