//! How volumes can be used, what attributes they have, and what tenants are told of their class.
//!
//! Invariant: no StorageClass of the management cluster is named to a tenant.

use super::*;
use crate::mapping::uses::usable;

#[test]
fn several_readers_of_a_device_are_several_users_of_what_can_be_shared() {
    let mut request = parameter("class", "shared");
    request.volume_capabilities = vec![used(Mode::MultiNodeReaderOnly, block())];
    let wanted = create(&request, &settings(), None).unwrap();
    assert!(wanted.shared);
    let volume = Volume::read(&wanted.claim, "uid").unwrap();
    let offer = &settings().offer;
    assert_eq!(
        usable(&volume, &request.volume_capabilities, offer),
        Ok(true)
    );
    let mounted = [used(Mode::MultiNodeReaderOnly, mount(""))];
    let refusal = usable(&volume, &mounted, offer).unwrap_err();
    assert!(refusal.sentence.contains("ReadOnlyMany"), "{refusal}");
}

#[test]
fn what_tenants_are_told_of_a_class_is_its_name_in_their_cluster() {
    let mut settings = settings();
    let block = [used(Mode::MultiNodeMultiWriter, block())];
    let told = |volume: &Volume, settings: &Settings| {
        let class = volume.class_in(&settings.offer);
        let grows = expand(volume, range(9 * GIB, 0).as_ref(), class.filter(|_| false));
        let cut = snapshot::create(
            &proto::csi::CreateSnapshotRequest {
                name: "s".to_owned(),
                source_volume_id: volume.id.clone(),
                ..Default::default()
            },
            settings,
            volume,
        );
        let used = usable(volume, &block, &settings.offer);
        [
            grows.unwrap_err().sentence,
            cut.unwrap_err().sentence,
            used.unwrap_err().sentence,
        ]
    };
    let named = there(&request());
    let older = Volume {
        class: None,
        ..named.clone()
    };
    let last = |sentences: [String; 3], class: &str| {
        for sentence in sentences {
            assert!(sentence.contains(&format!("class {class} ")), "{sentence}");
            assert!(!sentence.contains("of-fast"), "{sentence}");
        }
    };
    last(told(&named, &settings), "fast");
    settings.offer.classes.clear();
    last(told(&named, &settings), "fast");
    last(told(&older, &settings), "(not offered any more)");
}

#[test]
fn attributes_of_a_new_volume_are_the_ones_that_the_offer_means() {
    let mut settings = settings();
    let gold = ("gold".to_owned(), "of-iops".to_owned());
    settings.offer.classes[0].attributes = [gold].into();
    let request = with(|r| drop(r.mutable_parameters.insert("class".into(), "gold".into())));
    let wanted = create(&request, &settings, None).unwrap();
    let spec = wanted.claim.spec.as_ref().unwrap();
    assert_eq!(
        spec.volume_attributes_class_name.as_deref(),
        Some("of-iops")
    );
    let made = Volume::read(&wanted.claim, "uid").unwrap();
    assert_eq!(same(&made, &wanted), Ok(()));
    // What does not know the field leaves it out.
    let mut silent = wanted.claim.clone();
    silent.spec.as_mut().unwrap().volume_attributes_class_name = None;
    let silent = Volume::read(&silent, "uid").unwrap();
    let refusal = same(&silent, &wanted).unwrap_err();
    assert_eq!(refusal.code, Code::FailedPrecondition, "{refusal}");
}
