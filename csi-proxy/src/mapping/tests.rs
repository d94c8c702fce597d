//! What requests become, and what is refused, with code and sentence.
//!
//! Invariant: every refusal of the module has a row in a table here.

use proptest::prelude::*;
use proto::csi::volume_capability::{AccessMode, BlockVolume};
use tonic::Code;

use super::page::{Page, page};
use super::*;
use crate::settings::{Hotplug, MOST_VOLUMES, PATIENCE};

mod taken_back;

const GIB: i64 = 1 << 30;

fn settings() -> Settings {
    let class = |name: &str| Class {
        name: name.to_owned(),
        storage_class: format!("of-{name}"),
        ..Class::default()
    };
    let fast = Class {
        default: true,
        expandable: true,
        ..class("fast")
    };
    let small = Class {
        largest: Some(4 * GIB),
        ..class("small")
    };
    let shared = Class {
        shared: true,
        cloneable: true,
        snapshot_class: Some("snaps".to_owned()),
        ..class("shared")
    };
    Settings {
        namespace: "covey-demo-0a1b2c3d00".to_owned(),
        cluster_uid: "uid".to_owned(),
        offer: Offer {
            classes: vec![fast, small, shared],
            hotplug: Hotplug::Declarative,
            ..Offer::default()
        },
        patience: PATIENCE,
        most_volumes: MOST_VOLUMES,
    }
}

fn used(mode: Mode, access: AccessType) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(access),
    }
}

fn mount(fs_type: &str) -> AccessType {
    AccessType::Mount(MountVolume {
        fs_type: fs_type.to_owned(),
        ..MountVolume::default()
    })
}

fn block() -> AccessType {
    AccessType::Block(BlockVolume {})
}

fn range(required_bytes: i64, limit_bytes: i64) -> Option<CapacityRange> {
    Some(CapacityRange {
        required_bytes,
        limit_bytes,
    })
}

fn request() -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: "pvc-1".to_owned(),
        capacity_range: range(2 * GIB, 0),
        volume_capabilities: vec![used(Mode::SingleNodeWriter, mount(""))],
        ..CreateVolumeRequest::default()
    }
}

fn with(change: impl FnOnce(&mut CreateVolumeRequest)) -> CreateVolumeRequest {
    let mut request = request();
    change(&mut request);
    request
}

fn parameter(key: &str, value: &str) -> CreateVolumeRequest {
    with(|r| drop(r.parameters.insert(key.to_owned(), value.to_owned())))
}

#[test]
fn request_becomes_a_block_claim_of_the_offered_class() {
    let mut request = request();
    for (key, value) in [
        ("pvc/name", "data"),
        ("pvc/namespace", "shop"),
        ("pv/name", "pvc-1"),
    ] {
        let key = format!("{}{key}", names::PARAMETER_PREFIX);
        request.parameters.insert(key, value.to_owned());
    }
    let wanted = create(&request, &settings(), None).unwrap();
    assert_eq!(
        serde_json::to_value(&wanted.claim).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "vol-pvc-1", "namespace": "covey-demo-0a1b2c3d00",
                "labels": {
                    "app.kubernetes.io/component": "volume",
                    "app.kubernetes.io/managed-by": "covey",
                    "covey.dev/tenant-cluster-uid": "uid",
                },
                "annotations": {
                    "covey.dev/class": "fast",
                    "covey.dev/volume-name": "pvc-1", "covey.dev/tenant-claim": "shop/data",
                },
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "of-fast",
                "volumeMode": "Block",
                "resources": { "requests": { "storage": "2147483648" } },
            },
        })
    );
}

#[test]
fn what_cannot_be_made_is_refused_with_code_and_sentence() {
    let uses = |mode, access| with(|r| r.volume_capabilities = vec![used(mode, access)]);
    let sized = |required, limit| with(|r| r.capacity_range = range(required, limit));
    let many = Mode::MultiNodeMultiWriter;
    let cases = [
        (
            with(|r| r.name.clear()),
            Code::InvalidArgument,
            "needs a name",
        ),
        (
            with(|r| r.name = "n".repeat(129)),
            Code::InvalidArgument,
            "at most 128 bytes",
        ),
        (
            with(|r| r.volume_capabilities.clear()),
            Code::InvalidArgument,
            "how the volume is to be used",
        ),
        (
            with(|r| r.volume_capabilities[0].access_type = None),
            Code::InvalidArgument,
            "block or mount",
        ),
        (
            with(|r| r.volume_capabilities[0].access_mode = None),
            Code::InvalidArgument,
            "access_mode",
        ),
        (
            uses(Mode::Unknown, block()),
            Code::InvalidArgument,
            "access_mode",
        ),
        (
            uses(Mode::SingleNodeWriter, mount("btrfs")),
            Code::InvalidArgument,
            "one of: ext4, xfs",
        ),
        (
            uses(many, mount("")),
            Code::InvalidArgument,
            "volumeMode Block",
        ),
        (
            uses(many, block()),
            Code::InvalidArgument,
            "use ReadWriteOnce",
        ),
        (
            parameter("class", "other"),
            Code::InvalidArgument,
            "there is: fast, small, shared",
        ),
        (
            parameter("type", "ssd"),
            Code::InvalidArgument,
            "the only one is class",
        ),
        (sized(-1, 0), Code::InvalidArgument, "never below 0"),
        (sized(0, -1), Code::InvalidArgument, "never below 0"),
        (
            sized(2, 1),
            Code::InvalidArgument,
            "at least 2 bytes cannot have at most 1",
        ),
        (
            with(|r| {
                r.parameters.insert("class".to_owned(), "small".to_owned());
                r.capacity_range = range(5 * GIB, 0);
            }),
            Code::OutOfRange,
            "at most 4294967296 bytes",
        ),
        (
            with(|r| {
                r.mutable_parameters
                    .insert("iops".to_owned(), "1".to_owned());
            }),
            Code::InvalidArgument,
            "VolumeAttributesClass",
        ),
    ];
    for (request, code, sentence) in cases {
        let refusal = create(&request, &settings(), None).unwrap_err();
        assert_eq!(refusal.code, code, "{refusal}");
        assert!(refusal.sentence.contains(sentence), "{refusal}");
    }
    let mut none = settings();
    none.offer.classes[0].default = false;
    let refusal = create(&request(), &none, None).unwrap_err();
    assert!(
        refusal.sentence.contains("name one in the parameter class"),
        "{refusal}"
    );
}

#[test]
fn sizes_are_rounded_up_as_far_as_the_limits_allow() {
    let cases = [
        (0, 0, "fast", GIB),
        (1, 0, "fast", 1 << 20),
        (GIB + 1, 0, "fast", GIB + (1 << 20)),
        (GIB + 1, GIB + 5, "fast", GIB + 1),
        (0, 5 << 20, "fast", 5 << 20),
        (4 * GIB, 0, "small", 4 * GIB),
        (4 * GIB - 1, 0, "small", 4 * GIB),
    ];
    for (required, limit, class, size) in cases {
        let mut request = parameter("class", class);
        request.capacity_range = range(required, limit);
        let wanted = create(&request, &settings(), None).unwrap();
        let claim = serde_json::to_value(&wanted.claim).unwrap();
        let asked = &claim["spec"]["resources"]["requests"]["storage"];
        assert_eq!(
            asked,
            &json!(size.to_string()),
            "{required}..{limit} of {class}"
        );
    }
}

proptest! {
    #[test]
    fn a_claim_that_was_made_is_within_its_range(required in 0..i64::MAX, limit in 0..i64::MAX) {
        let request = with(|r| r.capacity_range = range(required, limit));
        if let Ok(wanted) = create(&request, &settings(), None) {
            let claim = serde_json::to_value(&wanted.claim).unwrap();
            let asked = &claim["spec"]["resources"]["requests"]["storage"];
            let asked: i64 = asked.as_str().unwrap().parse().unwrap();
            prop_assert!(asked > 0 && wanted.range.has(asked));
        } else {
            prop_assert!(limit > 0 && required > limit);
        }
    }
}

/// The volume that a request made.
fn there(request: &CreateVolumeRequest) -> Volume {
    let mut claim = create(request, &settings(), None).unwrap().claim;
    claim.status = Some(Default::default());
    Volume::read(&claim, "uid").unwrap()
}

#[test]
fn same_request_finds_its_volume_and_another_is_told_the_difference() {
    let first = there(&request());
    let same = |volume: &Volume, request: &CreateVolumeRequest| {
        same(volume, &create(request, &settings(), None).unwrap())
    };
    assert_eq!(same(&first, &request()), Ok(()));
    assert_eq!(
        same(&first, &with(|r| r.capacity_range = range(GIB, 0))),
        Ok(()),
        "it is larger"
    );
    let deleting = Volume {
        deleting: true,
        ..first.clone()
    };
    assert_eq!(same(&deleting, &request()).unwrap_err().code, Code::Aborted);
    let block = vec![used(Mode::MultiNodeMultiWriter, block())];
    let shared = with(|r| {
        r.parameters.insert("class".to_owned(), "shared".to_owned());
        r.volume_capabilities = block;
    });
    let other_mode = Volume {
        storage_class: "of-shared".to_owned(),
        ..first.clone()
    };
    let cases = [
        (
            &first,
            with(|r| r.capacity_range = range(3 * GIB, 0)),
            "has 2147483648 bytes",
        ),
        (
            &first,
            with(|r| r.capacity_range = range(0, GIB)),
            "has 2147483648 bytes",
        ),
        (&first, parameter("class", "small"), "another class"),
        (&other_mode, shared, "another access mode"),
        (
            &Volume {
                name: "else".to_owned(),
                ..first.clone()
            },
            request(),
            "\"else\"",
        ),
    ];
    for (volume, request, sentence) in cases {
        let refusal = same(volume, &request).unwrap_err();
        assert_eq!(refusal.code, Code::AlreadyExists, "{refusal}");
        assert!(refusal.sentence.contains(sentence), "{refusal}");
    }
}

#[test]
fn copy_has_the_class_of_its_source_and_no_less_room() {
    let of = |source: Source| {
        Some(VolumeContentSource {
            r#type: Some(source),
        })
    };
    let volume_id = "vol-first".to_owned();
    let snapshot_id = "snap-first".to_owned();
    let volume = of(Source::Volume(VolumeSource { volume_id }));
    let snapshot = of(Source::Snapshot(SnapshotSource { snapshot_id }));
    let volume_named = json!({ "kind": "PersistentVolumeClaim", "name": "vol-first" });
    let snapshot_named = json!({
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap-first",
    });
    let copy = |from: &Option<VolumeContentSource>, class: &str, required, limit| {
        let mut request = parameter("class", class);
        request.capacity_range = range(required, limit);
        request.volume_content_source = from.clone();
        request
    };
    for (from, named) in [(&volume, volume_named), (&snapshot, snapshot_named)] {
        let request = copy(from, "shared", 0, 0);
        let first = Copied {
            origin: source(&request).unwrap().unwrap(),
            storage_class: "of-shared".to_owned(),
            size: 3 * GIB,
        };
        let wanted = create(&request, &settings(), Some(&first)).unwrap();
        let spec = serde_json::to_value(&wanted.claim).unwrap()["spec"].clone();
        assert_eq!(spec["dataSource"], named);
        let asked = &spec["resources"]["requests"]["storage"];
        assert_eq!(asked, &json!((3 * GIB).to_string()));
        let made = Volume::read(&wanted.claim, "uid").unwrap();
        assert_eq!(same(&made, &wanted), Ok(()));
        assert_eq!(&answer(&made, &settings().offer).content_source, from);
        let empty = create(&copy(&None, "shared", 0, 0), &settings(), None).unwrap();
        let refusal = same(&made, &empty).unwrap_err();
        assert_eq!(refusal.code, Code::AlreadyExists, "{refusal}");

        let of_small = Copied {
            storage_class: "of-small".to_owned(),
            ..first.clone()
        };
        let cases = [
            (
                copy(from, "shared", GIB, 0),
                &first,
                Code::OutOfRange,
                "cannot have less",
            ),
            (
                copy(from, "shared", 0, GIB),
                &first,
                Code::OutOfRange,
                "cannot have less",
            ),
            (
                copy(from, "shared", 0, 0),
                &of_small,
                Code::InvalidArgument,
                "of another class",
            ),
            (
                copy(from, "small", 0, 0),
                &of_small,
                Code::InvalidArgument,
                "makes no copy",
            ),
        ];
        for (request, first, code, sentence) in cases {
            let refusal = create(&request, &settings(), Some(first)).unwrap_err();
            assert_eq!(refusal.code, code, "{refusal}");
            assert!(refusal.sentence.contains(sentence), "{refusal}");
        }
    }
    let mut unnamed = request();
    unnamed.volume_content_source = Some(VolumeContentSource { r#type: None });
    assert_eq!(source(&unnamed).unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn claims_of_others_are_never_volumes() {
    let claim = create(&request(), &settings(), None).unwrap().claim;
    assert_eq!(Volume::read(&claim, "another"), None);
    let mut renamed = claim.clone();
    renamed.metadata.name = Some("data-etcd-0".to_owned());
    assert_eq!(Volume::read(&renamed, "uid"), None);
    let mut relabelled = claim;
    relabelled
        .metadata
        .labels
        .as_mut()
        .unwrap()
        .remove(LABEL_COMPONENT);
    assert_eq!(Volume::read(&relabelled, "uid"), None);
}

#[test]
fn volumes_grow_and_never_shrink() {
    let volume = Volume {
        capacity: 2 * GIB,
        bound: true,
        ..there(&request())
    };
    let settings = settings();
    let fast = settings.offer.class(Some("fast"));
    let grows = |required, limit| expand(&volume, range(required, limit).as_ref(), fast);
    assert_eq!(grows(2 * GIB, 0), Ok(Expansion::Enough));
    assert_eq!(grows(GIB, 0), Ok(Expansion::Enough));
    assert_eq!(grows(3 * GIB - 1, 0), Ok(Expansion::Grow(3 * GIB)));
    assert_eq!(
        grows(3 * GIB - 1, 3 * GIB - 1),
        Ok(Expansion::Grow(3 * GIB - 1))
    );
    let refused = |required, limit, class, code, sentence: &str| {
        let refusal = expand(&volume, range(required, limit).as_ref(), class).unwrap_err();
        assert_eq!(refusal.code, code, "{refusal}");
        assert!(refusal.sentence.contains(sentence), "{refusal}");
    };
    refused(0, GIB, fast, Code::OutOfRange, "never shrinks");
    refused(0, 0, fast, Code::InvalidArgument, "capacity_range");
    refused(3 * GIB, 0, None, Code::InvalidArgument, "cannot grow");
    refused(
        3 * GIB,
        0,
        settings.offer.class(Some("small")),
        Code::InvalidArgument,
        "cannot grow",
    );
}

#[test]
fn pages_miss_nobody_when_volumes_come_and_go() {
    let volume = |id: &str| Volume {
        id: id.to_owned(),
        ..Volume::default()
    };
    let all: Vec<_> = ["vol-a", "vol-c", "vol-e"].map(volume).into();
    let ids = |page: &Page<'_, Volume>| page.items.iter().map(|v| v.id.clone()).collect::<Vec<_>>();
    let first = page(&all, 2, "").unwrap();
    assert_eq!(
        (ids(&first), first.next.as_str()),
        (vec!["vol-a".into(), "vol-c".into()], "vol-c")
    );
    // The token's volume went, and another came before it.
    let now: Vec<_> = ["vol-a", "vol-b", "vol-e"].map(volume).into();
    let second = page(&now, 2, &first.next).unwrap();
    assert_eq!(
        (ids(&second), second.next.as_str()),
        (vec!["vol-e".into()], "")
    );
    assert_eq!(page(&all, 0, "").unwrap().items.len(), 3);
    assert_eq!(
        page(&all, 0, "invalid-token").unwrap_err().code,
        Code::Aborted
    );
    assert_eq!(page(&all, -1, "").unwrap_err().code, Code::InvalidArgument);
}
