//! What nobody has any more is found and deleted, and nothing else is.
//!
//! Invariant: what is deleted is read once more before.

use std::collections::BTreeSet;
use std::time::Duration;

use fake_clouds::faults::{Fault, Script};
use providers::leaks::Kind;

use crate::life::{Machine, Stage, check, until_gone, until_running};

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

/// The instance goes first; then its disk and its interface, where they stay.
#[tokio::test]
async fn machine_that_nobody_has_goes_with_all_of_it() {
    for keeps_parts in [false, true] {
        let stage = Stage::new().await;
        let mut machines = fleet(&stage, 12).await;
        stage.fake.contents().behaviour.keeps_parts = keeps_parts;
        let known = uids(&machines[1..]);
        let cloud = stage.cloud();
        let found = cloud.found().await.unwrap();
        let first = cloud.sweep(&found, &known, &[]).await.unwrap();
        assert!(first.delete.is_empty() && !first.held, "{first:?}");
        let mut kinds = BTreeSet::new();
        for _ in 0..6 {
            stage.clock.advance(MINUTES);
            let found = cloud.found().await.unwrap();
            let outcome = cloud.sweep(&found, &known, &[]).await.unwrap();
            kinds.extend(outcome.delete.iter().map(|(kind, _)| *kind));
        }
        let all = match keeps_parts {
            true => vec![Kind::Server, Kind::Disk, Kind::Interface],
            false => vec![Kind::Server],
        };
        assert_eq!(kinds, BTreeSet::from_iter(all));
        for machine in &mut machines[1..] {
            until_gone(&stage, machine, false).await.unwrap();
        }
        check(&stage.fake.journal(), "a leak");
    }
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
    assert_eq!(left, 3 * machines.len());
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
    assert_eq!(left, 3 * machines.len());
}

#[tokio::test]
async fn list_with_a_page_that_does_not_come_is_no_list_and_an_empty_one_is_no_end() {
    let stage = Stage::new().await;
    let machines = fleet(&stage, 7).await;
    let cloud = stage.cloud();
    for is_empty in [false, true] {
        stage.fake.contents().behaviour.first_page_is_empty = is_empty;
        let list = cloud.list(Some("covey-demo-0a1b2c3d4e")).await.unwrap();
        assert!(list.complete);
        let names = list.machines.iter().map(|listed| listed.name.clone());
        let made = machines.iter().map(|m| m.wanted.owner.machine.clone());
        assert!(names.eq(made), "of two pages: {list:?}");
    }
    let other = cloud.list(Some("covey-other")).await.unwrap();
    assert!(other.machines.is_empty());
    for fault in [
        Fault::refused(500, "InternalError"),
        Fault::Garbage,
        Fault::EndlessPages,
    ] {
        let second = Script::default().each("POST", "/Describe", "NextToken", fault);
        stage.script(second);
        assert!(cloud.list(None).await.is_err());
        assert!(cloud.found().await.is_err());
        stage.clock.advance(MINUTES);
    }
}
