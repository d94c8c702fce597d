//! What nobody has any more is found and deleted, and nothing else is.
//!
//! Invariant: what is deleted is read once more before.

use std::collections::BTreeSet;
use std::time::Duration;

use providers::leaks::Kind;

use crate::life::{DEMO, Machine, Stage, check, until_gone, until_running};

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
async fn instance_without_a_machine_goes_with_its_disk() {
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

#[tokio::test]
async fn disk_that_was_left_behind_goes() {
    let stage = Stage::new().await;
    let mut machines = fleet(&stage, 6).await;
    let key = (stage.project.zone.clone(), machines[0].wanted.owner.name());
    {
        let mut contents = stage.fake.contents();
        let project = contents.projects.get_mut(DEMO).unwrap();
        project.disks.get_mut(&key).unwrap().auto_delete = false;
    }
    let known = uids(&machines[1..]);
    let cloud = stage.cloud();
    let mut kinds = Vec::new();
    for _ in 0..5 {
        let found = cloud.found().await.unwrap();
        let outcome = cloud.sweep(&found, &known, &[]).await.unwrap();
        kinds.extend(outcome.delete.iter().map(|(kind, _)| *kind));
        stage.clock.advance(MINUTES);
    }
    assert_eq!(kinds, [Kind::Server, Kind::Disk]);
    for machine in &mut machines[1..] {
        until_gone(&stage, machine, false).await.unwrap();
    }
    check(&stage.fake.journal(), "a disk");
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
    assert_eq!(left, 2 * machines.len());
}

#[tokio::test]
async fn list_that_is_partial_is_no_list() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.fake.contents().behaviour.is_partial = true;
    let cloud = stage.cloud();
    let refused = cloud.found().await.unwrap_err();
    assert_eq!(refused.code, "partial_list");
    assert!(cloud.list(None).await.is_err());
    stage.fake.contents().behaviour.is_partial = false;
    let namespace = machine.wanted.owner.namespace.clone();
    let list = cloud.list(Some(&namespace)).await.unwrap();
    assert!(list.complete);
    assert_eq!(list.machines[0].name, machine.wanted.owner.machine);
    let none = cloud.list(Some("covey-other")).await.unwrap();
    assert!(none.machines.is_empty());
}
