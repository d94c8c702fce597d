//! What the policy allows is what the calls need.
//!
//! Invariant: no more and no less, and what is changed is only what bears the installation's tag.

use std::collections::BTreeSet;
use std::time::Duration;

use fake_clouds::aws::thing::Part;
use jiff::Timestamp;
use providers::subject::Asked;
use providers::tags::spelled;
use serde_json::Value;

use crate::life::{DEMO, IMAGE, Machine, REGION, ROUND, SIZE, Stage, until_gone, until_running};

const POLICY: &str = include_str!("../../iam-policy.json");

fn statements() -> Vec<Value> {
    let policy: Value = serde_json::from_str(POLICY).unwrap();
    policy["Statement"].as_array().unwrap().clone()
}

fn actions(statement: &Value) -> Vec<String> {
    let all = statement["Action"].as_array().unwrap().iter();
    all.map(|action| action.as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn policy_has_what_the_calls_need_and_nothing_else() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    machine.wanted.is_spot = true;
    let (types, images) = ([SIZE.to_owned()], [IMAGE.to_owned()]);
    stage.cloud().check(&types, &images, true).await.unwrap();
    until_running(&stage, &mut machine, false).await.unwrap();
    let cloud = stage.cloud();
    let owner = machine.wanted.owner.clone();
    // One that was stopped is started, and one that runs is started anew.
    stage.with(&machine, |instance| instance.state = "stopped");
    for _ in 0..2 {
        cloud.restart(&owner).await.unwrap();
        stage.clock.advance(ROUND * 4);
    }
    leave_behind(&stage);
    stage.clock.advance(Duration::from_secs(1200));
    until_gone(&stage, &mut machine, false).await.unwrap();
    let mut gone = Machine::new("gone");
    gone.asked = Asked::Seen;
    until_gone(&stage, &mut gone, false).await.unwrap();
    let named: BTreeSet<_> = statements().iter().flat_map(actions).collect();
    assert_eq!(stage.fake.contents().used, named);
}

/// What a Machine that is gone has left: a disk and an interface.
fn leave_behind(stage: &Stage) {
    let owner = Machine::new("gone").wanted.owner;
    let made: Timestamp = stage.clock.now();
    let mut contents = stage.fake.contents();
    for (id, is_disk) in [
        ("vol-0a1b2c3d00000f001", true),
        ("eni-0a1b2c3d00000f002", false),
    ] {
        let part = Part {
            place: (DEMO.to_owned(), REGION.to_owned()),
            is_disk,
            created: made,
            tags: spelled(&owner, made),
            user: None,
            goes_along: false,
        };
        contents.parts.insert(id.to_owned(), part);
    }
}

#[test]
fn policy_lets_change_only_what_bears_the_installations_tag() {
    for statement in statements() {
        let all = actions(&statement);
        let condition = statement["Condition"].to_string();
        let changes = |action: &String| {
            !action.starts_with("ec2:Describe")
                && !matches!(action.as_str(), "ec2:RunInstances" | "ec2:CreateTags")
        };
        if all.iter().any(changes) {
            assert!(
                condition.contains("aws:ResourceTag/covey-installation"),
                "{statement}"
            );
        }
        if all.iter().any(|action| action == "ec2:CreateTags") {
            assert!(condition.contains("ec2:CreateAction"), "{statement}");
        }
        assert!(
            all.iter().all(|action| !action.contains('*')),
            "{statement}"
        );
    }
}
