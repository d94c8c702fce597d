//! Storage of which nobody has said that it shows nothing of whoever had it before.
//!
//! Invariant: no tenant gets space of it, in whatever way it is asked for.

use tonic::Code;

use super::*;

/// The class `shared`, of which it is said or not, and which may do everything else.
fn class(zeroed: bool) -> Settings {
    let mut settings = settings();
    let class = &mut settings.offer.classes[2];
    (class.zeroed, class.expandable) = (zeroed, true);
    settings
}

fn asks(access: AccessType, required: i64) -> CreateVolumeRequest {
    let mut request = parameter("class", "shared");
    request.volume_capabilities = vec![used(Mode::SingleNodeWriter, access)];
    request.capacity_range = range(required, 0);
    request
}

#[test]
fn nothing_is_made_of_it_neither_devices_nor_filesystems() {
    for access in [block(), mount("ext4")] {
        let request = asks(access, GIB);
        let refusal = create(&request, &class(false), None).unwrap_err();
        assert_eq!(refusal.code, Code::FailedPrecondition, "{refusal}");
        let sentence = &refusal.sentence;
        assert!(sentence.contains("new space of class shared"), "{sentence}");
        assert!(sentence.contains("set `zeroed`"), "{sentence}");
        create(&request, &class(true), None).unwrap();
    }
}

#[test]
fn copies_show_what_they_are_made_of_and_no_more_than_that() {
    for origin in [
        Origin::Volume("vol-first".to_owned()),
        Origin::Snapshot("snap-first".to_owned()),
    ] {
        let source = Copied {
            origin,
            storage_class: "of-shared".to_owned(),
            // No size that is asked for would be rounded to.
            size: 2 * GIB + 5,
        };
        for same in [0, source.size] {
            let request = asks(block(), same);
            let wanted = create(&request, &class(false), Some(&source)).unwrap();
            let claim = serde_json::to_value(&wanted.claim).unwrap();
            let asked = &claim["spec"]["resources"]["requests"]["storage"];
            assert_eq!(asked, &json!(source.size.to_string()));
        }
        let larger = asks(mount(""), 3 * GIB);
        let refusal = create(&larger, &class(false), Some(&source)).unwrap_err();
        assert_eq!(refusal.code, Code::FailedPrecondition, "{refusal}");
        create(&larger, &class(true), Some(&source)).unwrap();
    }
}

#[test]
fn volume_that_is_there_stays_as_it_is_and_does_not_grow() {
    let volume = Volume {
        id: "vol-1".to_owned(),
        capacity: 2 * GIB,
        ..Volume::default()
    };
    let grows = |zeroed, required| {
        let settings = class(zeroed);
        let class = settings.offer.class(Some("shared"));
        expand(&volume, range(required, 0).as_ref(), class)
    };
    assert_eq!(grows(false, 2 * GIB), Ok(Expansion::Enough));
    let refusal = grows(false, 3 * GIB).unwrap_err();
    assert_eq!(refusal.code, Code::FailedPrecondition, "{refusal}");
    assert_eq!(grows(true, 3 * GIB), Ok(Expansion::Grow(3 * GIB)));
}
