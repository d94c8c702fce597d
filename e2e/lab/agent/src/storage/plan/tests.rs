//! Claims and volumes in, actions out.

use serde_json::{Value, json};

use super::*;

const UID: &str = "0b2c6f0e-1111-4222-8333-444455556666";

fn place() -> Place {
    Place {
        node: "management-0".to_owned(),
        directory: PathBuf::from("/srv/volumes"),
    }
}

/// A claim as a user makes it, changed by a JSON merge.
fn claim(change: Value) -> PersistentVolumeClaim {
    let mut object = json!({
        "metadata": {"name": "data", "namespace": "a", "uid": UID},
        "spec": {
            "storageClassName": "lab-local",
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    });
    merge(&mut object, change);
    serde_json::from_value(object).unwrap()
}

fn bound_claim(requested: &str, has: &str) -> PersistentVolumeClaim {
    claim(json!({
        "spec": {"volumeName": format!("pvc-{UID}"),
            "resources": {"requests": {"storage": requested}}},
        "status": {"phase": "Bound", "capacity": {"storage": has}},
    }))
}

fn made() -> PersistentVolume {
    let plan = plan::<_, PersistentVolume>(&place(), &[claim(json!({}))], &[]);
    match plan.actions.as_slice() {
        [Action::Provision { volume, .. }] => (**volume).clone(),
        other => panic!("not one volume: {other:?}"),
    }
}

/// The volume the agent makes for the claim, changed by a JSON merge.
fn volume(change: Value) -> PersistentVolume {
    let mut object = serde_json::to_value(made()).unwrap();
    merge(&mut object, change);
    serde_json::from_value(object).unwrap()
}

fn merge(target: &mut Value, change: Value) {
    match (target, change) {
        (Value::Object(target), Value::Object(change)) => {
            for (key, value) in change {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, change) => *target = change,
    }
}

fn actions(claims: &[PersistentVolumeClaim], volumes: &[PersistentVolume]) -> Vec<Action> {
    let plan = plan(&place(), claims, volumes);
    assert_eq!(plan.refusals, Vec::<String>::new());
    plan.actions
}

#[test]
fn new_claim_gets_a_local_volume_bound_to_it_on_this_node() {
    let mut volume = serde_json::to_value(made()).unwrap();
    assert_eq!(
        volume["spec"]["nodeAffinity"].take(),
        json!({"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In",
            "values": ["management-0"]}]}]}})
    );
    assert_eq!(
        volume,
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": format!("pvc-{UID}"),
                "annotations": {
                    "pv.kubernetes.io/provisioned-by": "covey.dev/lab-local",
                    "covey.dev/lab-node": "management-0",
                },
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": "a", "name": "data", "uid": UID},
                "local": {"path": format!("/srv/volumes/pvc-{UID}")},
                "nodeAffinity": null,
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": "lab-local",
                "volumeMode": "Filesystem",
            },
        })
    );
}

#[test]
fn claim_of_another_class_of_this_provisioner_gets_a_volume_of_that_class() {
    let annotations = json!({ "volume.kubernetes.io/storage-provisioner": "covey.dev/lab-local" });
    let other = claim(json!({
        "metadata": { "annotations": annotations }, "spec": { "storageClassName": "other" },
    }));
    match actions(&[other], &[]).as_slice() {
        [Action::Provision { volume, .. }] => {
            let spec = volume.spec.as_ref().unwrap();
            assert_eq!(spec.storage_class_name.as_deref(), Some("other"));
        }
        other => panic!("not one volume: {other:?}"),
    }
}

#[test]
fn claim_whose_volume_is_there_or_that_is_not_ours_needs_nothing() {
    assert_eq!(actions(&[claim(json!({}))], &[volume(json!({}))]), []);
    for change in [
        json!({"spec": {"storageClassName": "other"}}),
        json!({"spec": {"storageClassName": null}}),
        json!({"spec": {"volumeName": "chosen-by-hand"}}),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        json!({"metadata": {"annotations": {SELECTED_NODE: "management-1"}}}),
    ] {
        assert_eq!(actions(&[claim(change.clone())], &[]), [], "{change}");
    }
    let here = claim(json!({"metadata": {"annotations": {SELECTED_NODE: "management-0"}}}));
    assert_eq!(actions(&[here], &[]).len(), 1);
}

#[test]
fn impossible_claim_is_refused_with_a_reason() {
    for (change, reason) in [
        (json!({"spec": {"volumeMode": "Block"}}), "block volumes"),
        (
            json!({"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}}}),
            "copy",
        ),
        (json!({"spec": {"selector": {}}}), "selector"),
        (
            json!({"spec": {"resources": {"requests": {"storage": null}}}}),
            "storage request",
        ),
        (json!({"metadata": {"uid": "../../etc"}}), "UID"),
        (json!({"metadata": {"uid": ""}}), "UID"),
    ] {
        let mut object = serde_json::to_value(claim(json!({}))).unwrap();
        merge(&mut object, change);
        if object["spec"]["resources"]["requests"]["storage"].is_null() {
            object["spec"]["resources"] = json!({});
        }
        let claim: PersistentVolumeClaim = serde_json::from_value(object).unwrap();
        let plan = plan::<_, PersistentVolume>(&place(), &[claim], &[]);
        assert_eq!(plan.actions, []);
        assert_eq!(plan.refusals.len(), 1);
        assert!(plan.refusals[0].contains(reason), "{}", plan.refusals[0]);
    }
}

#[test]
fn larger_request_grows_the_volume_first_and_then_the_claim() {
    let quantity = |text: &str| Quantity(text.to_owned());
    let grown = json!({"spec": {"capacity": {"storage": "2Gi"}}});
    assert_eq!(
        actions(&[bound_claim("2Gi", "1Gi")], &[volume(json!({}))]),
        [Action::GrowVolume {
            volume: format!("pvc-{UID}"),
            capacity: quantity("2Gi")
        }]
    );
    assert_eq!(
        actions(&[bound_claim("2Gi", "1Gi")], &[volume(grown.clone())]),
        [Action::GrowClaim {
            namespace: "a".to_owned(),
            claim: "data".to_owned(),
            capacity: quantity("2Gi"),
        }]
    );
    assert_eq!(actions(&[bound_claim("2Gi", "2Gi")], &[volume(grown)]), []);
}

#[test]
fn equal_or_smaller_request_and_another_claims_volume_do_not_grow() {
    assert_eq!(
        actions(&[bound_claim("1024Mi", "1Gi")], &[volume(json!({}))]),
        []
    );
    assert_eq!(
        actions(&[bound_claim("1G", "1Gi")], &[volume(json!({}))]),
        []
    );
    let of_another = volume(json!({"spec": {"claimRef": {"uid": "ffff"}}}));
    assert_eq!(actions(&[bound_claim("2Gi", "1Gi")], &[of_another]), []);
    let elsewhere = volume(json!({"metadata": {"annotations": {KEPT_ON: "management-1"}}}));
    assert_eq!(actions(&[bound_claim("2Gi", "1Gi")], &[elsewhere]), []);
}

#[test]
fn released_volume_is_removed_with_its_directory() {
    let released = volume(json!({"metadata": {"uid": "v"}, "status": {"phase": "Released"}}));
    assert_eq!(
        actions(&[], &[released]),
        [Action::Remove {
            volume: format!("pvc-{UID}"),
            uid: Some("v".to_owned()),
            directory: PathBuf::from(format!("/srv/volumes/pvc-{UID}")),
        }]
    );
}

#[test]
fn volume_that_is_bound_kept_or_not_ours_is_not_removed() {
    for change in [
        json!({"status": {"phase": "Bound"}}),
        json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}),
        json!({"metadata": {"annotations": {PROVISIONED_BY: "somebody.else"}}}),
        json!({"metadata": {"annotations": {KEPT_ON: "management-1"}}}),
    ] {
        let mut object = json!({"status": {"phase": "Released"}});
        merge(&mut object, change.clone());
        assert_eq!(actions(&[], &[volume(object)]), [], "{change}");
    }
}

#[test]
fn directory_outside_the_storage_directory_is_never_removed() {
    for change in [
        json!({"spec": {"local": {"path": "/etc"}}}),
        json!({"spec": {"local": {"path": "/srv/volumes"}}}),
        json!({"spec": {"local": {"path": format!("/srv/volumes/../pvc-{UID}")}}}),
        json!({"spec": {"local": {"path": format!("/srv/volumes/./pvc-{UID}")}}}),
        json!({"spec": {"local": null}}),
        json!({"spec": {"claimRef": {"uid": "../../etc"}}}),
        json!({"spec": {"claimRef": {"uid": "ffff"}}}),
        json!({"metadata": {"name": "pvc-ffff"}}),
    ] {
        let mut object = json!({"status": {"phase": "Released"}});
        merge(&mut object, change.clone());
        let plan = plan::<PersistentVolumeClaim, _>(&place(), &[], &[volume(object)]);
        assert_eq!(plan.actions, [], "{change}");
        assert_eq!(plan.refusals.len(), 1, "{change}");
    }
}

#[test]
fn plan_after_a_restart_takes_up_every_step() {
    let claims = [claim(json!({}))];
    // Directory made, volume not written: again from the start.
    assert_eq!(actions(&claims, &[]).len(), 1);
    // Volume written, not yet bound: nothing, the controller-manager is next.
    assert_eq!(
        actions(
            &claims,
            &[volume(json!({"status": {"phase": "Available"}}))]
        ),
        []
    );
}
