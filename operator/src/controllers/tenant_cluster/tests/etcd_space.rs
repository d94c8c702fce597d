//! etcd's database fills up, is full, and takes writes again.
//!
//! Invariant: nobody has to do anything where enough was overwritten or deleted; what is told stays while
//! nothing changes.

use super::*;
use crate::etcd_space::level::Level;
use crate::etcd_space::looks::Glance;
use crate::etcd_space::plan::Step;
use crate::tenant_session::etcd::answers::Alarm;

#[test]
fn full_database_is_relieved_and_takes_writes_again_without_anybody() {
    let mut world = ready(large());
    world.bytes = (1 << 30, 1000 << 20, 1 << 30);
    world.overwritten = 700 << 20;
    world.alarms = vec![Alarm::NoSpace];
    // It is found outside of reconciles.
    world.settle();
    assert_eq!(world.condition("Ready").0, "True");
    world.glance.level = Level::Full;
    world.settle();
    let kinds: Vec<_> = world.relieved.iter().map(std::mem::discriminant).collect();
    let wanted = [
        Step::Compact { revision: 0 },
        Step::Defragment {
            member: String::new(),
        },
        Step::Disarm { id: String::new() },
    ];
    assert_eq!(kinds, wanted.each_ref().map(std::mem::discriminant));
    world.glance = Glance::default();
    world.settle();
    assert_eq!(world.condition("Ready").0, "True");
    assert_eq!(world.condition("Degraded").0, "False");
}

#[test]
fn database_that_stays_full_names_what_fills_it_and_is_left_alone_until_there_is_less() {
    let mut world = ready(minimal());
    world.bytes = (1 << 30, 1000 << 20, 1 << 30);
    world.alarms = vec![Alarm::NoSpace];
    world.glance.level = Level::Full;
    world.settle();
    assert_eq!(
        world.condition("Degraded"),
        ("True".into(), "NoSpace".into())
    );
    let message = |world: &World, type_: &str| {
        let conditions = &world.cluster.status.as_ref().unwrap().conditions;
        let found = conditions.iter().find(|c| c.type_ == type_).unwrap();
        found.message.clone()
    };
    let told = message(&world, "EtcdReady");
    assert!(told.contains("most of it events (about 900 MiB)"), "{told}");
    assert!(
        world
            .relieved
            .iter()
            .all(|s| matches!(s, Step::Compact { .. }))
    );
    let before = world.writes;
    world.largest = 903 << 20;
    world.settle();
    assert_eq!(world.writes, before, "nothing is written meanwhile");
    // What is in use is not known before it is compacted.
    world.refuses = true;
    world.settle();
    assert_eq!(world.writes, before);
    assert_eq!(message(&world, "EtcdReady"), told);
    world.refuses = false;
    // Somebody deletes objects.
    world.overwritten = 800 << 20;
    world.settle();
    assert!(world.alarms.is_empty());
    world.glance = Glance::default();
    world.settle();
    assert_eq!(world.condition("EtcdReady").0, "True");
    assert_eq!(world.condition("Degraded").0, "False");
}

#[test]
fn database_that_fills_up_is_told_before_it_is_full_and_stays_ready() {
    let mut world = ready(minimal());
    let degraded = |world: &World| {
        let conditions = &world.cluster.status.as_ref().unwrap().conditions;
        let found = conditions.iter().find(|c| c.type_ == "Degraded").unwrap();
        (found.reason.clone(), found.message.clone())
    };
    let percent = |in_use: u64| ((1 << 30) / 100 * in_use, (1 << 30) / 100 * in_use, 1 << 30);
    world.bytes = percent(82);
    world.glance.level = Level::Low;
    world.settle();
    assert_eq!(world.condition("Ready").0, "True");
    let (reason, message) = degraded(&world);
    assert_eq!(reason, "SpaceLow");
    assert!(
        message.starts_with("more than four fifths of the 1024 MiB"),
        "{message}"
    );
    // A new operator has not looked yet.
    world.glance = Glance::default();
    world.bytes = percent(77);
    world.settle();
    assert_eq!(degraded(&world).0, "SpaceLow");
    world.bytes = percent(93);
    world.settle();
    assert!(degraded(&world).1.starts_with("more than nine tenths"));
    world.bytes = percent(60);
    world.settle();
    assert_eq!(degraded(&world).0, "AsExpected");
}
