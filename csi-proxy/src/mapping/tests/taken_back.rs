//! Expansions that cannot be had, and classes that share a StorageClass.
//!
//! Invariant: what a class says is judged by the class that the volume was made of.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaimStatus;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use tonic::Code;

use super::*;

#[test]
fn expansion_that_cannot_be_had_is_taken_back_as_long_as_it_was_not_had() {
    let volume = Volume {
        capacity: 2 * GIB,
        requested: 50 * GIB,
        bound: true,
        ..there(&request())
    };
    let settings = settings();
    let fast = settings.offer.class(Some("fast"));
    let grows = |required| expand(&volume, range(required, 0).as_ref(), fast);
    assert_eq!(grows(3 * GIB), Ok(Expansion::Grow(3 * GIB)));
    assert_eq!(grows(50 * GIB), Ok(Expansion::Grow(50 * GIB)));
    assert_eq!(grows(2 * GIB), Ok(Expansion::Enough));
}

#[test]
fn infeasible_is_the_size_that_storage_refused_and_no_other() {
    let infeasible = |refused: &str, how: &str| {
        let mut claim = create(&request(), &settings(), None).unwrap().claim;
        let requests = BTreeMap::from([("storage".to_owned(), Quantity("8Gi".to_owned()))]);
        let spec = claim.spec.as_mut().unwrap();
        spec.resources.as_mut().unwrap().requests = Some(requests);
        let storage = |what: &str| BTreeMap::from([("storage".to_owned(), what.to_owned())]);
        claim.status = Some(PersistentVolumeClaimStatus {
            allocated_resources: Some(
                storage(refused)
                    .into_iter()
                    .map(|(name, amount)| (name, Quantity(amount)))
                    .collect(),
            ),
            allocated_resource_statuses: Some(storage(how)),
            ..Default::default()
        });
        Volume::read(&claim, "uid").unwrap().infeasible
    };
    assert!(infeasible("8Gi", "ControllerResizeInfeasible"));
    assert!(infeasible("8Gi", "NodeResizeInfeasible"));
    assert!(
        !infeasible("9Gi", "ControllerResizeInfeasible"),
        "it was another size"
    );
    assert!(!infeasible("8Gi", "ControllerResizeInProgress"));
}

#[test]
fn class_of_a_volume_is_the_one_that_it_was_made_of() {
    let mut settings = settings();
    let twin = Class {
        name: "twin".to_owned(),
        largest: Some(3 * GIB),
        snapshot_class: Some("snaps".to_owned()),
        default: false,
        ..settings.offer.classes[0].clone()
    };
    settings.offer.classes.push(twin);
    let request = with(|r| {
        r.parameters = [(names::PARAMETER_CLASS.to_owned(), "twin".to_owned())].into();
        r.capacity_range = range(GIB, 0);
    });
    let claim = create(&request, &settings, None).unwrap().claim;
    let volume = Volume::read(&claim, "uid").unwrap();
    let class = volume.class_in(&settings.offer);
    assert_eq!(class.map(|class| class.name.as_str()), Some("twin"));
    let refusal = expand(&volume, range(4 * GIB, 0).as_ref(), class).unwrap_err();
    assert_eq!(refusal.code, Code::OutOfRange, "{refusal}");
    // Of one that was made before this was written down, the first; of one whose class is not
    // offered any more, none.
    let older = Volume {
        class: None,
        ..volume.clone()
    };
    let first = older.class_in(&settings.offer);
    assert_eq!(first.map(|class| class.name.as_str()), Some("fast"));
    settings.offer.classes.pop();
    assert_eq!(volume.class_in(&settings.offer), None);
}
