//! What the status of a Machine says of its node in the overlay.

use api::machine::{MachinePhase, OverlayMember};
use serde_json::json;

use super::world::{Api, Creation, World, read};
use crate::overlay::allotments::Allotment;

const A: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=";
const B: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI=";

fn world() -> World {
    let mut world = World::running();
    world.overlay = Some(Allotment {
        address: "198.18.0.7".parse().ok(),
        ..Allotment::default()
    });
    world.settle();
    world
}

fn says(world: &mut World, key: Option<&str>) {
    world.node.as_mut().unwrap().overlay_key = key.map(str::to_owned);
    world.settle();
}

fn member(world: &World) -> Option<OverlayMember> {
    world.machine.status.as_ref().unwrap().overlay.clone()
}

fn key(world: &World) -> Option<String> {
    member(world)?.public_key
}

#[test]
fn machine_has_its_address_before_its_node_joins_and_gives_it_back_with_the_overlay() {
    let mut world = World::new();
    world.overlay = world_with_address();
    world.settle();
    assert!(world.node.is_none());
    assert_eq!(member(&world).unwrap().address, "198.18.0.7");
    world.overlay = None;
    world.settle();
    assert_eq!(member(&world), None);
}

fn world_with_address() -> Option<Allotment> {
    world().overlay
}

#[test]
fn first_key_that_a_node_says_counts_and_no_later_one() {
    let mut world = world();
    assert_eq!(key(&world), None);
    says(&mut world, Some(A));
    assert_eq!(key(&world).as_deref(), Some(A));
    for later in [Some(B), None, Some(A)] {
        says(&mut world, later);
        assert_eq!(key(&world).as_deref(), Some(A), "{later:?}");
    }
    world.api = Api::Silent;
    world.settle();
    assert_eq!(key(&world).as_deref(), Some(A));
}

#[test]
fn status_that_was_lost_is_found_out_again() {
    let mut world = world();
    says(&mut world, Some(A));
    let before = member(&world);
    world.machine.status.as_mut().unwrap().overlay = None;
    world.settle();
    assert_eq!(member(&world), before);
}

#[test]
fn key_of_another_machine_is_not_taken_over() {
    let mut world = world();
    world.overlay.as_mut().unwrap().keys.insert(A.to_owned());
    says(&mut world, Some(A));
    assert_eq!(key(&world), None);
    says(&mut world, Some(B));
    assert_eq!(key(&world).as_deref(), Some(B));
}

#[test]
fn of_two_with_one_key_the_younger_one_gives_it_up_and_the_older_one_does_not() {
    let mut world = world();
    says(&mut world, Some(A));
    let allotment = world.overlay.as_mut().unwrap();
    allotment.keys.insert(A.to_owned());
    world.settle();
    assert_eq!(key(&world).as_deref(), Some(A), "the other one is younger");
    let allotment = world.overlay.as_mut().unwrap();
    allotment.older_keys.insert(A.to_owned());
    world.settle();
    assert_eq!(key(&world), None);
}

#[test]
fn key_of_a_node_that_is_another_machines_does_not_count() {
    let mut world = world();
    world.node.as_mut().unwrap().provider_id = "kubevirt://another".to_owned();
    says(&mut world, Some(A));
    assert_eq!(key(&world), None);
}

#[test]
fn nothing_is_written_once_it_is_known() {
    let mut world = world();
    says(&mut world, Some(A));
    let before = world.status_writes;
    world.settle();
    assert_eq!(world.status_writes, before);
}

/// A Machine of a pool of Hosts that is not asked for yet.
fn of_hosts() -> World {
    let mut world = World::new();
    world.capabilities = provider_static::provider::CAPABILITIES;
    world.provider_id = None;
    world.machine.spec.provider = read(json!({ "static": {} }));
    world
}

#[test]
fn host_is_asked_for_once_the_status_has_the_address_by_which_its_node_is_to_be_known() {
    let mut world = of_hosts();
    world.overlay = Some(Allotment::default());
    world.settle();
    assert_eq!(world.asked.len(), 0, "the range is full");
    let said = ("False".to_owned(), "OverlayRangeFull".to_owned());
    assert_eq!(world.condition("Ready"), said);
    assert_eq!(world.phase(), MachinePhase::Pending);
    assert!(world.plan().requeue_after.is_some());
    world.overlay = world_with_address();
    world.settle();
    assert_eq!(world.asked.len(), 1);
    assert_eq!(member(&world).unwrap().address, "198.18.0.7");
}

#[test]
fn address_that_comes_between_two_tries_is_stored_before_the_second_one() {
    let mut world = of_hosts();
    world.creation = Creation::Refused;
    world.settle();
    assert_eq!((world.asked.len(), member(&world)), (1, None));
    world.overlay = world_with_address();
    assert!(world.plan().reports_first());
    world.settle();
    assert_eq!(world.asked.len(), 2);
    assert_eq!(member(&world).unwrap().address, "198.18.0.7");
    // Told once: each write asks for the next try.
    assert!(!world.plan().reports_first());
}

#[test]
fn virtual_machine_does_not_wait_for_an_address() {
    let mut world = World::new();
    world.overlay = Some(Allotment::default());
    world.settle();
    assert_eq!(world.asked.len(), 1);
}
