//! Changes to the objects inside a tenant cluster: what is wanted, against what was seen there.
//!
//! Invariant: only what differs is written, and only what we applied ourselves, for an addon that is
//! no longer wanted, is deleted.

use std::collections::{BTreeMap, BTreeSet};

use api::names::LABEL_ADDON;
use kit_objects::difference::difference;
use kit_objects::object::{Key, Object};
use serde_json::Value;
use tenant_cp::addons::registry;

use crate::FIELD_MANAGER;
use crate::controllers::tenant_cluster::plan::types::{Changes, Target};

/// Compares what is wanted with what is there. What belongs to an addon that `stays` is not deleted.
#[must_use]
pub(super) fn changes(
    wanted: &[Object],
    live: &BTreeMap<Key, Value>,
    stays: impl Fn(&str) -> bool,
) -> Changes {
    let differs = |object: &&Object| {
        let live = live.get(&object.key());
        live.is_none_or(|live| difference(&object.value, live).is_some())
    };
    let keys: BTreeSet<Key> = wanted.iter().map(Object::key).collect();
    let is_released = |value: &Value| {
        let mut all = registry::ALL.into_iter();
        all.any(|one| one.release().is_some() && addon(value) == Some(one.name()))
    };
    let left: Vec<_> = live
        .iter()
        .filter(|(key, value)| !keys.contains(key) && is_ours(key, value))
        .filter(|(_, value)| !addon(value).is_some_and(&stays))
        .collect();
    let target = |(key, value): (&Key, &Value)| {
        let text = |field: &str| value["metadata"][field].as_str().map(str::to_owned);
        Some(Target {
            key: key.clone(),
            uid: text("uid")?,
            resource_version: Some(text("resourceVersion")?),
            with_dependents: false,
        })
    };
    Changes {
        apply: wanted.iter().filter(differs).cloned().collect(),
        release: left.iter().any(|(_, value)| is_released(value)),
        delete: left.into_iter().filter_map(target).collect(),
    }
}

pub(super) fn addon(live: &Value) -> Option<&str> {
    live["metadata"]["labels"][LABEL_ADDON].as_str()
}

/// Whether an object belongs to an addon and was applied by us. Labels alone are copied with a
/// manifest; field managers are not. A namespace may hold what is not ours, and with the definition
/// of a kind all its objects would go, so these stay.
fn is_ours(key: &Key, live: &Value) -> bool {
    let meta = &live["metadata"];
    let managers = meta["managedFields"].as_array().into_iter().flatten();
    !["CustomResourceDefinition", "Namespace"].contains(&key.kind.as_str())
        && meta["labels"][LABEL_ADDON].is_string()
        && meta["deletionTimestamp"].is_null()
        && managers
            .into_iter()
            .any(|entry| entry["manager"] == FIELD_MANAGER)
}

#[cfg(test)]
mod tests {
    use tenant_cp::addons::addon::Addon as _;
    use tenant_cp::addons::cloud_controller::CloudController;

    use super::*;
    use serde_json::json;

    fn object(kind: &str, name: &str, addon: Option<&str>) -> Object {
        let mut value = json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": { "name": name, "namespace": "kube-system" }, "data": { "a": "b" },
        });
        if let Some(addon) = addon {
            value["metadata"]["labels"] = json!({ LABEL_ADDON: addon });
        }
        Object::from_value(value)
    }

    fn live(object: &Object, manager: &str) -> (Key, Value) {
        let mut value = object.value.clone();
        value["metadata"]["uid"] = json!("u");
        value["metadata"]["resourceVersion"] = json!("7");
        value["metadata"]["managedFields"] = json!([{ "manager": manager }]);
        (object.key(), value)
    }

    #[test]
    fn only_what_differs_is_applied_and_then_nothing() {
        let wanted = [
            object("ConfigMap", "a", None),
            object("ConfigMap", "b", Some("x")),
        ];
        let mut seen: BTreeMap<_, _> = [live(&wanted[0], FIELD_MANAGER)].into();
        assert_eq!(changes(&wanted, &seen, |_| false).apply, wanted[1..]);
        seen.extend([live(&wanted[1], FIELD_MANAGER)]);
        assert!(changes(&wanted, &seen, |_| false).is_empty());
        seen.get_mut(&wanted[1].key()).unwrap()["data"]["a"] = json!("c");
        assert_eq!(changes(&wanted, &seen, |_| false).apply, wanted[1..]);
    }

    #[test]
    fn only_ours_of_an_addon_that_is_off_is_deleted() {
        let off = object("ConfigMap", "ours", Some("x"));
        let seen: BTreeMap<_, _> = [
            live(&off, FIELD_MANAGER),
            live(&object("ConfigMap", "a-copy", Some("x")), "kubectl"),
            live(&object("ConfigMap", "no-addon", None), FIELD_MANAGER),
            live(
                &object("Namespace", "with-others-in-it", Some("x")),
                FIELD_MANAGER,
            ),
        ]
        .into();
        let target = Target {
            key: off.key(),
            uid: "u".to_owned(),
            resource_version: Some("7".to_owned()),
            with_dependents: false,
        };
        assert_eq!(changes(&[], &seen, |_| false).delete, [target]);
        let mut going = seen;
        for value in going.values_mut() {
            value["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        }
        assert!(changes(&[], &going, |_| false).is_empty());
    }

    #[test]
    fn what_the_cloud_controller_had_stays_while_it_goes_and_then_services_are_released_first() {
        let role = object("ClusterRole", "covey:ccm", Some(CloudController.name()));
        let other = object("ConfigMap", "other", Some("x"));
        let seen: BTreeMap<_, _> = [live(&role, FIELD_MANAGER), live(&other, FIELD_MANAGER)].into();
        let keys = |changes: &Changes| {
            let keys = changes.delete.iter().map(|target| target.key.clone());
            keys.collect::<Vec<_>>()
        };
        let going = changes(&[], &seen, |addon| addon == CloudController.name());
        assert_eq!((keys(&going), going.release), (vec![other.key()], false));
        let gone = changes(&[], &seen, |_| false);
        assert_eq!(keys(&gone), [role.key(), other.key()]);
        assert!(gone.release);
        let wanted = changes(std::slice::from_ref(&role), &seen, |_| false);
        assert!(!wanted.release);
    }
}
