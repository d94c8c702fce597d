//! Decides whether a live object already holds all that a desired one says, so that nothing is
//! written when nothing changes.
//!
//! Invariant: `difference(x, x)` is `None`, also after the API server filled in defaults and
//! normalised quantities. Fields that live has and desired does not mention are not looked at, so
//! a field dropped from desired is found by [`stale_field`], not here.

use std::fmt;

use serde_json::{Map, Value};

use crate::quantity::{same_duration, same_quantity};

/// Where live first departs from desired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Keys and indices joined by dots: `spec.template.spec.containers.0.image`.
    pub path: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.path)
    }
}

/// The first place (in key order) where `live` does not hold what `desired` says; `None` when it
/// holds everything.
///
/// - Objects: every key of desired, recursively. Arrays: same length, element by element.
/// - `null`, `{}`, `[]` and an absent key are the same: the API server drops empty fields.
/// - Quantities (under `requests`, `limits`, `capacity`, `hard` and the like) and Go durations
///   (keys that end in Duration, Timeout, Period or Interval) are compared by value. Labels,
///   annotations and data are compared as text.
/// - An IntOrString keeps the type it was written with, so ports need no rule.
/// - `stringData` is write-only and never found in live: desired Secrets must use `data`.
pub fn difference(desired: &Value, live: &Value) -> Option<Difference> {
    let mut path = Vec::new();
    match holds(desired, live, &mut path) {
        true => None,
        false => Some(Difference {
            path: path.join("."),
        }),
    }
}

/// Maps whose keys and values are free text.
const TEXT_MAPS: &[&str] = &[
    "annotations",
    "binaryData",
    "data",
    "labels",
    "matchLabels",
    "nodeSelector",
    "selector",
];
/// Maps from resource name to quantity.
const QUANTITY_MAPS: &[&str] = &[
    "capacity",
    "default",
    "defaultRequest",
    "hard",
    "limits",
    "max",
    "maxLimitRequestRatio",
    "min",
    "overhead",
    "podFixed",
    "requests",
];
const QUANTITY_KEYS: &[&str] = &["divisor", "sizeLimit"];
const DURATION_SUFFIXES: &[&str] = &["Duration", "Timeout", "Period", "Interval"];

/// Leaves the path of the first difference in `path` when it returns false.
fn holds(desired: &Value, live: &Value, path: &mut Vec<String>) -> bool {
    match (desired, live) {
        (Value::Null, _) => true,
        (Value::Object(desired), Value::Object(live)) => desired.iter().all(|(key, value)| {
            path.push(key.clone());
            let held = holds(value, live.get(key).unwrap_or(&Value::Null), path);
            if held {
                path.pop();
            }
            held
        }),
        (Value::Array(desired), Value::Array(live)) => {
            desired.len() == live.len()
                && desired
                    .iter()
                    .zip(live)
                    .enumerate()
                    .all(|(index, (desired, live))| {
                        path.push(index.to_string());
                        let held = holds(desired, live, path);
                        if held {
                            path.pop();
                        }
                        held
                    })
        }
        (desired, live) if is_empty(live) && is_empty(desired) => true,
        (desired, live) => desired == live || same_leaf(desired, live, path),
    }
}

/// Empty in the API server's sense, also when only nested empties are left.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn same_leaf(desired: &Value, live: &Value, path: &[String]) -> bool {
    let [.., parent, key] = path else {
        return false;
    };
    if TEXT_MAPS.contains(&parent.as_str()) {
        return false;
    }
    if QUANTITY_MAPS.contains(&parent.as_str()) || QUANTITY_KEYS.contains(&key.as_str()) {
        return same_quantity(desired, live);
    }
    if let (Some(desired), Some(live)) = (desired.as_f64(), live.as_f64()) {
        // 1 and 1.0 are one number in JSON; integers beyond 2^53 were compared exactly before.
        return desired == live && desired.abs() < 9e15;
    }
    DURATION_SUFFIXES.iter().any(|suffix| key.ends_with(suffix)) && same_duration(desired, live)
}

/// The first field that `manager` owns in `live` by server-side apply and that `desired` no longer
/// says: applying would remove it. `None` when there is none, or when live carries no
/// `managedFields` (some caches drop them).
///
/// Reads `metadata.managedFields[].fieldsV1` as specified by structured-merge-diff: `f:` a field,
/// `k:` a list item by its keys, `v:` an item of a set.
pub fn stale_field(desired: &Value, live: &Value, manager: &str) -> Option<Difference> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let text = |entry: &Value, key| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    entries
        .iter()
        .filter(|entry| text(entry, "manager").as_deref() == Some(manager))
        .filter(|entry| text(entry, "operation").as_deref() == Some("Apply"))
        .filter(|entry| text(entry, "subresource").is_none_or(|name| name.is_empty()))
        .filter_map(|entry| entry.get("fieldsV1")?.as_object())
        .find_map(|owned| {
            let mut path = Vec::new();
            let stale = has_stale(owned, desired, &mut path);
            stale.then(|| Difference {
                path: path.join("."),
            })
        })
}

fn has_stale(owned: &Map<String, Value>, desired: &Value, path: &mut Vec<String>) -> bool {
    owned.iter().any(|(key, below)| {
        let (said, name) = match key.split_once(':') {
            Some(("f", name)) => (desired.get(name), name),
            Some(("k", keys)) => (item_with_keys(desired, keys), keys),
            Some(("v", item)) => (item_equal(desired, item), item),
            // "." is the field itself, which the level above has looked at.
            _ => return false,
        };
        path.push(name.to_owned());
        let stale = match (said, below.as_object()) {
            (None, _) => true,
            (Some(said), Some(below)) => has_stale(below, said, path),
            (Some(_), None) => false,
        };
        if !stale {
            path.pop();
        }
        stale
    })
}

fn item_with_keys<'a>(list: &'a Value, keys: &str) -> Option<&'a Value> {
    let keys: Map<String, Value> = serde_json::from_str(keys).ok()?;
    // A key that desired leaves out was defaulted by the API server (`protocol: TCP`).
    let matches = |item: &&Value| {
        keys.iter()
            .all(|(key, value)| item.get(key).is_none_or(|said| said == value))
    };
    list.as_array()?.iter().find(matches)
}

fn item_equal<'a>(list: &'a Value, item: &str) -> Option<&'a Value> {
    let item: Value = serde_json::from_str(item).ok()?;
    list.as_array()?.iter().find(|said| **said == item)
}

#[cfg(test)]
mod tests;
