//! What the file of rights names is what the calls need.
//!
//! Invariant: no more and no less.

use std::collections::BTreeSet;
use std::time::Duration;

use fake_clouds::gcp::project::Address;
use provider_gcp::labels::spelled;

use crate::life::{DEMO, Machine, ROUND, Stage, until_gone, until_running};

const ROLE: &str = include_str!("../../role.yaml");

#[tokio::test]
async fn role_has_what_the_calls_need_and_nothing_else() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    let images = [machine.wanted.image.clone()];
    let types = ["e2-medium".to_owned()];
    stage.cloud().check(&types, &images).await.unwrap();
    until_running(&stage, &mut machine, false).await.unwrap();
    let cloud = stage.cloud();
    let owner = machine.wanted.owner.clone();
    // One that was stopped is started, and one that runs is reset.
    stage.with_instance(&machine, |instance| instance.status = "TERMINATED");
    for _ in 0..2 {
        cloud.restart(&owner).await.unwrap();
        stage.clock.advance(ROUND * 2);
    }
    // A disk and an address stay behind, and nobody has them.
    leave_behind(&stage, &machine);
    stage.clock.advance(Duration::from_secs(1200));
    let known = BTreeSet::from(["u1".to_owned()]);
    for _ in 0..2 {
        let found = cloud.found().await.unwrap();
        let mut one_by_one = found.clone();
        one_by_one.addresses.clear();
        cloud.sweep(&one_by_one, &known, &[]).await.unwrap();
        stage.clock.advance(Duration::from_secs(150));
    }
    for _ in 0..2 {
        let found = cloud.found().await.unwrap();
        cloud.sweep(&found, &known, &[]).await.unwrap();
        stage.clock.advance(Duration::from_secs(150));
    }
    until_gone(&stage, &mut machine, false).await.unwrap();
    let left = stage.fake.journal().left();
    assert!(left.is_empty(), "{left:?}");
    let needed = stage.fake.contents().used.clone();
    let named = ROLE.lines().filter_map(|line| line.strip_prefix("- "));
    let named: BTreeSet<_> = named.collect();
    assert_eq!(needed, named);
}

/// What a Machine that is gone has left: a disk, and an address of a kind that Covey itself never makes.
fn leave_behind(stage: &Stage, machine: &Machine) {
    let owner = Machine::new("gone").wanted.owner;
    let created = stage.clock.now();
    let mut contents = stage.fake.contents();
    let project = contents.projects.get_mut(DEMO).unwrap();
    let key = (stage.project.zone.clone(), machine.wanted.owner.name());
    let mut disk = project.disks[&key].clone();
    disk.id = 9001;
    disk.user = None;
    disk.labels = spelled(&owner);
    let name = (stage.project.zone.clone(), owner.name());
    project.disks.insert(name, disk);
    let address = Address {
        id: 9002,
        created,
        labels: spelled(&owner),
    };
    let name = ("europe-west1".to_owned(), owner.name());
    project.addresses.insert(name, address);
}
