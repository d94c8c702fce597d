//! What nobody has any more is found and deleted, and nothing else is.
//!
//! Invariant: what is deleted is read once more before.

use std::collections::BTreeSet;
use std::time::Duration;

use fake_clouds::faults::{Fault, Script};
use providers::identity::MACHINE_UID;

use crate::life::{Machine, Stage, TOKEN, check, until_gone, until_running};

async fn fleet(stage: &Stage, count: usize) -> Vec<Machine> {
    let mut machines: Vec<_> = (0..count).map(|n| Machine::new(&format!("u{n}"))).collect();
    for machine in &mut machines {
        until_running(stage, machine, false).await.unwrap();
    }
    stage.clock.advance(Duration::from_secs(1200));
    machines
}

fn uids(machines: &[Machine]) -> BTreeSet<String> {
    machines
        .iter()
        .map(|machine| machine.wanted.owner.uid.clone())
        .collect()
}

#[tokio::test]
async fn server_without_a_machine_goes_with_its_addresses() {
    let stage = Stage::new().await;
    let mut machines = fleet(&stage, 6).await;
    let known = uids(&machines[1..]);
    let cloud = stage.cloud();
    let found = cloud.found().await.unwrap();
    let first = cloud.sweep(&found, &known, &[]).await.unwrap();
    assert!(first.delete.is_empty() && !first.held);
    stage.clock.advance(Duration::from_secs(150));
    // The first list, which is old by now, decides nothing alone: what is deleted is read once more.
    cloud.sweep(&found, &known, &[]).await.unwrap();
    stage.clock.advance(Duration::from_secs(60));
    for machine in &mut machines[1..] {
        until_gone(&stage, machine, false).await.unwrap();
    }
    check(&stage.fake.journal(), "a leak");
}

#[tokio::test]
async fn address_that_was_left_behind_goes() {
    let stage = Stage::new().await;
    let mut machines = fleet(&stage, 6).await;
    // The server is made without an answer, and nobody asks again.
    let post = Fault::refused(503, "unavailable");
    stage.script(Script::default().each("POST", "/servers", "", post));
    let cloud = stage.cloud();
    let lost = Machine::new("lost");
    assert!(cloud.create(&lost.wanted).await.is_err());
    stage.script(Script::default());
    stage.clock.advance(Duration::from_secs(1200));
    let known = uids(&machines);
    for _ in 0..2 {
        let found = cloud.found().await.unwrap();
        let outcome = cloud.sweep(&found, &known, &[]).await.unwrap();
        assert_eq!(outcome.leaks.len(), 2, "{outcome:?}");
        stage.clock.advance(Duration::from_secs(150));
    }
    let found = cloud.found().await.unwrap();
    let outcome = cloud.sweep(&found, &known, &[]).await.unwrap();
    assert_eq!(outcome.leaks, []);
    for machine in &mut machines {
        until_gone(&stage, machine, false).await.unwrap();
    }
    check(&stage.fake.journal(), "addresses");
}

#[tokio::test]
async fn machines_that_are_all_missing_are_held_and_not_deleted() {
    let stage = Stage::new().await;
    let machines = fleet(&stage, 6).await;
    let cloud = stage.cloud();
    let before = stage.fake.journal().left();
    for _ in 0..5 {
        let found = cloud.found().await.unwrap();
        let outcome = cloud.sweep(&found, &BTreeSet::new(), &[]).await.unwrap();
        assert!(outcome.held);
        stage.clock.advance(Duration::from_secs(300));
    }
    assert_eq!(stage.fake.journal().left(), before);
    drop(machines);
}

#[tokio::test]
async fn what_another_installation_has_is_not_even_seen() {
    let mut stage = Stage::new().await;
    let _machines = fleet(&stage, 2).await;
    stage.project.installation = "installation-2".to_owned();
    let cloud = stage.cloud();
    let found = cloud.found().await.unwrap();
    assert!(found.servers.is_empty() && found.addresses.is_empty());
}

#[tokio::test]
async fn server_that_somebody_took_meanwhile_stays() {
    let stage = Stage::new().await;
    let machines = fleet(&stage, 6).await;
    let known = uids(&machines[1..]);
    let cloud = stage.cloud();
    let found = cloud.found().await.unwrap();
    cloud.sweep(&found, &known, &[]).await.unwrap();
    stage.clock.advance(Duration::from_secs(150));
    {
        let mut contents = stage.fake.contents();
        let project = contents.projects.get_mut(TOKEN).unwrap();
        let server = project
            .servers
            .values_mut()
            .find(|s| s.labels[MACHINE_UID] == "u0");
        server.unwrap().labels.clear();
    }
    let before = stage.fake.journal().left();
    let outcome = cloud.sweep(&found, &known, &[]).await.unwrap();
    assert_eq!(outcome.delete.len(), 1);
    assert_eq!(stage.fake.journal().left(), before);
}
