//! What a plan makes of what a provider can do, and of how sure it is.

use kit_objects::known::Known;
use providers::{Capabilities, Description, Presence, Proof, State};

use super::world::{Creation, World};
use crate::controllers::machine::observe::known;
use crate::controllers::machine::plan::{Action, plan};
use api::machine::MachinePhase;

#[test]
fn machine_that_starts_anew_on_its_own_disk_is_not_replaced() {
    for (state, instance) in [
        (State::Running, Some("instance-2".to_owned())),
        (State::Stopped, None),
    ] {
        let mut world = World::running();
        world.capabilities.keeps_disk = true;
        world.vm = Some(Description {
            state: state.clone(),
            instance,
            ..Description::default()
        });
        world.settle();
        assert_ne!(world.phase(), MachinePhase::Failed, "{state:?}");
        // One that forgets to say so is treated with the greater care.
        world.capabilities = Capabilities::default();
        world.settle();
        assert_eq!(world.phase(), MachinePhase::Failed, "{state:?}");
    }
}

/// Its node joined while nobody looked, and what it ran on is gone.
#[test]
fn machine_that_joined_unseen_and_is_gone_is_not_made_again() {
    let mut world = World::new();
    world.settle();
    world.vm_runs();
    world.node_joins();
    world.node_is(Some(true));
    world.vm = None;
    world.settle();
    assert_eq!((world.phase(), world.vms_made), (MachinePhase::Failed, 1));
    assert_eq!(world.told("VirtualMachineGone"), 1);
}

#[test]
fn machine_that_nobody_watches_is_looked_at_by_the_clock() {
    let looks = |world: &World| world.plan().requeue_after.map(|after| after.as_secs());
    let mut world = World::running();
    assert_eq!(looks(&world), None, "nothing is done at rest");
    world.capabilities.watched = false;
    assert_eq!(looks(&world), Some(120));
    let mut blind = world.observe();
    blind.vm = Known::default();
    let blind = plan(&blind, world.now);
    assert!(
        blind.requeue_after.is_some(),
        "no watch tells when it is known"
    );
    world.vm.as_mut().unwrap().deleting = true;
    world.delete();
    assert!(
        looks(&world).is_some_and(|after| after <= 10),
        "{:?}",
        looks(&world)
    );
    let mut world = World::new();
    world.capabilities.watched = false;
    world.settle();
    assert!(
        looks(&world).is_some_and(|after| after <= 10),
        "{:?}",
        looks(&world)
    );
}

#[test]
fn machine_that_is_proven_gone_is_lost_whatever_its_provider_keeps() {
    let mut world = World::running();
    world.capabilities.keeps_disk = true;
    world.vm = None;
    world.settle();
    assert_eq!(world.told("VirtualMachineGone"), 1);
}

#[test]
fn only_a_proof_makes_a_machine_absent() {
    for proof in [Proof::Authoritative, Proof::Terminated, Proof::Missed] {
        assert!(known(Presence::Absent(proof)).is_absent(), "{proof:?}");
    }
    let why = "a part of the list is missing";
    assert_eq!(known(Presence::Unknown { why }), Known::Unknown { why });
    let there = Box::new(Description::default());
    assert_eq!(
        known(Presence::Present(there)),
        Known::Known(Description::default())
    );
}

/// Where user data can be read for ever, the token's death is all that protects it.
#[test]
fn token_is_revoked_before_the_user_data_are_blanked() {
    let mut world = World::new();
    world.settle();
    world.vm_runs();
    world.settle();
    world.node_joins();
    world.node_is(Some(true));
    let actions = world.plan().actions;
    let at = |what: fn(&Action) -> bool| actions.iter().position(what);
    let revoked = at(|a| matches!(a, Action::RevokeToken { .. }));
    let blanked = at(|a| matches!(a, Action::ChangeUserData(_)));
    assert!(revoked.is_some() && blanked.is_some(), "{actions:?}");
    assert!(revoked < blanked, "{actions:?}");
}

#[test]
fn id_that_the_provider_chooses_is_recorded_once_it_is_described() {
    let mut world = World::new();
    world.provider_id = None;
    world.settle();
    world.vm_runs();
    world.settle();
    world.node_joins();
    world.settle();
    let id = |world: &World| world.machine.status.clone().unwrap_or_default().provider_id;
    assert_eq!(id(&world), None);
    let reason = world.condition("NodeReady").1;
    assert_eq!(reason, "NodeOfAnother", "nobody knows whose the node is");
    let chosen = "aws:///eu-central-1a/i-0abc";
    world.vm.as_mut().unwrap().provider_id = Some(chosen.into());
    world.settle();
    assert_eq!(id(&world).as_deref(), Some(chosen));
    world.node.as_mut().unwrap().provider_id = chosen.into();
    world.node_is(Some(true));
    world.settle();
    assert_eq!(world.phase(), MachinePhase::Running);
}

/// With a cloud the tenant namespace holds nothing of a machine but its user data.
#[test]
fn machine_that_is_elsewhere_is_deleted_though_its_namespace_is_gone() {
    for taken_along in [true, false] {
        let mut world = World::running();
        world.capabilities.goes_with_namespace = taken_along;
        (world.cluster, world.namespace) = (None, false);
        world.delete();
        world.settle();
        assert_eq!(world.gone, taken_along);
        if !taken_along {
            assert!(world.vm.as_ref().is_some_and(|vm| vm.deleting));
            world.goes();
        }
    }
    let mut world = World::new();
    world.capabilities.goes_with_namespace = false;
    world.creation = Creation::Unanswered;
    world.settle();
    (world.cluster, world.namespace) = (None, false);
    world.goes();
    assert_eq!(world.vms_made, 1, "it appeared, and was deleted");
}
