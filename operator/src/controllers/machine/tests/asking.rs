//! What a provider is asked for, and what becomes of a creation that was never answered.

use api::machine::MachineRequest;
use providers::absence::SETTLE;
use providers::{Description, State};

use super::world::{Creation, NAME, World};
use crate::controllers::machine::plan::Action;

fn status(world: &World) -> api::MachineStatus {
    world.machine.status.clone().unwrap_or_default()
}

#[test]
fn what_is_asked_for_is_stored_first_and_stays() {
    let mut world = World::new();
    let first = world.request.clone();
    // The request, and not yet the user data.
    assert!(!world.reconcile(&mut 1));
    assert_eq!(status(&world).request.as_ref(), Some(&first));
    assert!(status(&world).creation_pending_since.is_some());
    assert_eq!(world.vms_made, 0);
    world.request.image = "registry.example.com/newer".into();
    world.settle();
    assert_eq!(world.asked, std::slice::from_ref(&first));
    assert_eq!(status(&world).creation_pending_since, None, "it was seen");
    world.comes_up();
    assert_eq!(status(&world).request, Some(first));
}

#[test]
fn machine_whose_virtual_machine_was_there_before_requests_were_is_not_asked_for() {
    let mut world = World::new();
    world.vm = Some(Description {
        state: State::Running,
        ..Description::default()
    });
    world.settle();
    assert_eq!(status(&world).request, None::<MachineRequest>);
    assert!(world.asked.is_empty());
}

#[test]
fn creation_that_was_not_answered_is_asked_for_again_with_the_same() {
    let mut world = World::new();
    world.creation = Creation::Unanswered;
    world.settle();
    let since = status(&world).creation_pending_since;
    assert!(since.is_some());
    world.later(10);
    world.request.image = "registry.example.com/newer".into();
    world.settle();
    assert_eq!(status(&world).creation_pending_since, since);
    world.creation = Creation::Answered;
    world.comes_up();
    assert_eq!(world.asked.len(), 3);
    assert!(world.asked.iter().all(|asked| *asked == world.asked[0]));
    assert_eq!(world.vms_made, 1);
}

/// Each write of the status asks for the next try, so a refusal that was told each time had no pause.
#[test]
fn what_is_asked_for_is_stored_before_the_first_call_and_not_before_each() {
    let mut world = World::new();
    world.creation = Creation::Unanswered;
    world.settle();
    let again = world.plan();
    assert!(again.actions.contains(&Action::CreateVm));
    assert!(!again.reports_first());
}

#[test]
fn machine_that_goes_waits_for_a_creation_that_was_not_answered() {
    let mut world = World::new();
    world.creation = Creation::Unanswered;
    world.settle();
    world.delete();
    world.settle();
    assert!(!world.gone);
    let ready = world.condition("Ready");
    assert_eq!(ready, ("False".to_owned(), "Deleting".to_owned()));
    assert!(world.plan().requeue_after.unwrap() <= SETTLE.unsigned_abs());
    assert!(
        world.token.is_none() && world.user_data.is_none(),
        "none of it is of use"
    );
    // It appears, late, and is deleted.
    world.appears();
    assert_eq!(world.plan().actions, [Action::DeleteVm]);
    let took = world.goes();
    assert!(took.as_secs() <= 3, "{took:?}");
    assert_eq!(world.vms_made, 1);
    // Or never; nothing tells.
    let mut world = World::new();
    world.creation = Creation::Unanswered;
    world.settle();
    world.under_way = None;
    let took = world.goes();
    assert!(
        (SETTLE.as_secs()..SETTLE.as_secs() + 3).contains(&took.as_secs()),
        "{took:?}"
    );
}

/// Two were asked for, and only one of the two answers came.
#[test]
fn sighting_says_nothing_of_a_creation_that_is_still_under_way() {
    let mut world = World::new();
    world.creation = Creation::Unanswered;
    world.settle();
    world.creation = Creation::Answered;
    world.settle();
    assert_eq!(world.vms_made, 1);
    assert_ne!(
        status(&world).creation_pending_since,
        None,
        "the first one may be carried out yet"
    );
    let wait = world.plan().requeue_after.unwrap();
    assert!(wait <= SETTLE.unsigned_abs(), "{wait:?}");
    let mut left = world.clone();
    let took = left.goes().as_secs();
    assert!(took >= SETTLE.as_secs(), "{took}");
    // It has an end, which does not begin with the deletion.
    world.later(SETTLE.as_secs());
    world.settle();
    assert_eq!(status(&world).creation_pending_since, None);
    assert!(world.goes().as_secs() <= 3);
    // Another process knows nothing of it, and has no more than what it sees.
    let mut world = World::new();
    world.creation = Creation::Unanswered;
    world.settle();
    world.settle();
    world.creations.forget(NAME);
    world.appears();
    world.settle();
    assert_eq!(status(&world).creation_pending_since, None);
    assert!(world.goes().as_secs() <= 3);
}

/// A cloud that answers does not find the machine for a while.
#[test]
fn answer_that_shows_no_machine_is_not_a_sighting() {
    let mut world = World::new();
    world.creation = Creation::Lagging;
    world.settle();
    assert_ne!(status(&world).creation_pending_since, None);
    let reason = world.condition("Ready").1;
    assert_eq!(reason, "VirtualMachineUnknown");
    world.settle();
    assert_eq!(world.asked.len(), 1, "nor is it asked for again");
    let mut left = world.clone();
    left.delete();
    left.settle();
    assert!(!left.gone, "it may be there");
    left.goes();
    assert_eq!(left.vms_made, 1, "and was deleted");
    world.appears();
    world.comes_up();
    assert_eq!(status(&world).creation_pending_since, None);
}

#[test]
fn machine_that_was_refused_goes_at_once_unless_a_restart_forgot_that() {
    for forgotten in [false, true] {
        let mut world = World::new();
        world.creation = Creation::Refused;
        world.settle();
        world.settle();
        assert_eq!(world.asked.len(), 2);
        if forgotten {
            world.creations.forget(NAME);
        }
        let took = world.goes().as_secs();
        assert_eq!(took >= SETTLE.as_secs(), forgotten, "{took}");
    }
}

#[test]
fn refusal_says_nothing_of_what_was_asked_before() {
    let mut world = World::new();
    world.creation = Creation::Unanswered;
    world.settle();
    world.creation = Creation::Refused;
    world.settle();
    world.delete();
    world.settle();
    assert!(!world.gone);
    world.goes();
    assert_eq!(world.vms_made, 1, "and it was deleted");
}
