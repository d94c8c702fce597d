//! What the cloud does by itself, and what people do in it.
//!
//! Invariant: what is somebody else's is neither taken nor touched.

use std::time::Duration;

use fake_clouds::azure::behaviour::Behaviour;
use fake_clouds::azure::thing::Kind;
use fake_clouds::journal::Journal;
use providers::subject::Asked;
use providers::{FaultKind, Presence, Proof, Refused, State};

use crate::life::{DEMO, Machine, ROUND, Stage, check, image, key, until_gone, until_running};

#[tokio::test]
async fn machine_runs_with_addresses_and_tags_and_goes_with_all_of_it() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let found = stage.cloud().describe(&machine.subject()).await.unwrap();
    let found = found.present().unwrap();
    let name = machine.wanted.owner.name();
    let id = format!(
        "azure:///subscriptions/{DEMO}/resourceGroups/workers/providers/Microsoft.Compute/virtualMachines/{name}"
    );
    assert_eq!(found.provider_id, Some(id));
    assert_eq!(found.addresses.len(), 2, "{:?}", found.addresses);
    assert_eq!(found.addresses[0].type_, "InternalIP");
    assert_eq!(
        found.topology.unwrap().zone.as_deref(),
        Some("westeurope-1")
    );
    stage.with(Kind::Vm, &machine, |vm| {
        assert!(vm.body["identity"].is_null());
        assert_eq!(vm.body["properties"]["userData"], "I2Nsb3VkLWNvbmZpZwo=");
    });
    until_gone(&stage, &mut machine, false).await.unwrap();
    let journal = stage.fake.journal();
    check(&journal, "one life");
    for kind in ["vm", "disk", "nic", "address"] {
        assert_eq!(journal.made(kind), 1, "{kind}");
    }
}

#[tokio::test]
async fn machine_at_rest_costs_one_request_for_each_look() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let cloud = stage.cloud();
    cloud.describe(&machine.subject()).await.unwrap();
    let before = stage.requests();
    for _ in 0..5 {
        cloud.describe(&machine.subject()).await.unwrap();
    }
    assert_eq!(stage.requests() - before, 5);
}

#[tokio::test]
async fn what_is_not_found_for_a_while_is_not_made_twice() {
    for seconds in [15, 60, 240] {
        let stage = Stage::new().await;
        {
            let behaviour = &mut stage.fake.contents().behaviour;
            behaviour.found_after = Duration::from_secs(seconds);
            behaviour.listed_after = Duration::from_secs(seconds * 2);
        }
        let mut machine = Machine::new("u1");
        let context = format!("found after {seconds} s");
        until_running(&stage, &mut machine, true).await.unwrap();
        until_gone(&stage, &mut machine, false).await.unwrap();
        let journal = stage.fake.journal();
        check(&journal, &context);
        assert_eq!(journal.made("vm"), 1, "{context}");
    }
}

/// Asks until it is refused.
async fn refusal(stage: &Stage, machine: &Machine) -> Refused {
    let cloud = stage.cloud();
    for _ in 0..20 {
        if let Err(refused) = cloud.create(&machine.wanted).await {
            return refused;
        }
        stage.clock.advance(ROUND);
    }
    panic!("nothing was refused");
}

#[tokio::test]
async fn what_there_is_none_of_is_told_by_kind_and_leaves_nothing() {
    let exhausted = Behaviour {
        exhausted: vec!["Standard_D2s_v5".to_owned()],
        ..Behaviour::default()
    };
    let limited = Behaviour {
        machine_limit: 0,
        ..Behaviour::default()
    };
    for (behaviour, code) in [
        (exhausted, "AllocationFailed"),
        (limited, "OperationNotAllowed"),
    ] {
        let stage = Stage::new().await;
        stage.fake.contents().behaviour = behaviour;
        let mut machine = Machine::new("u1");
        let refused = refusal(&stage, &machine).await;
        assert_eq!(refused.code, code);
        assert!(!refused.kind.leaves_outcome_unknown(), "{refused}");
        assert!(refused.mend.is_some(), "{refused}");
        // A client that begins anew is told the same.
        stage.clock.advance(Duration::from_secs(60));
        let again = refusal(&stage, &machine).await;
        assert_eq!((again.kind, again.code), (refused.kind, refused.code));
        machine.asked = Asked::Pending { deleted: None };
        until_gone(&stage, &mut machine, false).await.unwrap();
        let journal = stage.fake.journal();
        assert!(journal.left().is_empty(), "{code}: {:?}", journal.left());
    }
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    machine.wanted.size = "Standard_F2".to_owned();
    let refused = refusal(&stage, &machine).await;
    assert_eq!(refused.code, "SkuNotAvailable");
    assert!(matches!(refused.kind, FaultKind::Capacity { .. }));
}

/// It is asked for in vain for a while, and then there are some of its size again.
async fn waits_for_its_size(stage: &Stage, machine: &mut Machine) {
    let cloud = stage.cloud();
    for _ in 0..15 {
        let runs = machine.want(&cloud, stage.clock.now()).await.unwrap();
        assert!(!runs);
        stage.clock.advance(ROUND);
    }
    stage.fake.contents().behaviour.exhausted.clear();
}

#[tokio::test]
async fn machine_that_waits_for_its_size_is_asked_for_again_after_what_failed_went() {
    for anew in [false, true] {
        let stage = Stage::new().await;
        stage.fake.contents().behaviour.exhausted = vec!["Standard_D2s_v5".to_owned()];
        let mut machine = Machine::new("u1");
        waits_for_its_size(&stage, &mut machine).await;
        until_running(&stage, &mut machine, anew).await.unwrap();
        until_gone(&stage, &mut machine, anew).await.unwrap();
        check(&stage.fake.journal(), "a size that was exhausted");
    }
}

#[tokio::test]
async fn disk_that_a_failed_machine_left_goes_before_the_next_one_is_made() {
    for disks_have_no_tags in [false, true] {
        let stage = Stage::new().await;
        {
            let behaviour = &mut stage.fake.contents().behaviour;
            behaviour.exhausted = vec!["Standard_D2s_v5".to_owned()];
            behaviour.keeps_parts = true;
            behaviour.disks_have_no_tags = disks_have_no_tags;
        }
        let mut machine = Machine::new("u1");
        waits_for_its_size(&stage, &mut machine).await;
        until_running(&stage, &mut machine, true).await.unwrap();
        let journal = stage.fake.journal();
        assert!(journal.made("disk") > 1, "none was left");
        until_gone(&stage, &mut machine, false).await.unwrap();
        let left = stage.fake.journal().left();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test]
async fn disk_of_its_name_that_is_nobodys_is_told_and_stays() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.with(Kind::Disk, &machine, |disk| {
        disk.tags.clear();
        disk.user = None;
    });
    {
        let mut contents = stage.fake.contents();
        let group = contents.groups.get_mut(&key()).unwrap();
        group.things.retain(|(kind, _), _| *kind != Kind::Vm);
    }
    stage.clock.advance(Duration::from_secs(600));
    let refused = stage.cloud().create(&machine.wanted).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Taken);
    assert!(refused.to_string().contains("another disk"), "{refused}");
    let left = stage.fake.journal().left();
    assert_eq!(left.len(), 4, "nothing went: {left:?}");
}

#[tokio::test]
async fn machine_that_is_waited_for_is_asked_for_by_its_name_alone() {
    let stage = Stage::new().await;
    stage.fake.contents().behaviour.found_after = Duration::from_secs(60);
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    let lists = |journal: &Journal| {
        let is_list = |path: &str| path.ends_with("/virtualMachines");
        journal.entries.iter().filter(|e| is_list(&e.path)).count()
    };
    assert_eq!(lists(&stage.fake.journal()), 0);
    // That it is gone the list has to say, too.
    until_gone(&stage, &mut machine, false).await.unwrap();
    assert!(lists(&stage.fake.journal()) >= 2);
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
async fn parts_that_stay_behind_go_with_their_machine_although_they_are_reserved() {
    for disks_have_no_tags in [false, true] {
        let stage = Stage::new().await;
        {
            let behaviour = &mut stage.fake.contents().behaviour;
            behaviour.keeps_parts = true;
            behaviour.disks_have_no_tags = disks_have_no_tags;
        }
        let mut machine = Machine::new("u1");
        until_running(&stage, &mut machine, false).await.unwrap();
        until_gone(&stage, &mut machine, false).await.unwrap();
        let left = stage.fake.journal().left();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test]
async fn lock_is_told_and_left_to_whoever_set_it() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.with(Kind::Vm, &machine, |vm| vm.locked = true);
    let refused = stage.cloud().delete(&machine.wanted.owner, None).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Terminal);
    assert!(refused.to_string().contains("locked"), "{refused}");
    assert_eq!(stage.fake.journal().left().len(), 4);
    stage.with(Kind::Vm, &machine, |vm| vm.locked = false);
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "locked");
}

#[tokio::test]
async fn what_bears_the_name_and_is_somebody_elses_is_neither_taken_nor_touched() {
    for bare in [Kind::Vm, Kind::Nic] {
        let stage = Stage::new().await;
        let mut other = Machine::new("u1");
        until_running(&stage, &mut other, false).await.unwrap();
        {
            let mut contents = stage.fake.contents();
            let group = contents.groups.get_mut(&key()).unwrap();
            if bare == Kind::Nic {
                group.things.retain(|(kind, _), _| *kind != Kind::Vm);
            }
            for thing in group.things.values_mut() {
                thing.tags.clear();
            }
        }
        let mut machine = Machine::new("u1");
        let refused = stage.cloud().create(&machine.wanted).await.unwrap_err();
        assert_eq!(refused.kind, FaultKind::Taken);
        machine.asked = Asked::Pending { deleted: None };
        until_gone(&stage, &mut machine, false).await.unwrap();
        let left = stage.fake.journal().left();
        assert_eq!(left.len(), 4, "it and all of it: {left:?}");
    }
}

#[tokio::test]
async fn machine_that_lost_its_tags_is_still_the_machines_and_goes_with_it() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.with(Kind::Vm, &machine, |vm| vm.tags.clear());
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
async fn machine_that_somebody_deleted_is_lost_by_two_looks() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage
        .fake
        .contents()
        .groups
        .get_mut(&key())
        .unwrap()
        .things
        .clear();
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

/// The operation says that it was made, which is all that anybody knows of it.
#[tokio::test]
async fn machine_that_went_before_anybody_saw_it_is_not_made_again() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    let cloud = stage.cloud();
    while stage.fake.journal().made("vm") == 0 {
        machine.want(&cloud, stage.clock.now()).await.unwrap();
        stage.clock.advance(Duration::from_secs(5));
    }
    stage.clock.advance(Duration::from_secs(400));
    drop(stage.fake.journal());
    {
        let mut contents = stage.fake.contents();
        let group = contents.groups.get_mut(&key()).unwrap();
        group.things.retain(|(kind, _), _| *kind != Kind::Vm);
    }
    let refused = cloud.create(&machine.wanted).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Gone);
    assert_eq!(stage.fake.journal().made("vm"), 1);
}

#[tokio::test]
async fn spot_machine_that_is_taken_back_is_described_as_leaving() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    machine.wanted.is_spot = true;
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.with(Kind::Vm, &machine, |vm| {
        assert_eq!(vm.body["properties"]["evictionPolicy"], "Delete");
    });
    let name = machine.wanted.owner.name();
    let now = stage.clock.now();
    stage.fake.contents().evict(DEMO, &name, now);
    let found = stage.cloud().describe(&machine.subject()).await.unwrap();
    let found = found.present().unwrap();
    assert!(found.evacuation.is_some());
    assert_eq!(found.state, State::Running);
    stage.clock.advance(Duration::from_secs(60));
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "taken back");
}

#[tokio::test]
async fn what_is_wrong_with_the_settings_is_told_with_what_to_change() {
    let told = async |change: fn(&mut Stage, &mut Machine)| {
        let mut stage = Stage::new().await;
        let mut machine = Machine::new("u1");
        change(&mut stage, &mut machine);
        let refused = refusal(&stage, &machine).await;
        assert!(!refused.kind.leaves_outcome_unknown(), "{refused}");
        assert_eq!(stage.fake.journal().made("vm"), 0);
        refused.to_string()
    };
    let said = told(|_, m| m.wanted.size = "huge".to_owned()).await;
    assert!(said.contains("size of the node pool"), "{said}");
    let said = told(|_, m| m.wanted.image = image().replace("1.36.0", "1.0.0")).await;
    assert!(said.contains("change the image"), "{said}");
    let said = told(|_, m| m.wanted.image = "debian".to_owned()).await;
    assert!(said.contains("versions/VERSION"), "{said}");
    let said = told(|s, _| s.place.subnet = "gone".to_owned()).await;
    assert!(said.contains("change spec.azure.subnetID"), "{said}");
    let said = told(|s, _| s.place.security_group = Some("gone".to_owned())).await;
    assert!(said.contains("spec.azure.securityGroupID"), "{said}");
    let said = told(|s, _| s.place.location = "moon".to_owned()).await;
    assert!(said.contains("change the location"), "{said}");
    let said = told(|s, _| s.place.ssh_key.clear()).await;
    assert!(said.contains("key of SSH"), "{said}");
    let said = told(|_, m| m.wanted.user_data = "x".repeat(64 * 1024 + 1)).await;
    assert!(said.contains("65537 bytes"), "{said}");
}

#[tokio::test]
async fn check_tells_what_is_not_there_and_whose_the_group_is() {
    let stage = Stage::new().await;
    let check = async |size: &str, image: &str| {
        let (types, images) = ([size.to_owned()], [image.to_owned()]);
        stage.cloud().check(&types, &images, false).await
    };
    let checked = check("Standard_D2s_v5", &image()).await.unwrap();
    let account = format!("/subscriptions/{DEMO}/resourcegroups/workers");
    assert_eq!(checked.account, Some(account));
    for (size, image) in [
        ("huge", image()),
        ("Standard_F2", image()),
        ("Standard_D2s_v5", "no".to_owned()),
        ("Standard_D2s_v5", image().replace("1.36.0", "1.0.0")),
    ] {
        let refused = check(size, &image).await.unwrap_err();
        assert_eq!(refused.kind, FaultKind::Terminal, "{size} {image}");
        assert!(refused.to_string().contains("node pool"), "{refused}");
    }
    stage.fake.contents().behaviour.machine_limit = 0;
    let refused = check("Standard_D2s_v5", &image()).await.unwrap_err();
    assert!(matches!(refused.kind, FaultKind::Quota { .. }), "{refused}");
    let cloud = stage.cloud();
    let types = ["Standard_D2ps_v5".to_owned()];
    assert_eq!(cloud.known_sizes(&types).unwrap(), None);
    let sizes = cloud.sizes(&types).await.unwrap();
    assert_eq!(sizes[0].size.architecture, "arm64");
    assert_eq!(cloud.known_sizes(&types).unwrap(), Some(sizes));
}

#[tokio::test]
async fn machine_that_was_stopped_is_started_on_its_disk() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.with(Kind::Vm, &machine, |vm| vm.power = "deallocated");
    let cloud = stage.cloud();
    let state = async || {
        let found = cloud.describe(&machine.subject()).await.unwrap();
        found.present().unwrap().state
    };
    assert_eq!(state().await, State::Stopped);
    for _ in 0..2 {
        cloud.restart(&machine.wanted.owner).await.unwrap();
        stage.clock.advance(ROUND * 4);
        assert_eq!(state().await, State::Running);
    }
    let nobody = Machine::new("u2").wanted.owner;
    let refused = cloud.restart(&nobody).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::NotFound);
    assert_eq!(stage.fake.journal().made("vm"), 1);
}

/// Somebody else uses up what the principal may ask.
#[tokio::test]
async fn looking_stops_before_the_bucket_is_empty() {
    let stage = Stage::new().await;
    let mut machine = Machine::new("u1");
    until_running(&stage, &mut machine, false).await.unwrap();
    stage.fake.contents().behaviour.reads = 40;
    let cloud = stage.cloud();
    stage.clock.advance(ROUND);
    let mut kinds = Vec::new();
    for _ in 0..60 {
        if let Err(refused) = cloud.describe(&machine.subject()).await {
            kinds.push(refused.code);
        }
    }
    assert!(kinds.iter().all(|code| code == "own_budget"), "{kinds:?}");
    assert!(kinds.len() > 50, "{}", kinds.len());
    stage.fake.contents().behaviour.reads = 250;
    stage.clock.advance(ROUND);
    until_gone(&stage, &mut machine, false).await.unwrap();
    check(&stage.fake.journal(), "a bucket that is nearly empty");
}
