//! What KubeVirt is sent.
//!
//! Invariant: what stands in a template and is not ours stays, and keeps its place.

use std::sync::{Arc, Mutex};

use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use kit_client::errors::{Class, Classify as _};
use kube::client::Body;
use tower::service_fn;

use super::*;
use crate::cache::objects::{Disk, Slot, Version};

fn desired(volume: &str, read_only: bool) -> DesiredDisk {
    DesiredDisk {
        volume: volume.to_owned(),
        serial: format!("s-{volume}"),
        read_only,
        shared: false,
    }
}

#[test]
fn volume_of_several_machines_is_locked_by_none() {
    let shared = DesiredDisk {
        shared: true,
        ..desired("vol-1", false)
    };
    assert_eq!(disk(&shared)["shareable"], true);
    assert!(disk(&desired("vol-1", false)).get("shareable").is_none());
}

fn machine(names: &[&str]) -> Machine {
    let slot = |name: &&str| Slot {
        name: (*name).to_owned(),
        ..Slot::default()
    };
    let disk = |name: &&str| Disk {
        name: (*name).to_owned(),
        ..Disk::default()
    };
    Machine {
        name: "a".to_owned(),
        version: Version {
            uid: "u".to_owned(),
            text: "7".to_owned(),
            number: 7,
        },
        slots: Some(names.iter().map(slot).collect()),
        disks: Some(names.iter().rev().map(disk).collect()),
        ..Machine::default()
    }
}

#[test]
fn room_for_volumes_is_what_other_disks_leave() {
    assert_eq!(Machine::default().capacity(), 256);
    let room = |names: &[&str]| machine(names).capacity();
    assert_eq!(room(&["root", "user-data", "disk-scratch", "vol-1"]), 253);
    let many: Vec<_> = (0..300).map(|number| format!("disk-{number}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert_eq!(room(&many), 0);
}

#[test]
fn template_is_changed_by_position_on_the_version_that_was_seen() {
    let change = Change {
        plug: vec![desired("vol-4", true)],
        unplug: vec!["vol-1".to_owned(), "vol-3".to_owned()],
    };
    let machine = machine(&["root", "vol-1", "vol-2", "vol-3"]);
    let volumes = "/spec/template/spec/volumes";
    let disks = "/spec/template/spec/domain/devices/disks";
    assert_eq!(
        template_patch(&machine, &change),
        json!([
            { "op": "test", "path": "/metadata/uid", "value": "u" },
            { "op": "replace", "path": "/metadata/resourceVersion", "value": "7" },
            { "op": "remove", "path": format!("{volumes}/3") },
            { "op": "remove", "path": format!("{volumes}/1") },
            { "op": "remove", "path": format!("{disks}/2") },
            { "op": "remove", "path": format!("{disks}/0") },
            { "op": "add", "path": format!("{volumes}/-"), "value": {
                "name": "vol-4",
                "persistentVolumeClaim": { "claimName": "vol-4", "hotpluggable": true },
            } },
            { "op": "add", "path": format!("{disks}/-"), "value": {
                "name": "vol-4", "serial": "s-vol-4", "disk": { "bus": "scsi", "readonly": true },
            } },
        ])
    );
}

#[test]
fn template_without_lists_gets_them_first() {
    let bare = Machine {
        slots: None,
        disks: None,
        ..machine(&[])
    };
    let change = Change {
        plug: vec![desired("vol-1", false)],
        unplug: Vec::new(),
    };
    let patch = template_patch(&bare, &change);
    let paths: Vec<_> = patch
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        paths[2..],
        [
            "/spec/template/spec/volumes",
            "/spec/template/spec/domain/devices/disks",
            "/spec/template/spec/volumes/-",
            "/spec/template/spec/domain/devices/disks/-",
        ]
    );
}

#[tokio::test]
async fn subresources_are_asked_disk_by_disk_and_one_refusal_stops_no_other() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let service = service_fn(move |request: Request<Body>| {
        let requests = Arc::clone(&requests);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let body: Value = serde_json::from_slice(&body)?;
            let refused = body["name"] == "vol-1";
            requests
                .lock()
                .unwrap()
                .push((parts.method, parts.uri.path().to_owned(), body));
            let answer = match refused {
                true => (
                    StatusCode::CONFLICT,
                    json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409,
                        "reason": "Conflict", "message": "Unable to remove volume [vol-1]",
                    })
                    .to_string(),
                ),
                false => (StatusCode::ACCEPTED, String::new()),
            };
            let answer = Response::builder()
                .status(answer.0)
                .body(Body::from(answer.1.into_bytes()));
            Ok::<_, tower::BoxError>(answer?)
        }
    });
    let client = Client::new(service, "ns");
    let change = Change {
        plug: vec![desired("vol-2", false), desired("vol-3", true)],
        unplug: vec!["vol-1".to_owned()],
    };
    let (cache, way) = (Cache::new("uid"), Hotplug::Subresources);
    let answers = carry_out(way, &client, "ns", &cache, &machine(&[]), &change).await;
    let came = |answer: &Answer| {
        let class = answer.result.as_ref().err().map(|error| error.class());
        (answer.disks.join(","), class)
    };
    let came: Vec<_> = answers.iter().map(came).collect();
    let disk = |name: &str, class| (name.to_owned(), class);
    let conflict = Some(Class::Conflict);
    let all = [
        disk("vol-1", conflict),
        disk("vol-2", None),
        disk("vol-3", None),
    ];
    assert_eq!(came, all);
    let path = |verb: &str| {
        format!("/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachines/a/{verb}")
    };
    let add = |name: &str, disk: Value| {
        let source = json!({ "claimName": name, "hotpluggable": true });
        json!({
            "name": name, "disk": { "disk": disk, "serial": format!("s-{name}") },
            "volumeSource": { "persistentVolumeClaim": source },
        })
    };
    assert_eq!(
        *seen.lock().unwrap(),
        [
            (
                http::Method::PUT,
                path("removevolume"),
                json!({ "name": "vol-1" })
            ),
            (
                http::Method::PUT,
                path("addvolume"),
                add("vol-2", json!({ "bus": "scsi" }))
            ),
            (
                http::Method::PUT,
                path("addvolume"),
                add("vol-3", json!({ "bus": "scsi", "readonly": true })),
            ),
        ]
    );
}
