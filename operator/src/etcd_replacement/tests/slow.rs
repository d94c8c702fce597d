//! Members of three whose disks are slow: they are replaced while they serve.
//!
//! Invariant: it is done once, and only while all others serve.

use super::*;

#[test]
fn member_whose_disk_is_slow_is_replaced_and_not_again_within_a_day() {
    for seat in 0..3 {
        let mut world = World::new();
        world.slow_down(seat);
        steps_after(&mut world, 180);
        assert_eq!(world.is_whole(), Ok(()));
        assert_eq!(world.added, 1);
        // The new volume is as slow.
        world.slow_down(seat);
        assert_eq!(steps_after(&mut world, 3600), []);
        world.pass(24 * 3600);
        steps_after(&mut world, 180);
        assert_eq!((world.added, world.is_whole()), (2, Ok(())));
    }
}

#[test]
fn member_whose_disk_is_slow_stays_while_another_one_is_away_or_nothing_is_replaced_by_itself() {
    let mut world = World::new();
    world.slow_down(2);
    world.set_up(1, false);
    assert_eq!(steps_after(&mut world, 600), []);
    world.set_up(1, true);
    world.auto_replace = false;
    assert_eq!(steps_after(&mut world, 600), []);
    assert_eq!(next(&world.facts(Hidden::default())), Next::default());
}
