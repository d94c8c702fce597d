//! What the cloud does by itself, and what people do in it.
//!
//! Invariant: what is somebody else's is neither taken nor touched.

use std::time::Duration;

use fake_clouds::hetzner::behaviour::Behaviour;
use providers::subject::Asked;
use providers::{FaultKind, Presence, Proof, State};

use crate::life::{Machine, ROUND, Stage, TOKEN, check, until_gone, until_running};

#[tokio::test]
async fn machine_runs_with_addresses_network_and_labels_and_goes_with_all_of_it() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let found = stage.cloud().describe(&machine.subject()).await.unwrap();
    let found = found.present().unwrap();
    let id = machine.instance.unwrap();
    assert_eq!(found.provider_id, Some(format!("hcloud://{id}")));
    assert_eq!(found.addresses.len(), 3, "{:?}", found.addresses);
    assert_eq!(found.addresses[0].type_, "InternalIP");
    {
        let contents = stage.fake.contents();
        let server = &contents.projects[TOKEN].servers[&id];
        assert_eq!(server.labels, machine.wanted.owner.labels());
        assert_eq!(server.user_data, machine.wanted.user_data);
        assert_eq!(server.networks.len(), 1);
    }
    until_gone(&stage, &mut machine, false).await.unwrap();
    let journal = stage.fake.journal();
    check(&journal, "one life");
    assert_eq!((journal.made("server"), journal.made("primary_ip")), (1, 2));
}

#[tokio::test]
async fn what_is_not_listed_for_a_while_is_not_made_twice() {
    for seconds in [15, 60, 240] {
        let stage = Stage::new().await;
        stage.fake.contents().behaviour.visible_after = Duration::from_secs(seconds);
        let mut machine = Machine::new("u1");
        let context = format!("listed after {seconds} s");
        until_running(&stage, &mut machine, true).await.unwrap();
        until_gone(&stage, &mut machine, false).await.unwrap();
        check(&stage.fake.journal(), &context);
    }
}

#[tokio::test]
async fn creation_that_fails_later_is_told_with_its_code() {
    let stage = Stage::new().await;
    stage.fake.contents().behaviour.creation_fails = true;
    let mut machine = Machine::new("u1");
    let cloud = stage.cloud();
    let mut told = None;
    for _ in 0..10 {
        machine.want(&cloud, stage.clock.now()).await.unwrap();
        stage.clock.advance(ROUND);
        if let Ok(Presence::Present(found)) = cloud.describe(&machine.subject()).await
            && let State::Failing { message, .. } = found.state
        {
            told = Some(message);
        }
    }
    let told = told.unwrap();
    assert!(told.contains("action_failed"), "{told}");
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "a creation that fails");
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
async fn protection_is_told_and_left_to_whoever_set_it() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let id = machine.instance.unwrap();
    let protect = |on: bool| {
        let mut contents = stage.fake.contents();
        let project = contents.projects.get_mut(TOKEN).unwrap();
        project.servers.get_mut(&id).unwrap().protected = on;
    };
    protect(true);
    let refused = stage.cloud().delete(&machine.wanted.owner, None).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Terminal);
    assert!(refused.to_string().contains("protected"), "{refused}");
    assert!(stage.fake.journal().left().contains(&("server", id)));
    protect(false);
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "protected");
}

#[tokio::test]
async fn server_of_the_same_name_that_is_somebody_elses_is_neither_taken_nor_touched() {
    let stage = Stage::new().await;
    let mut other = Machine::new("u1");
    until_running(&stage, &mut other, false).await.unwrap();
    let theirs = other.instance.unwrap();
    {
        let mut contents = stage.fake.contents();
        let project = contents.projects.get_mut(TOKEN).unwrap();
        project.servers.get_mut(&theirs).unwrap().labels.clear();
        for address in project.addresses.values_mut() {
            address.labels.clear();
            address.name = format!("theirs-{}", address.id);
        }
    }
    let mut machine = Machine::new("u1");
    let refused = stage.cloud().create(&machine.wanted).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Taken);
    assert!(
        refused.to_string().contains("uniqueness_error"),
        "{refused}"
    );
    machine.asked = Asked::Pending { deleted: None };
    until_gone(&stage, &mut machine, false).await.unwrap();
    let left = stage.fake.journal().left();
    assert!(left.contains(&("server", theirs)), "{left:?}");
    assert_eq!(left.len(), 3, "and its two addresses: {left:?}");
}

#[tokio::test]
async fn server_that_somebody_renamed_is_found_by_its_labels_and_not_made_twice() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    let made = stage.cloud().create(&machine.wanted).await.unwrap();
    assert!(matches!(made, Presence::Unknown { .. }), "{made:?}");
    {
        let mut contents = stage.fake.contents();
        let project = contents.projects.get_mut(TOKEN).unwrap();
        for server in project.servers.values_mut() {
            server.name = "renamed".to_owned();
        }
    }
    machine.asked = Asked::Pending { deleted: None };
    let again = stage.cloud().create(&machine.wanted).await.unwrap();
    assert!(matches!(again, Presence::Present(_)), "{again:?}");
    until_running(&stage, &mut machine, false).await.unwrap();
    until_gone(&stage, &mut machine, false).await.unwrap();
    let journal = stage.fake.journal();
    check(&journal, "renamed");
    assert_eq!(journal.made("server"), 1);
}

#[tokio::test]
async fn server_that_lost_its_labels_is_still_the_machines_and_goes_with_it() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let id = machine.instance.unwrap();
    {
        let mut contents = stage.fake.contents();
        let project = contents.projects.get_mut(TOKEN).unwrap();
        project.servers.get_mut(&id).unwrap().labels.clear();
    }
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
async fn server_that_somebody_deleted_is_lost_by_two_looks_and_not_while_its_node_is_ready() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    {
        let mut contents = stage.fake.contents();
        let project = contents.projects.get_mut(TOKEN).unwrap();
        project.servers.clear();
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
}

#[tokio::test]
async fn refusals_that_make_nothing_are_told_by_kind_and_leave_nothing() {
    let exhausted = |name: &str| Behaviour {
        exhausted: vec![name.to_owned()],
        ..Behaviour::default()
    };
    let limited = |servers, addresses| Behaviour {
        server_limit: servers,
        address_limit: addresses,
        ..Behaviour::default()
    };
    for (behaviour, code) in [
        (exhausted("cx22"), "resource_unavailable"),
        (limited(0, 10), "resource_limit_exceeded"),
        (limited(10, 0), "resource_limit_exceeded"),
        (limited(10, 1), "resource_limit_exceeded"),
    ] {
        let stage = Stage::new().await;
        stage.fake.contents().behaviour = behaviour;
        let mut machine = Machine::new("u1");
        let refused = stage.cloud().create(&machine.wanted).await.unwrap_err();
        assert_eq!(refused.code, code);
        assert!(!refused.kind.leaves_outcome_unknown(), "{refused}");
        assert!(refused.mend.is_some(), "{refused}");
        machine.asked = Asked::Pending { deleted: None };
        until_gone(&stage, &mut machine, false).await.unwrap();
        check(&stage.fake.journal(), code);
    }
}

#[tokio::test]
async fn what_is_wrong_with_the_settings_is_told_with_the_field_to_change() {
    let told = async |change: fn(&mut Stage, &mut Machine)| {
        let mut stage = Stage::new().await;
        let mut machine = Machine::new("u1");
        change(&mut stage, &mut machine);
        let refused = stage.cloud().create(&machine.wanted).await.unwrap_err();
        assert!(!refused.kind.leaves_outcome_unknown(), "{refused}");
        assert_eq!(stage.fake.journal().made("server"), 0);
        refused.to_string()
    };
    let said = told(|_, m| m.wanted.server_type = "huge".to_owned()).await;
    assert!(said.contains("types of the node pool"), "{said}");
    let said = told(|_, m| m.wanted.server_type = "cx11".to_owned()).await;
    assert!(said.contains("types of the node pool"), "{said}");
    let said = told(|_, m| m.wanted.image = "4711".to_owned()).await;
    assert!(said.contains("image of the node pool"), "{said}");
    let said = told(|s, _| s.project.location = "moon1".to_owned()).await;
    assert!(said.contains("spec.hetzner.location"), "{said}");
    let said = told(|s, _| s.project.network = Some("gone".to_owned())).await;
    assert!(said.contains("spec.hetzner.network"), "{said}");
    let said = told(|s, _| s.project.firewalls = vec!["gone".to_owned()]).await;
    assert!(said.contains("spec.hetzner.firewalls"), "{said}");
    let said = told(|s, _| s.project.ssh_keys = vec!["gone".to_owned()]).await;
    assert!(said.contains("spec.hetzner.sshKeys"), "{said}");
    let said = told(|_, m| m.wanted.user_data = "x".repeat(32 * 1024 + 1)).await;
    assert!(said.contains("32769 bytes"), "{said}");
}

#[tokio::test]
async fn machine_that_was_stopped_is_started_on_its_disk() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let id = machine.instance.unwrap();
    {
        let mut contents = stage.fake.contents();
        let project = contents.projects.get_mut(TOKEN).unwrap();
        project.servers.get_mut(&id).unwrap().status = "off";
    }
    stage.clock.advance(Duration::from_secs(600));
    let cloud = stage.cloud();
    let state = async || {
        let found = cloud.describe(&machine.subject()).await.unwrap();
        found.present().unwrap().state
    };
    assert_eq!(state().await, State::Stopped);
    cloud.restart(&machine.wanted.owner).await.unwrap();
    stage.clock.advance(ROUND);
    assert_eq!(state().await, State::Running);
    cloud.restart(&machine.wanted.owner).await.unwrap();
    stage.clock.advance(ROUND);
    assert_eq!(state().await, State::Running);
    let nobody = Machine::new("u2").wanted.owner;
    let refused = cloud.restart(&nobody).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::NotFound);
    assert_eq!(stage.fake.journal().made("server"), 1);
}
