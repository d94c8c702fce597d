//! What the cloud does by itself, and what people do in it.
//!
//! Invariant: what is somebody else's is neither taken nor touched.

use std::time::Duration;

use fake_clouds::aws::behaviour::Behaviour;
use providers::subject::Asked;
use providers::{FaultKind, Presence, Proof, State};

use crate::life::{IMAGE, Machine, ROUND, SIZE, Stage, check, until_gone, until_running};

#[tokio::test]
async fn machine_runs_with_addresses_and_tags_and_goes_with_all_of_it() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let found = stage.cloud().describe(&machine.subject()).await.unwrap();
    let found = found.present().unwrap();
    let id = format!("aws:///eu-central-1a/{}", stage.id_of(&machine));
    assert_eq!(found.provider_id, Some(id));
    let types: Vec<_> = found.addresses.iter().map(|a| a.type_.as_str()).collect();
    assert_eq!(types, ["InternalIP", "ExternalIP"]);
    assert_eq!(found.instance_type.as_deref(), Some(SIZE));
    until_gone(&stage, &mut machine, false).await.unwrap();
    let journal = stage.fake.journal();
    check(&journal, "one life");
    for kind in ["instance", "volume", "interface"] {
        assert_eq!(journal.made(kind), 1, "{kind}");
    }
}

#[tokio::test]
async fn machine_at_rest_costs_one_request_for_each_look_and_one_that_may_be_taken_back_two() {
    for (is_spot, each) in [(false, 1), (true, 2)] {
        let stage = Stage::new().await;
        let mut machine = Machine::new("u1");
        machine.wanted.is_spot = is_spot;
        until_running(&stage, &mut machine, false).await.unwrap();
        let cloud = stage.cloud();
        cloud.describe(&machine.subject()).await.unwrap();
        let before = stage.requests();
        for _ in 0..5 {
            cloud.describe(&machine.subject()).await.unwrap();
        }
        assert_eq!(stage.requests() - before, 5 * each);
    }
}

#[tokio::test]
async fn what_is_not_found_for_a_while_is_not_made_twice_and_is_not_gone() {
    for seconds in [15, 60, 240] {
        let stage = Stage::new().await;
        {
            let behaviour = &mut stage.fake.contents().behaviour;
            behaviour.found_after = Duration::from_secs(seconds);
            behaviour.listed_after = Duration::from_secs(seconds + 20);
        }
        let mut machine = Machine::new("u1");
        let context = format!("found after {seconds} s");
        until_running(&stage, &mut machine, true).await.unwrap();
        until_gone(&stage, &mut machine, false).await.unwrap();
        let journal = stage.fake.journal();
        check(&journal, &context);
        assert_eq!(journal.made("instance"), 1, "{context}");
        // Deleted before anybody saw it.
        let mut machine = Machine::new("u2");
        let cloud = stage.cloud();
        machine.want(&cloud, stage.clock.now()).await.unwrap();
        until_gone(&stage, &mut machine, true).await.unwrap();
        stage.clock.advance(Duration::from_secs(3600));
        check(&stage.fake.journal(), &context);
    }
}

#[tokio::test]
async fn tags_that_come_late_make_no_second_machine_and_leave_nothing() {
    for seconds in [30, 300] {
        let stage = Stage::new().await;
        stage.fake.contents().behaviour.tags_after = Duration::from_secs(seconds);
        let context = format!("tags after {seconds} s");
        for anew in [false, true] {
            let mut machine = Machine::new(if anew { "u2" } else { "u1" });
            until_running(&stage, &mut machine, anew).await.unwrap();
            until_gone(&stage, &mut machine, anew).await.unwrap();
        }
        // Deleted before anybody saw it.
        let mut machine = Machine::new("u3");
        let cloud = stage.cloud();
        machine.want(&cloud, stage.clock.now()).await.unwrap();
        until_gone(&stage, &mut machine, true).await.unwrap();
        stage.clock.advance(Duration::from_secs(3600));
        let journal = stage.fake.journal();
        check(&journal, &context);
        assert_eq!(journal.made("instance"), 3, "{context}");
    }
}

#[tokio::test]
async fn what_there_is_none_of_is_told_by_kind_with_the_vendors_code_and_leaves_nothing() {
    let exhausted = Behaviour {
        exhausted: vec![SIZE.to_owned()],
        ..Behaviour::default()
    };
    let limited = Behaviour {
        vcpus: 1,
        ..Behaviour::default()
    };
    for (behaviour, code) in [
        (exhausted, "InsufficientInstanceCapacity"),
        (limited, "VcpuLimitExceeded"),
    ] {
        let stage = Stage::new().await;
        stage.fake.contents().behaviour = behaviour;
        let machine = Machine::new("u1");
        let refused = stage.cloud().create(&machine.wanted).await.unwrap_err();
        assert_eq!(refused.code, code);
        assert!(!refused.kind.leaves_outcome_unknown(), "{refused}");
        assert!(refused.mend.is_some(), "{refused}");
        assert_eq!(refused.request.as_deref(), Some("req-1"));
        assert_eq!(stage.fake.journal().made("instance"), 0, "{code}");
    }
}

#[tokio::test]
async fn machine_that_ended_before_anybody_saw_it_says_why_and_is_not_made_again() {
    for (reason, is_capacity) in [
        ("Server.InsufficientInstanceCapacity", true),
        ("Client.InternalError", false),
    ] {
        for anew in [false, true] {
            let stage = Stage::new().await;
            {
                let behaviour = &mut stage.fake.contents().behaviour;
                behaviour.ends_pending = Some(reason);
                behaviour.found_after = Duration::from_secs(300);
                behaviour.listed_after = Duration::from_secs(300);
            }
            let mut machine = Machine::new("u1");
            let mut cloud = stage.cloud();
            machine.want(&cloud, stage.clock.now()).await.unwrap();
            stage.clock.advance(Duration::from_secs(400));
            if anew {
                cloud = stage.cloud();
            }
            let found = cloud.describe(&machine.subject()).await.unwrap();
            assert_eq!(found, Presence::Absent(Proof::NotSeenYet));
            let refused = cloud.create(&machine.wanted).await.unwrap_err();
            assert_eq!(refused.code, reason);
            let is = matches!(refused.kind, FaultKind::Capacity { .. });
            assert_eq!(is, is_capacity, "{refused}");
            assert!(is || refused.kind == FaultKind::Gone, "{refused}");
            until_gone(&stage, &mut machine, false).await.unwrap();
            let journal = stage.fake.journal();
            check(&journal, reason);
            assert_eq!(journal.made("instance"), 1, "{reason}");
        }
    }
}

/// Somebody changed the settings of the ProviderConfig while an answer was lost.
#[tokio::test]
async fn machine_that_was_asked_for_with_other_settings_is_found_and_never_made_twice() {
    let mut stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    let cloud = stage.cloud();
    machine.want(&cloud, stage.clock.now()).await.unwrap();
    stage.place.public_ipv4 = false;
    let refused = stage.cloud().create(&machine.wanted).await.unwrap_err();
    assert_eq!(refused.code, "IdempotentParameterMismatch");
    assert_eq!(refused.kind, FaultKind::Taken);
    stage.clock.advance(ROUND * 3);
    let told = stage.cloud().create(&machine.wanted).await.unwrap();
    assert!(matches!(told, Presence::Unknown { .. }), "{told:?}");
    until_running(&stage, &mut machine, true).await.unwrap();
    until_gone(&stage, &mut machine, false).await.unwrap();
    let journal = stage.fake.journal();
    check(&journal, "other settings");
    assert_eq!(journal.made("instance"), 1);
}

#[tokio::test]
async fn parts_that_stay_behind_go_with_their_machine() {
    let stage = Stage::new().await;
    stage.fake.contents().behaviour.keeps_parts = true;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "parts");
}

#[tokio::test]
async fn protection_is_told_and_left_to_whoever_set_it() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.with(&machine, |instance| instance.protected = true);
    let cloud = stage.cloud();
    let refused = cloud.delete(&machine.wanted.owner, machine.instance).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Terminal);
    assert!(refused.to_string().contains("protected"), "{refused}");
    assert_eq!(stage.fake.journal().left().len(), 3);
    stage.with(&machine, |instance| instance.protected = false);
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "protected");
}

#[tokio::test]
async fn machine_that_lost_its_tags_is_still_the_machines_and_another_ones_is_not_touched() {
    let stage = Stage::new().await;
    let (mut machine, mut other) = (Machine::new("u1"), Machine::new("u2"));
    until_running(&stage, &mut machine, false).await.unwrap();
    until_running(&stage, &mut other, false).await.unwrap();
    stage.with(&machine, |instance| instance.tags.clear());
    let found = stage.cloud().describe(&machine.subject()).await.unwrap();
    assert!(matches!(found, Presence::Present(_)), "{found:?}");
    // By the ID of another Machine's, nothing of that one goes.
    let cloud = stage.cloud();
    let owner = Machine::new("u3").wanted.owner;
    cloud.delete(&owner, other.instance).await.unwrap();
    stage.clock.advance(Duration::from_secs(60));
    assert_eq!(stage.fake.journal().left().len(), 6);
    until_gone(&stage, &mut machine, false).await.unwrap();
    until_gone(&stage, &mut other, false).await.unwrap();
    let left = stage.fake.journal().left();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn machine_that_somebody_ended_is_lost_by_its_id_and_one_that_is_forgotten_by_two_looks() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let cloud = stage.cloud();
    let all = std::mem::take(&mut stage.fake.contents().instances);
    machine.node_ready = Some(true);
    for _ in 0..5 {
        let found = cloud.describe(&machine.subject()).await.unwrap();
        assert!(matches!(found, Presence::Unknown { .. }), "{found:?}");
        stage.clock.advance(ROUND);
    }
    machine.node_ready = Some(false);
    let found = cloud.describe(&machine.subject()).await.unwrap();
    assert_eq!(found, Presence::Absent(Proof::Missed));
    stage.fake.contents().instances = all;
    stage.with(&machine, |instance| instance.state = "terminated");
    let found = cloud.describe(&machine.subject()).await.unwrap();
    assert_eq!(found, Presence::Absent(Proof::Terminated));
}

#[tokio::test]
async fn spot_machine_that_is_taken_back_is_described_as_leaving_two_minutes_before() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    machine.wanted.is_spot = true;
    until_running(&stage, &mut machine, false).await.unwrap();
    let cloud = stage.cloud();
    let describe = async || {
        let found = cloud.describe(&machine.subject()).await.unwrap();
        found.present().unwrap()
    };
    assert_eq!(describe().await.evacuation, None);
    let (id, now) = (stage.id_of(&machine), stage.clock.now());
    stage.fake.contents().mark(&id, now);
    let found = describe().await;
    assert_eq!(found.state, State::Running);
    let deadline = found.evacuation.unwrap().deadline.unwrap();
    assert_eq!(deadline.duration_since(now).as_secs(), 120);
    stage.clock.advance(Duration::from_secs(125));
    let found = describe().await;
    assert!(found.deleting && found.evacuation.is_some(), "{found:?}");
    stage.clock.advance(Duration::from_secs(60));
    let found = cloud.describe(&machine.subject()).await.unwrap();
    assert_eq!(found, Presence::Absent(Proof::Terminated));
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "taken back");
}

#[tokio::test]
async fn what_is_wrong_with_the_settings_is_told_with_what_to_change() {
    let told = async |change: fn(&mut Stage, &mut Machine)| {
        let mut stage = Stage::new().await;
        let mut machine = Machine::new("u1");
        change(&mut stage, &mut machine);
        let refused = stage.cloud().create(&machine.wanted).await.unwrap_err();
        assert_eq!(refused.kind, FaultKind::Terminal, "{refused}");
        assert_eq!(stage.fake.journal().made("instance"), 0);
        refused.to_string()
    };
    let said = told(|_, m| m.wanted.size = "huge".to_owned()).await;
    assert!(said.contains("type of the node pool"), "{said}");
    let said = told(|_, m| m.wanted.image = "ami-0123456789abcdef9".to_owned()).await;
    assert!(said.contains("change the image"), "{said}");
    let said = told(|_, m| m.wanted.image = "debian".to_owned()).await;
    assert!(said.contains("by its ID"), "{said}");
    let said = told(|s, _| s.place.subnet = "subnet-1".to_owned()).await;
    assert!(said.contains("change spec.aws.subnetID"), "{said}");
    let said = told(|s, _| s.place.security_groups = vec!["sg-1".to_owned()]).await;
    assert!(said.contains("spec.aws.securityGroupIDs"), "{said}");
    let said = told(|s, _| s.place.root_device = "/dev/sda1".to_owned()).await;
    assert!(said.contains("spec.aws.rootDevice"), "{said}");
    let said = told(|_, m| m.wanted.user_data = "x".repeat(16 * 1024 + 1)).await;
    assert!(said.contains("16385 bytes"), "{said}");
}

#[tokio::test]
async fn check_tells_what_is_not_there_and_whose_the_account_is_and_makes_nothing() {
    let mut stage = Stage::new().await;
    let check = async |stage: &Stage, size: &str, image: &str| {
        let (types, images) = ([size.to_owned()], [image.to_owned()]);
        stage.cloud().check(&types, &images, true).await
    };
    let checked = check(&stage, SIZE, IMAGE).await.unwrap();
    assert_eq!(
        checked.account.as_deref(),
        Some("111111111111/eu-central-1")
    );
    for (size, image) in [
        ("huge", IMAGE),
        ("m5.large", IMAGE),
        ("m7g.large", IMAGE),
        (SIZE, "no"),
        (SIZE, "ami-0123456789abcdef9"),
    ] {
        let refused = check(&stage, size, image).await.unwrap_err();
        assert_eq!(refused.kind, FaultKind::Terminal, "{size} {image}");
        assert!(refused.to_string().contains("node pool"), "{refused}");
    }
    stage.fake.contents().behaviour.free_addresses = 3;
    let refused = check(&stage, SIZE, IMAGE).await.unwrap_err();
    assert!(matches!(refused.kind, FaultKind::Quota { .. }), "{refused}");
    stage.fake.contents().behaviour.free_addresses = 8;
    stage.place.zone = "eu-central-1b".to_owned();
    let refused = check(&stage, SIZE, IMAGE).await.unwrap_err();
    assert!(
        refused.to_string().contains("zone eu-central-1a"),
        "{refused}"
    );
    assert_eq!(stage.fake.journal().made("instance"), 0);
}

#[tokio::test]
async fn sizes_are_asked_for_once_in_six_hours_and_have_the_price_of_spot_alone() {
    let stage = Stage::new().await;
    let cloud = stage.cloud();
    let types = [SIZE.to_owned(), "m7g.large".to_owned()];
    assert_eq!(cloud.known_sizes(&types, true), Ok(None));
    let sizes = cloud.sizes(&types, true).await.unwrap();
    assert_eq!(sizes[1].architecture, "arm64");
    assert_eq!(sizes[0].offering.price, Some(0.0345));
    let before = stage.requests();
    assert_eq!(cloud.sizes(&types, true).await.unwrap(), sizes);
    assert_eq!(cloud.known_sizes(&types, true), Ok(Some(sizes)));
    assert_eq!(stage.requests(), before);
    let others = cloud.sizes(&types, false).await.unwrap();
    assert_eq!(others[0].offering.price, None);
    stage.clock.advance(Duration::from_secs(6 * 3600));
    let before = stage.requests();
    cloud.sizes(&types, false).await.unwrap();
    assert!(stage.requests() > before);
}

#[tokio::test]
async fn machine_that_was_stopped_is_started_on_its_disk() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.with(&machine, |instance| instance.state = "stopped");
    let cloud = stage.cloud();
    let state = async || {
        let found = cloud.describe(&machine.subject()).await.unwrap();
        found.present().unwrap().state
    };
    stage.clock.advance(ROUND * 2);
    assert_eq!(state().await, State::Stopped);
    for _ in 0..2 {
        cloud.restart(&machine.wanted.owner).await.unwrap();
        stage.clock.advance(ROUND * 4);
        assert_eq!(state().await, State::Running);
    }
    let nobody = Machine::new("u2").wanted.owner;
    let refused = cloud.restart(&nobody).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::NotFound);
    assert_eq!(stage.fake.journal().made("instance"), 1);
}

/// Many at once: half of what the account may ask is ours, so that EC2 never says that it is too much.
#[tokio::test]
async fn instances_are_asked_for_by_half_of_their_bucket() {
    let stage = Stage::new().await;
    let cloud = stage.cloud();
    let mut refused = 0;
    for n in 0..6 {
        let wanted = Machine::new(&format!("u{n}")).wanted;
        match cloud.create(&wanted).await {
            Ok(_) => {}
            Err(told) => {
                assert_eq!(told.code, "own_budget", "{told}");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 4);
    // Looking and deleting go on.
    let mut machine = Machine::new("u0");
    machine.asked = Asked::Pending { deleted: None };
    until_running(&stage, &mut machine, false).await.unwrap();
    until_gone(&stage, &mut machine, false).await.unwrap();
}
