//! What nobody has any more is found and deleted, and nothing else is.
//!
//! Invariant: what is deleted is read once more before.

use std::collections::BTreeSet;
use std::time::Duration;

use fake_clouds::azure::thing::Kind as Thing;
use fake_clouds::faults::{Fault, Script};
use providers::leaks::Kind;

use crate::life::{Machine, Stage, check, key, until_gone, until_running};

const MINUTES: Duration = Duration::from_secs(150);

async fn fleet(stage: &Stage, count: usize) -> Vec<Machine> {
    let mut machines: Vec<_> = (0..count).map(|n| Machine::new(&format!("u{n}"))).collect();
    for machine in &mut machines {
        until_running(stage, machine, false).await.unwrap();
    }
    stage.clock.advance(Duration::from_secs(1200));
    machines
}

fn uids(machines: &[Machine]) -> BTreeSet<String> {
    let uids = machines.iter().map(|machine| &machine.wanted.owner.uid);
    uids.cloned().collect()
}

#[tokio::test]
async fn machine_that_nobody_has_goes_with_all_of_it() {
    let stage = Stage::new().await;
    let mut machines = fleet(&stage, 6).await;
    let known = uids(&machines[1..]);
    let cloud = stage.cloud();
    let found = cloud.found().await.unwrap();
    let first = cloud.sweep(&found, &known, &[]).await.unwrap();
    assert!(first.delete.is_empty() && !first.held, "{first:?}");
    stage.clock.advance(MINUTES);
    cloud.sweep(&found, &known, &[]).await.unwrap();
    stage.clock.advance(MINUTES);
    for machine in &mut machines[1..] {
        until_gone(&stage, machine, false).await.unwrap();
    }
    check(&stage.fake.journal(), "a leak");
}

/// The machine goes first; then its interface, once it is not reserved any more, and its disk; then the address.
#[tokio::test]
async fn parts_that_were_left_behind_go() {
    let stage = Stage::new().await;
    let mut machines = fleet(&stage, 16).await;
    for kind in [Thing::Nic, Thing::Disk] {
        stage.with(kind, &machines[0], |part| part.goes_along = false);
    }
    let name = machines[0]
        .wanted
        .owner
        .address_name(providers::identity::Family::V4);
    {
        let mut contents = stage.fake.contents();
        let group = contents.groups.get_mut(&key()).unwrap();
        let address = group.things.get_mut(&(Thing::Address, name)).unwrap();
        address.goes_along = false;
    }
    let known = uids(&machines[1..]);
    let cloud = stage.cloud();
    let mut kinds = BTreeSet::new();
    for _ in 0..9 {
        let found = cloud.found().await.unwrap();
        let outcome = cloud.sweep(&found, &known, &[]).await.unwrap();
        assert!(!outcome.held, "{outcome:?}");
        kinds.extend(outcome.delete.iter().map(|(kind, _)| *kind));
        stage.clock.advance(MINUTES);
    }
    let all = [Kind::Server, Kind::Disk, Kind::Interface, Kind::Address];
    assert_eq!(kinds, BTreeSet::from(all));
    for machine in &mut machines[1..] {
        until_gone(&stage, machine, false).await.unwrap();
    }
    check(&stage.fake.journal(), "parts");
}

#[tokio::test]
async fn machines_that_are_all_missing_are_held_and_not_deleted() {
    let stage = Stage::new().await;
    let machines = fleet(&stage, 6).await;
    let cloud = stage.cloud();
    for _ in 0..3 {
        let found = cloud.found().await.unwrap();
        let outcome = cloud.sweep(&found, &BTreeSet::new(), &[]).await.unwrap();
        assert!(outcome.held && outcome.delete.is_empty(), "{outcome:?}");
        stage.clock.advance(MINUTES);
    }
    let left = stage.fake.journal().left().len();
    assert_eq!(left, 4 * machines.len());
}

#[tokio::test]
async fn what_another_installation_has_is_not_looked_at() {
    let mut stage = Stage::new().await;
    let machines = fleet(&stage, 2).await;
    stage.place.installation = "installation-2".to_owned();
    let cloud = stage.cloud();
    for _ in 0..3 {
        let found = cloud.found().await.unwrap();
        let outcome = cloud.sweep(&found, &BTreeSet::new(), &[]).await.unwrap();
        assert!(outcome.leaks.is_empty(), "{outcome:?}");
        stage.clock.advance(MINUTES);
    }
    assert!(cloud.list(None).await.unwrap().machines.is_empty());
    let left = stage.fake.journal().left().len();
    assert_eq!(left, 4 * machines.len());
}

#[tokio::test]
async fn list_with_a_page_that_does_not_come_is_no_list() {
    let stage = Stage::new().await;
    let machines = fleet(&stage, 5).await;
    let cloud = stage.cloud();
    let list = cloud.list(Some("covey-demo-0a1b2c3d4e")).await.unwrap();
    assert!(list.complete);
    let names: Vec<_> = list
        .machines
        .iter()
        .map(|listed| listed.name.clone())
        .collect();
    let made: Vec<_> = machines
        .iter()
        .map(|m| m.wanted.owner.machine.clone())
        .collect();
    assert_eq!(names, made, "of two pages");
    assert!(
        cloud
            .list(Some("covey-other"))
            .await
            .unwrap()
            .machines
            .is_empty()
    );
    for fault in [
        Fault::refused(500, "InternalServerError"),
        Fault::Garbage,
        Fault::EndlessPages,
    ] {
        let second = Script::default().each("GET", "/subscriptions", "skiptoken", fault);
        stage.script(second);
        assert!(cloud.list(None).await.is_err());
        assert!(cloud.found().await.is_err());
        stage.clock.advance(MINUTES);
    }
}
