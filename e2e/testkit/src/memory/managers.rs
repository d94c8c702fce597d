//! Who owns which fields of an object: `metadata.managedFields`.
//!
//! Invariant: pure. A field has as many owners as say it with one value; who changes it without being
//! asked to force takes it from all others, who applies it without force is told of the conflict.

use serde_json::{Value, json};

use super::fields::{Set, compare};
use super::shape::Type;

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// One entry.
#[derive(Clone, Debug)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: Value,
    pub(super) set: Set,
}

impl Manager {
    fn is(&self, other: &Self) -> bool {
        (&self.name, self.operation, &self.subresource)
            == (&other.name, other.operation, &other.subresource)
    }
}

/// The entries of an object.
pub(super) fn read(object: &Value) -> Vec<Manager> {
    let entries = object["metadata"]["managedFields"].as_array();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let one = |entry: &Value| Manager {
        name: text(entry, "manager"),
        operation: match entry["operation"] == "Apply" {
            true => Operation::Apply,
            false => Operation::Update,
        },
        api_version: text(entry, "apiVersion"),
        subresource: text(entry, "subresource"),
        time: entry["time"].clone(),
        set: Set::parse(&entry["fieldsV1"]),
    };
    entries.into_iter().flatten().map(one).collect()
}

/// The entries as the server writes them, applies first.
pub(super) fn render(managers: &[Manager]) -> Value {
    let mut managers: Vec<&Manager> = managers.iter().filter(|m| !m.set.is_empty()).collect();
    let order = |m: &&Manager| {
        (
            m.operation,
            m.time.to_string(),
            m.name.clone(),
            m.subresource.clone(),
        )
    };
    managers.sort_by_key(order);
    let one = |manager: &Manager| {
        let mut entry = json!({
            "manager": manager.name, "operation": format!("{:?}", manager.operation),
            "apiVersion": manager.api_version, "time": manager.time, "fieldsType": "FieldsV1",
            "fieldsV1": manager.set.render(),
        });
        if !manager.subresource.is_empty() {
            entry["subresource"] = json!(manager.subresource);
        }
        entry
    };
    managers.into_iter().map(one).collect()
}

/// Takes out what nobody owns: names, and what the server alone writes.
pub(super) fn strip(set: &mut Set) {
    set.take(&["apiVersion"]);
    set.take(&["kind"]);
    for key in [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ] {
        set.take(&["metadata", key]);
    }
    set.forget(&["metadata"]);
    // What is left empty by that goes.
    set.subtract(&Set::default());
}

/// An object was changed by other means than apply.
pub(super) fn update(
    managers: &mut Vec<Manager>,
    who: &Manager,
    before: &Value,
    after: &Value,
    type_: Type<'_>,
) {
    let mut found = compare(before, after, type_);
    strip(&mut found.changed);
    strip(&mut found.removed);
    if found.changed.is_empty() && found.removed.is_empty() {
        return;
    }
    for manager in managers.iter_mut() {
        manager.set.subtract(&found.removed);
        if !manager.is(who) {
            manager.set.subtract(&found.changed);
        }
    }
    match managers.iter_mut().find(|manager| manager.is(who)) {
        Some(own) => {
            own.set.add(&found.changed);
            own.time = who.time.clone();
        }
        None => managers.push(Manager {
            set: found.changed,
            ..who.clone()
        }),
    }
}

/// `who` applied `said`, which made `next` of `before`. Takes out of `next` what it no longer says and
/// nobody else does.
///
/// # Errors
/// The conflicts, without `force`.
pub(super) fn apply(
    managers: &mut Vec<Manager>,
    who: Manager,
    said: Set,
    before: &Value,
    next: &mut Value,
    force: bool,
    type_: Type<'_>,
) -> Result<(), Vec<String>> {
    let changed = compare(before, next, type_).changed;
    let mut conflicts = Vec::new();
    for manager in managers.iter_mut().filter(|manager| !manager.is(&who)) {
        let common = manager.set.common(&changed).common(&said);
        let paths = common.paths().into_iter();
        conflicts.extend(paths.map(|path| format!("conflict with {:?}: {path}", manager.name)));
        if force {
            manager.set.subtract(&common);
        }
    }
    if !conflicts.is_empty() && !force {
        return Err(conflicts);
    }
    let own = managers.iter().position(|manager| manager.is(&who));
    if let Some(own) = own {
        let mut left = managers[own].set.clone();
        left.subtract(&said);
        for manager in managers.iter().filter(|manager| !manager.is(&who)) {
            left.subtract(&manager.set);
        }
        left.remove_from(next, type_);
    }
    match own {
        Some(own) if managers[own].set == said => {}
        Some(own) => {
            managers[own].set = said;
            managers[own].time = who.time;
        }
        None => managers.push(Manager { set: said, ..who }),
    }
    Ok(())
}
