//! Laws over whole lives: whatever happens in whatever order, with answers that are lost and people that err.

use proptest::prelude::*;

use super::world::{Event, World};
use super::*;

fn event() -> impl Strategy<Value = Event> {
    let n = || 0..4_usize;
    prop_oneof![
        8 => n().prop_map(Event::Reconcile),
        8 => (n(), prop::bool::weighted(0.2)).prop_map(|(n, lost)| Event::Run(n, lost)),
        3 => n().prop_map(Event::Look),
        3 => n().prop_map(Event::Claim),
        2 => n().prop_map(Event::Delete),
        2 => n().prop_map(Event::Vanish),
        1 => n().prop_map(Event::Cut),
        1 => n().prop_map(Event::Reimage),
        1 => n().prop_map(Event::SayClean),
        1 => n().prop_map(Event::Accept),
        4 => (1..400_u16).prop_map(Event::Wait),
    ]
}

fn check(world: &World) -> Result<(), TestCaseError> {
    for (host, real) in world.hosts.iter().zip(&world.reals) {
        let status = host.status.clone().unwrap_or_default();
        let facts = status.facts.clone().unwrap_or_default();
        let is_known = facts.machine_id == real.machine_id;
        // No host both Available and dirty.
        if status.phase == Some(HostPhase::Available) && is_known {
            prop_assert_eq!(&real.node_of, &None);
            prop_assert_eq!(&real.owner, &None);
            prop_assert!(status.claim.is_none());
        }
        // A node is one of whoever owns the machine, and as long as there is one the Host has its claim.
        if let Some(node_of) = &real.node_of {
            prop_assert_eq!(real.owner.as_ref(), Some(node_of));
        }
        let claim = status.claim.map(|claim| claim.machine_uid);
        let is_taken = matches!(
            status.phase,
            Some(
                HostPhase::Claimed | HostPhase::Joining | HostPhase::Joined | HostPhase::Resetting
            )
        );
        prop_assert!(!is_taken || claim.is_some());
        // Unknown is not clean.
        let is_clean = api::condition::is_true(&status.conditions, ConditionType::Clean);
        prop_assert!(!is_clean || claim.is_none());
    }
    // Never one Machine on two machines, while it is there.
    for (machine, state) in &world.machines {
        let uid = machine.metadata.uid.clone().unwrap_or_default();
        let nodes = world.reals.iter();
        let nodes = nodes
            .filter(|real| real.node_of.as_ref() == Some(&uid))
            .count();
        prop_assert!(
            nodes <= 1 || *state != MachineState::Wanted,
            "Machine {} is on {} machines",
            uid,
            nodes
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_host_has_two_machines_and_none_is_available_and_dirty(
        events in proptest::collection::vec(event(), 1..160),
    ) {
        let mut world = World::new(3, 4);
        for event in &events {
            let before = world.clone();
            world.happens(event);
            check(&world)?;
            // A machine that has a node is never given to another Machine.
            for (old, new) in before.reals.iter().zip(&world.reals) {
                if let (Some(old), Some(new)) = (&old.node_of, &new.node_of) {
                    prop_assert_eq!(old, new);
                }
            }
        }
    }

    /// Whatever happened, once the network is well and people look, every Host without a wanted Machine is available
    /// again.
    #[test]
    fn every_host_gets_free_in_the_end(
        events in proptest::collection::vec(event(), 1..80),
    ) {
        let mut world = World::new(3, 4);
        for event in &events {
            world.happens(event);
        }
        for n in 0..3 {
            world.reals[n].answers = true;
        }
        for _ in 0..12 {
            for n in 0..4 {
                world.happens(&Event::Delete(n));
                world.happens(&Event::Vanish(n));
            }
            for n in 0..3 {
                world.happens(&Event::Accept(n));
                world.happens(&Event::Clean(n));
                for _ in 0..4 {
                    world.happens(&Event::Reconcile(n));
                    world.happens(&Event::Run(n, false));
                    world.happens(&Event::Reconcile(n));
                    world.happens(&Event::Wait(800));
                }
            }
        }
        for (host, real) in world.hosts.iter().zip(&world.reals) {
            let phase = host.status.clone().unwrap_or_default().phase;
            prop_assert_eq!(phase, Some(HostPhase::Available), "{:?} {:?}", host, real);
        }
    }
}
