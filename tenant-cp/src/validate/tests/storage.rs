//! What is said of volumes that nobody offers.

use super::*;
use crate::validate::admit;

fn offering(classes: &Value) -> Settings {
    let storage = serde_json::from_value(json!({ "classes": classes })).unwrap();
    Settings {
        storage,
        ..Settings::default()
    }
}

fn two() -> Settings {
    offering(&json!([
        { "name": "fast", "storageClass": "ceph", "default": true },
        { "name": "slow", "storageClass": "nfs" },
    ]))
}

fn csi(value: &Value) -> TenantCluster {
    tc(&json!({ "spec": { "addons": { "csi": value } } }))
}

fn said(new: &Value, settings: &Settings) -> Vec<String> {
    let others: [TenantCluster; 0] = [];
    let problems = admit(None, &csi(new), &others, settings);
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn volumes_that_nobody_offers_are_refused_with_what_is_offered() {
    let all = json!({ "enabled": true });
    assert_eq!(
        said(&all, &Settings::default()),
        [
            "spec.addons.csi.enabled: no storage is offered here: have whoever runs the management \
             cluster list its classes (config.storage.classes of the chart), or set enabled to false"
        ]
    );
    assert_eq!(said(&all, &two()), [""; 0]);
    let some = json!({ "enabled": true, "classes": ["slow", "gold"] });
    assert_eq!(
        said(&some, &two()),
        ["spec.addons.csi.classes: \"gold\" is not offered: choose of fast, slow"]
    );
    let off = json!({ "enabled": false, "classes": ["gold"] });
    assert_eq!(said(&off, &Settings::default()), [""; 0]);
}

#[test]
fn class_that_is_no_longer_offered_stops_nobody_who_has_it() {
    let had = csi(&json!({ "enabled": true, "classes": ["slow", "gold"] }));
    let mut new = had.clone();
    new.spec.control_plane.replicas = 3;
    let others: [TenantCluster; 0] = [];
    assert_eq!(admit(Some(&had), &new, &others, &two()), []);
    let built = validate(&new, &two()).unwrap().storage.unwrap();
    let names: Vec<_> = built
        .classes
        .iter()
        .map(|c| (&*c.name, c.default))
        .collect();
    assert_eq!(names, [("slow", true)]);
}

#[test]
fn list_that_contradicts_itself_is_explained() {
    let cases = [
        (
            json!([{ "name": "a", "storageClass": "x" }, { "name": "a", "storageClass": "y" }]),
            "storage.classes: it has two classes a; remove one",
        ),
        (
            json!([{ "name": "A_b", "storageClass": "x" }]),
            "storage.classes: \"A_b\" cannot be the name of a StorageClass: use lower-case letters, \
             digits, - and .",
        ),
    ];
    for (classes, sentence) in cases {
        let problems = check_settings(&offering(&classes));
        let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(said, [sentence]);
    }
}
