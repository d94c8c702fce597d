//! What the cloud does by itself, and what people do in it.
//!
//! Invariant: what is somebody else's is neither taken nor touched.

use std::time::Duration;

use fake_clouds::gcp::behaviour::Behaviour;
use providers::subject::Asked;
use providers::{FaultKind, Presence, Proof, Refused, State};

use crate::life::{DEMO, Machine, ROUND, Stage, check, until_gone, until_running};

#[tokio::test]
async fn machine_runs_with_addresses_and_labels_and_goes_with_all_of_it() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let found = stage.cloud().describe(&machine.subject()).await.unwrap();
    let found = found.present().unwrap();
    let name = machine.wanted.owner.name();
    let id = format!("gce://demo/europe-west1-b/{name}");
    assert_eq!(found.provider_id, Some(id));
    assert_eq!(found.addresses.len(), 2, "{:?}", found.addresses);
    assert_eq!(found.addresses[0].type_, "InternalIP");
    stage.with_instance(&machine, |instance| {
        let items = &instance.body["metadata"]["items"];
        assert_eq!(items[0]["value"], machine.wanted.user_data.as_str());
        assert!(instance.body["serviceAccounts"].is_null());
    });
    until_gone(&stage, &mut machine, false).await.unwrap();
    let journal = stage.fake.journal();
    check(&journal, "one life");
    assert_eq!((journal.made("instance"), journal.made("disk")), (1, 1));
}

#[tokio::test]
async fn what_is_not_found_for_a_while_is_not_made_twice() {
    for seconds in [15, 60, 240] {
        let stage = Stage::new().await;
        stage.fake.contents().behaviour.visible_after = Duration::from_secs(seconds);
        let mut machine = Machine::new("u1");
        let context = format!("found after {seconds} s");
        until_running(&stage, &mut machine, true).await.unwrap();
        until_gone(&stage, &mut machine, false).await.unwrap();
        let journal = stage.fake.journal();
        check(&journal, &context);
        assert_eq!(journal.made("instance"), 1, "{context}");
    }
}

/// Asks until it is refused.
async fn refusal(stage: &Stage, machine: &Machine) -> Refused {
    let cloud = stage.cloud();
    for _ in 0..10 {
        if let Err(refused) = cloud.create(&machine.wanted).await {
            return refused;
        }
        stage.clock.advance(ROUND);
    }
    panic!("nothing was refused");
}

#[tokio::test]
async fn what_only_the_operation_says_is_told_by_kind_and_leaves_nothing() {
    let exhausted = Behaviour {
        exhausted: vec!["e2-medium".to_owned()],
        ..Behaviour::default()
    };
    let limited = |at_once| Behaviour {
        instance_limit: 0,
        limit_is_told_at_once: at_once,
        ..Behaviour::default()
    };
    for (behaviour, code) in [
        (exhausted, "ZONE_RESOURCE_POOL_EXHAUSTED"),
        (limited(false), "QUOTA_EXCEEDED"),
        (limited(true), "quotaExceeded"),
    ] {
        let stage = Stage::new().await;
        stage.fake.contents().behaviour = behaviour;
        let mut machine = Machine::new("u1");
        let refused = refusal(&stage, &machine).await;
        assert_eq!(refused.code, code);
        assert!(!refused.kind.leaves_outcome_unknown(), "{refused}");
        assert!(refused.mend.is_some(), "{refused}");
        // A client that begins anew is told the same.
        let again = refusal(&stage, &machine).await;
        assert_eq!((again.kind, again.code), (refused.kind, refused.code));
        machine.asked = Asked::Pending { deleted: None };
        until_gone(&stage, &mut machine, false).await.unwrap();
        check(&stage.fake.journal(), code);
        assert_eq!(stage.fake.journal().made("instance"), 0, "{code}");
    }
}

#[tokio::test]
async fn machine_that_waits_for_its_size_is_asked_for_again_under_another_request() {
    let stage = Stage::new().await;
    stage.fake.contents().behaviour.exhausted = vec!["e2-medium".to_owned()];
    let mut machine = Machine::new("u1");
    let refused = refusal(&stage, &machine).await;
    assert!(matches!(refused.kind, FaultKind::Capacity { .. }));
    stage.fake.contents().behaviour.exhausted.clear();
    until_running(&stage, &mut machine, true).await.unwrap();
    until_gone(&stage, &mut machine, false).await.unwrap();
    let journal = stage.fake.journal();
    check(&journal, "a size that was exhausted");
    assert_eq!(journal.made("instance"), 1);
}

#[tokio::test]
async fn deletion_that_fails_is_asked_for_again() {
    let stage = Stage::new().await;
    stage.fake.contents().behaviour.deletion_fails = 3;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "a deletion that fails");
}

#[tokio::test]
async fn disk_that_stays_behind_goes_with_its_machine() {
    let stage = Stage::new().await;
    stage.fake.contents().behaviour.keeps_disks = true;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "a disk that stays");
}

#[tokio::test]
async fn protection_is_told_and_left_to_whoever_set_it() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.with_instance(&machine, |instance| instance.protected = true);
    let refused = stage.cloud().delete(&machine.wanted.owner, None).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Terminal);
    assert!(refused.to_string().contains("protected"), "{refused}");
    assert_eq!(stage.fake.journal().left().len(), 2);
    stage.with_instance(&machine, |instance| instance.protected = false);
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "protected");
}

#[tokio::test]
async fn instance_of_the_same_name_that_is_somebody_elses_is_neither_taken_nor_touched() {
    let stage = Stage::new().await;
    let mut other = Machine::new("u1");
    until_running(&stage, &mut other, false).await.unwrap();
    {
        let mut contents = stage.fake.contents();
        let project = contents.projects.get_mut(DEMO).unwrap();
        for instance in project.instances.values_mut() {
            instance.labels.clear();
        }
        for disk in project.disks.values_mut() {
            disk.labels.clear();
        }
    }
    let mut machine = Machine::new("u1");
    let refused = stage.cloud().create(&machine.wanted).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Taken);
    assert!(refused.to_string().contains("alreadyExists"), "{refused}");
    machine.asked = Asked::Pending { deleted: None };
    until_gone(&stage, &mut machine, false).await.unwrap();
    let left = stage.fake.journal().left();
    assert_eq!(left.len(), 2, "it and its disk: {left:?}");
}

#[tokio::test]
async fn instance_that_lost_its_labels_is_still_the_machines_and_goes_with_it() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.with_instance(&machine, |instance| instance.labels.clear());
    let cloud = stage.cloud();
    for _ in 0..5 {
        let found = cloud.describe(&machine.subject()).await.unwrap();
        assert!(matches!(found, Presence::Present(_)), "{found:?}");
        stage.clock.advance(ROUND);
    }
    until_gone(&stage, &mut machine, false).await.unwrap();
    let left = stage.fake.journal().left();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn instance_that_somebody_deleted_is_lost_by_two_looks_and_never_made_again() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    {
        let mut contents = stage.fake.contents();
        let project = contents.projects.get_mut(DEMO).unwrap();
        project.instances.clear();
        project.disks.clear();
    }
    let cloud = stage.cloud();
    machine.node_ready = Some(true);
    for _ in 0..5 {
        let found = cloud.describe(&machine.subject()).await.unwrap();
        assert!(matches!(found, Presence::Unknown { .. }), "{found:?}");
        stage.clock.advance(ROUND);
    }
    machine.node_ready = Some(false);
    let found = cloud.describe(&machine.subject()).await.unwrap();
    assert_eq!(found, Presence::Absent(Proof::Missed));
    stage.clock.advance(Duration::from_secs(600));
    let refused = cloud.create(&machine.wanted).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Gone);
    assert_eq!(stage.fake.journal().made("instance"), 1);
}

#[tokio::test]
async fn spot_instance_that_is_taken_back_gives_notice() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    machine.wanted.is_spot = true;
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.with_instance(&machine, |instance| {
        let scheduling = &instance.body["scheduling"];
        assert_eq!(scheduling["instanceTerminationAction"], "DELETE");
        instance.status = "STOPPING";
    });
    let found = stage.cloud().describe(&machine.subject()).await.unwrap();
    let found = found.present().unwrap();
    assert!(found.evacuation.is_some());
    assert_eq!(found.state, State::Running);
}

#[tokio::test]
async fn what_is_wrong_with_the_settings_is_told_with_what_to_change() {
    let told = async |change: fn(&mut Stage, &mut Machine)| {
        let mut stage = Stage::new().await;
        let mut machine = Machine::new("u1");
        change(&mut stage, &mut machine);
        let refused = stage.cloud().create(&machine.wanted).await.unwrap_err();
        assert!(!refused.kind.leaves_outcome_unknown(), "{refused}");
        assert_eq!(stage.fake.journal().made("instance"), 0);
        refused.to_string()
    };
    let said = told(|_, m| m.wanted.machine_type = "huge".to_owned()).await;
    assert!(said.contains("size of the node pool"), "{said}");
    let said = told(|_, m| m.wanted.image = "projects/demo/global/images/no".to_owned()).await;
    assert!(said.contains("change the image"), "{said}");
    let said = told(|_, m| m.wanted.image = "debian".to_owned()).await;
    assert!(said.contains("projects/PROJECT/global/images"), "{said}");
    let said = told(|s, _| s.project.subnet = "gone".to_owned()).await;
    assert!(said.contains("change spec.gcp.subnet"), "{said}");
    let said = told(|s, _| s.project.zone = "moon1-a".to_owned()).await;
    assert!(said.contains("change the zone"), "{said}");
    let said = told(|_, m| m.wanted.user_data = "x".repeat(256 * 1024 + 1)).await;
    assert!(said.contains("262145 bytes"), "{said}");
}

#[tokio::test]
async fn check_tells_what_is_not_there_and_whose_the_project_is() {
    let stage = Stage::new().await;
    let check = async |size: &str, image: &str| {
        let image = format!("projects/demo/global/images/{image}");
        stage.cloud().check(&[size.to_owned()], &[image]).await
    };
    let checked = check("e2-medium", "worker-1-36").await.unwrap();
    let number = stage.fake.contents().projects[DEMO].number;
    let account = format!("{number}/{}", stage.project.zone);
    assert_eq!(checked.account, Some(account));
    for (size, image) in [
        ("huge", "worker-1-36"),
        ("f1-micro", "worker-1-36"),
        ("e2-medium", "no"),
    ] {
        let refused = check(size, image).await.unwrap_err();
        assert_eq!(refused.kind, FaultKind::Terminal, "{size} {image}");
        assert!(refused.to_string().contains("node pool"), "{refused}");
    }
    let cloud = stage.cloud();
    let types = ["t2a-standard-2".to_owned()];
    assert_eq!(cloud.known_sizes(&types).unwrap(), None);
    let sizes = cloud.sizes(&types).await.unwrap();
    assert_eq!(sizes[0].architecture, "arm64");
    assert_eq!(cloud.known_sizes(&types).unwrap(), Some(sizes));
}

#[tokio::test]
async fn machine_that_was_stopped_is_started_on_its_disk() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.with_instance(&machine, |instance| instance.status = "TERMINATED");
    let cloud = stage.cloud();
    let state = async || {
        let found = cloud.describe(&machine.subject()).await.unwrap();
        found.present().unwrap().state
    };
    assert_eq!(state().await, State::Stopped);
    cloud.restart(&machine.wanted.owner).await.unwrap();
    stage.clock.advance(ROUND * 2);
    assert_eq!(state().await, State::Running);
    cloud.restart(&machine.wanted.owner).await.unwrap();
    stage.clock.advance(ROUND * 2);
    assert_eq!(state().await, State::Running);
    let nobody = Machine::new("u2").wanted.owner;
    let refused = cloud.restart(&nobody).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::NotFound);
    assert_eq!(stage.fake.journal().made("instance"), 1);
}
