//! What the files of rights name is what the calls need, where they are assigned.
//!
//! Invariant: no more and no less.

use std::collections::BTreeSet;
use std::time::Duration;

use fake_clouds::azure::thing::Kind;
use jiff::Timestamp;
use providers::tags::spelled;
use serde_json::Value;

use crate::life::{Machine, ROUND, Stage, image, key, until_gone, until_running};

const ROLE: &str = include_str!("../../role.json");
const OF_SUBSCRIPTION: &str = include_str!("../../role-subscription.json");

#[tokio::test]
async fn roles_have_what_the_calls_need_and_nothing_else() {
    let stage = Stage::new().await;
    // What no life without a fault asks: an operation that is not done, tags of a disk that has none, what stays behind.
    {
        let behaviour = &mut stage.fake.contents().behaviour;
        behaviour.disks_have_no_tags = true;
        behaviour.keeps_parts = true;
        behaviour.found_after = Duration::from_secs(30);
    }
    let mut machine = Machine::new("u1");
    let managed = image();
    let managed = managed.split("/galleries/").next().unwrap();
    let images = [image(), format!("{managed}/images/worker")];
    let types = [machine.wanted.size.clone()];
    stage.cloud().check(&types, &images, false).await.unwrap();
    until_running(&stage, &mut machine, false).await.unwrap();
    let cloud = stage.cloud();
    let owner = machine.wanted.owner.clone();
    // One that was stopped is started, and one that runs is started anew.
    stage.with(Kind::Vm, &machine, |vm| vm.power = "stopped");
    for _ in 0..2 {
        cloud.restart(&owner).await.unwrap();
        stage.clock.advance(ROUND * 4);
    }
    leave_behind(&stage, &machine);
    stage.clock.advance(Duration::from_secs(1200));
    let known = BTreeSet::from(["u1".to_owned()]);
    for _ in 0..2 {
        let found = cloud.found().await.unwrap();
        cloud.sweep(&found, &known, &[]).await.unwrap();
        stage.clock.advance(Duration::from_secs(150));
    }
    until_gone(&stage, &mut machine, false).await.unwrap();
    let left = stage.fake.journal().left();
    assert!(left.is_empty(), "{left:?}");
    let used = stage.fake.contents().used.clone();
    for (scope, role) in [("group", ROLE), ("subscription", OF_SUBSCRIPTION)] {
        let role: Value = serde_json::from_str(role).unwrap();
        let named = role["Actions"].as_array().unwrap().iter();
        let named: BTreeSet<_> = named.filter_map(Value::as_str).collect();
        let needed = used.iter().filter(|(of, _)| *of == scope);
        let needed: BTreeSet<_> = needed.map(|(_, action)| *action).collect();
        assert_eq!(needed, named, "{scope}");
    }
}

/// What a Machine that is gone has left: an address.
fn leave_behind(stage: &Stage, machine: &Machine) {
    let owner = Machine::new("gone").wanted.owner;
    let made: Timestamp = stage.clock.now();
    let mut contents = stage.fake.contents();
    let group = contents.groups.get_mut(&key()).unwrap();
    let name = machine
        .wanted
        .owner
        .address_name(providers::identity::Family::V4);
    let mut address = group.things[&(Kind::Address, name)].clone();
    address.number = 9002;
    address.user = None;
    address.tags = spelled(&owner, made);
    group.things.insert((Kind::Address, owner.name()), address);
}
