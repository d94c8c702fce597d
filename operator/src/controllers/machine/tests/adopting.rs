//! Machines that take over a node that runs already, and what a namesake left.

use api::machine::MachinePhase;
use providers::State;
use serde_json::json;

use super::world::World;
use crate::controllers::machine::observed::Node;
use crate::controllers::machine::plan::{Action, plan};
use api::names;

const HOST: &str = "static://new-name";

/// A Machine that is to take over the node of its name, which runs.
fn adopter(called: &str) -> World {
    let mut world = World::new();
    world.capabilities = provider_static::provider::CAPABILITIES;
    world.provider_id = None;
    let spec = &mut world.machine.spec;
    spec.provider = super::world::read(json!({ "static": {} }));
    let annotations = world.machine.metadata.annotations.get_or_insert_default();
    annotations.insert(names::ANNOTATION_ADOPTS.to_owned(), "uid/aa".to_owned());
    world.node = Some(Node {
        uid: "uid-of-node".to_owned(),
        provider_id: called.to_owned(),
        ready: Some(true),
        ..Node::default()
    });
    world
}

/// Its Host says whose it is, and is shown the way.
fn is_taken(world: &mut World, state: State) {
    let id = format!("{HOST}/{}", world.machine.metadata.name.clone().unwrap());
    let vm = world.vm.as_mut().unwrap();
    vm.provider_id = Some(id);
    vm.state = state;
}

fn taken(called: &str) -> World {
    let mut world = adopter(called);
    world.settle();
    assert!(
        world.vm.is_some() && world.drawn == 0,
        "asked for, and no token"
    );
    assert_eq!(
        world.condition("NodeReady"),
        ("False".to_owned(), "NotJoined".to_owned()),
        "nobody is told to delete it"
    );
    is_taken(&mut world, State::Creating);
    world.settle();
    let status = world.machine.status.clone().unwrap();
    assert_eq!(status.node_name, None, "not before it was shown the way");
    assert_eq!(world.phase(), MachinePhase::Creating, "its Host joins");
    assert_eq!(world.condition("Ready").0, "False");
    is_taken(&mut world, State::Running);
    world.settle();
    world
}

#[test]
fn a_node_keeps_the_name_that_its_provider_gave_it_once() {
    let name = World::new().machine.metadata.name.unwrap();
    let before = format!("static://old-name/{name}");
    let world = taken(&before);
    let status = world.machine.status.clone().unwrap();
    assert_eq!(status.provider_id.as_ref(), Some(&before));
    assert_eq!(status.node_name, Some(name));
    assert!(world.token.is_none() && world.user_data.is_some());
    assert_eq!(world.node.as_ref().unwrap().provider_id, before);
    assert_eq!(world.remote.as_ref().unwrap().provider_id, before);
    assert!(plan(&world.observe(), world.now).is_settled());
}

#[test]
fn machine_runs_once_its_host_has_joined_and_a_phase_that_was_lost_is_found_out_again() {
    let name = World::new().machine.metadata.name.unwrap();
    let mut world = taken(&format!("{HOST}/{name}"));
    assert_eq!(world.phase(), MachinePhase::Running);
    // Its machine does not answer any more: it runs on as far as anybody knows.
    is_taken(&mut world, State::Creating);
    world.machine.status.as_mut().unwrap().phase = None;
    world.settle();
    assert_eq!(world.phase(), MachinePhase::Running);
}

#[test]
fn a_node_that_joined_by_itself_is_called_as_its_host_is() {
    let world = taken("");
    let name = world.machine.metadata.name.clone().unwrap();
    let id = format!("{HOST}/{name}");
    assert_eq!(world.node.as_ref().unwrap().provider_id, id);
    let status = world.machine.status.unwrap();
    assert_eq!(
        (status.provider_id, status.node_name),
        (Some(id), Some(name))
    );
}

#[test]
fn a_node_that_is_another_machine_is_not_taken_for_this_one() {
    let mut world = adopter("aws:///zone/i-1");
    world.settle();
    is_taken(&mut world, State::Running);
    world.settle();
    assert_eq!(world.condition("NodeReady").1, "NodeOfAnother");
    let status = world.machine.status.clone().unwrap();
    assert_eq!((status.provider_id, status.node_name), (None, None));
    assert_eq!(world.node.as_ref().unwrap().provider_id, "aws:///zone/i-1");
}

#[test]
fn what_a_forgotten_namesake_left_is_no_conflict() {
    let mut world = World::new();
    world.left_user_data = Some("uid-of-the-old-secret".to_owned());
    let first = plan(&world.observe(), world.now);
    assert!(
        !first
            .actions
            .iter()
            .any(|action| matches!(action, Action::CreateUserData(_)))
    );
    world.comes_up();
    assert_eq!(world.left_user_data, None);
}
