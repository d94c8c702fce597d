//! Members are added and taken away.
//!
//! Invariant: the number is that which is wanted at the end, and the first one leads alone.

use super::*;

/// Carries everything out until nothing is left to do, and gives the steps in their order.
fn all_steps(world: &mut World) -> Vec<Step> {
    world.done.clear();
    steps_after(world, 240);
    std::mem::take(&mut world.done)
}

#[test]
fn one_becomes_three_by_a_learner_after_the_other_once_all_volumes_are_there() {
    let mut world = World::of(1);
    assert_eq!(all_steps(&mut world), [], "it is whole");
    world.wanted = 3;
    let steps = all_steps(&mut world);
    assert_eq!(world.is_whole(), Ok(()));
    let changes = steps.iter().filter_map(|step| match step {
        Step::AddLearner { peer_url } => Some(format!("add {peer_url}")),
        Step::Promote { .. } => Some("promote".to_owned()),
        Step::Remove { .. } | Step::Retire { .. } => Some(format!("{step:?}")),
        _ => None,
    });
    let changes: Vec<_> = changes.collect();
    let wanted = [
        "add https://etcd-1:2380",
        "promote",
        "add https://etcd-2:2380",
        "promote",
    ];
    assert_eq!(changes, wanted);
}

#[test]
fn three_become_one_by_the_last_first_and_the_first_leads_and_volumes_are_kept() {
    let mut world = World::new();
    world.wanted = 1;
    let ids: Vec<_> = world
        .status
        .members
        .iter()
        .map(|m| m.id.clone().unwrap())
        .collect();
    let steps = all_steps(&mut world);
    assert_eq!(world.is_whole(), Ok(()));
    let removed = steps.iter().filter_map(|step| match step {
        Step::Remove { id } => Some(id),
        _ => None,
    });
    let removed: Vec<_> = removed.collect();
    assert_eq!(removed, [&ids[2], &ids[1]]);
    let retired = |step: &&Step| matches!(step, Step::Retire { .. });
    assert_eq!(steps.iter().filter(retired).count(), 0);
    let kept = |step: &&Step| matches!(step, Step::Keep { .. });
    assert_eq!(steps.iter().filter(kept).count(), 2);
    // And back, on new volumes.
    world.wanted = 3;
    let steps = all_steps(&mut world);
    assert_eq!(world.is_whole(), Ok(()));
    assert_eq!(steps.iter().filter(retired).count(), 2);
}

#[test]
fn number_that_is_set_back_on_the_way_is_gone_back_to() {
    for (from, to) in [(1, 3), (3, 1)] {
        for seconds in 0..60 {
            let mut world = World::of(from);
            world.wanted = to;
            steps_after(&mut world, seconds);
            world.wanted = from;
            all_steps(&mut world);
            assert_eq!(
                world.is_whole(),
                Ok(()),
                "{from} to {to}, back after {seconds}"
            );
        }
    }
}

#[test]
fn nobody_is_taken_away_while_a_member_that_stays_does_not_serve() {
    let mut world = World::new();
    world.wanted = 1;
    world.set_up(0, false);
    assert_eq!(steps_after(&mut world, 600), []);
    assert_eq!(world.voters(), 3);
    world.set_up(0, true);
    all_steps(&mut world);
    assert_eq!(world.is_whole(), Ok(()));
}

#[test]
fn number_may_change_where_nothing_is_replaced_by_itself() {
    let mut world = World::of(1);
    world.auto_replace = false;
    world.wanted = 3;
    all_steps(&mut world);
    assert_eq!(world.is_whole(), Ok(()));
}

#[test]
fn members_move_to_another_class_one_after_the_other_and_the_one_that_leads_hands_over() {
    let mut world = World::new();
    world.auto_replace = false;
    world.class = "fast";
    steps_after(&mut world, 2400);
    assert_eq!(world.is_whole(), Ok(()));
    assert_eq!((world.added, world.voters()), (3, 3));
    let hands_over = |step: &&Step| matches!(step, Step::MoveLeader { .. });
    assert!(world.done.iter().filter(hands_over).count() >= 1);
}

#[test]
fn one_that_is_alone_is_one_of_three_while_it_moves_to_another_class() {
    let mut world = World::of(1);
    world.auto_replace = false;
    world.class = "fast";
    steps_after(&mut world, 1800);
    assert_eq!(world.is_whole(), Ok(()));
    assert_eq!((world.added, world.voters()), (3, 1));
    // And in the midst of becoming one of three.
    for seconds in [1, 20, 200, 640, 700] {
        let mut world = World::new();
        world.wanted = 1;
        steps_after(&mut world, seconds);
        world.class = "fast";
        steps_after(&mut world, 1800);
        assert_eq!(world.is_whole(), Ok(()), "after {seconds}");
    }
}

#[test]
fn class_that_is_set_back_on_the_way_of_one_that_is_alone_is_gone_back_to() {
    for seconds in (0..60).step_by(3).chain((560..760).step_by(20)) {
        let mut world = World::of(1);
        world.class = "fast";
        steps_after(&mut world, seconds);
        world.class = "slow";
        steps_after(&mut world, 1800);
        assert_eq!(world.is_whole(), Ok(()), "back after {seconds}");
    }
}

/// One that joins names those that the status knows, and etcd refuses it where it does not have them all.
#[test]
fn learner_that_somebody_added_joins_where_another_member_was_taken_away_meanwhile() {
    let mut world = World::new();
    world.remove_by_hand(2);
    world.remove_by_hand(1);
    world.add_by_hand(2);
    all_steps(&mut world);
    steps_after(&mut world, 1800);
    assert_eq!(world.is_whole(), Ok(()));
    // And two that are gone at once.
    let mut world = World::new();
    world.remove_by_hand(0);
    world.pass(1);
    world.remove_by_hand(1);
    steps_after(&mut world, 1800);
    assert_eq!(world.is_whole(), Ok(()));
}

/// Nothing is to be done about it any more, and kube-apiservers leave out nobody while it is said to be replaced.
#[test]
fn replacement_of_a_slow_member_that_was_only_begun_ends_where_a_single_one_is_wanted() {
    let mut world = World::new();
    world.slow_down(0);
    world.some_steps(Hidden::default(), Fate::Done, 1);
    assert!(world.status.replacing.is_some());
    world.spoil(1, false);
    world.wanted = 1;
    steps_after(&mut world, 1800);
    assert_eq!(world.is_whole(), Ok(()));
}
