//! Disks of etcd's members that are slow, and members whose data is not what the others have.
//!
//! Invariant: nobody is replaced for what is not known of the two others; what is told stays while nothing changes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::etcd::{reason, repair, with_a_lost_member};
use super::*;
use crate::controllers::tenant_cluster::observed::{Observed, component_pods};
use crate::etcd_disks::speed::{Disks, Figures, Speed};
use crate::etcd_replacement::step::Step;
use crate::tenant_session::etcd::answers::DataHash;

fn slow(since: Timestamp, millis: u64) -> Speed {
    Speed::Slow {
        since,
        figures: Figures {
            fsync: Some(Duration::from_millis(millis)),
            commit: Some(Duration::from_millis(130)),
        },
    }
}

fn disks(speeds: [Speed; 3]) -> Disks {
    let names = ["etcd-0", "etcd-1", "etcd-2"].map(str::to_owned);
    Disks {
        speeds: names.into_iter().zip(speeds).collect(),
        moved: None,
    }
}

fn degraded(world: &World) -> (String, String) {
    let conditions = &world.cluster.status.as_ref().unwrap().conditions;
    let found = conditions.iter().find(|c| c.type_ == "Degraded").unwrap();
    (found.reason.clone(), found.message.clone())
}

#[test]
fn slow_disk_is_told_with_its_figures_and_another_member_leads() {
    let mut world = ready(large());
    world.leads = 1;
    world.disks = disks([Speed::Fast, slow(world.now, 268), Speed::Fast]);
    world.settle();
    assert_ne!(world.leads, 1);
    assert_eq!(world.condition("Ready").0, "True");
    let (reason, message) = degraded(&world);
    assert_eq!(reason, "SlowDisk");
    let start = "the disk of etcd-1 is slow: of a hundred writes the slowest take 260 ms to the log and 130 ms to the \
                 database";
    assert!(message.starts_with(start), "{message}");
    let next = plan(&world.observe(), &world.settings, world.now);
    assert!(next.requeue_after.unwrap() <= Duration::from_mins(5));
    // Nothing is written while it is as slow, or not known.
    let (writes, leads) = (world.writes, world.leads);
    world.disks = disks([Speed::Fast, slow(world.now, 512), Speed::Fast]);
    world.settle();
    world.disks = Disks::default();
    world.settle();
    assert_eq!((world.writes, world.leads), (writes, leads));
    assert_eq!(degraded(&world).1, message);
    world.disks = disks([Speed::Fast; 3]);
    world.settle();
    assert_eq!(degraded(&world).0, "AsExpected");
}

#[test]
fn disks_that_are_all_slow_are_told_and_nobody_is_touched() {
    for spec in [minimal(), large()] {
        let mut world = ready(spec);
        let long_ago = world.now - SignedDuration::from_hours(2);
        world.disks = disks([slow(long_ago, 300); 3]);
        if world.cluster.spec.etcd.replicas == 1 {
            world.disks.speeds.retain(|name, _| name == "etcd-0");
        }
        let leads = world.leads;
        world.settle();
        assert_eq!(degraded(&world).0, "SlowDisk");
        assert_eq!(world.leads, leads);
        let etcd = world.cluster.status.as_ref().unwrap().etcd.as_ref();
        assert_eq!(etcd.unwrap().replacing, None);
    }
}

/// Three members that have served for an hour, and all that is to be known of them.
fn three_that_serve() -> (World, Observed) {
    let (world, mut observed) = with_a_lost_member();
    let of_status = &observed.cluster.status.as_ref().unwrap().etcd;
    let uid = of_status.as_ref().unwrap().members[1].volume_uid.clone();
    let claim = Key::new("PersistentVolumeClaim", NS, "data-etcd-1");
    observed.objects.get_mut(&claim).unwrap()["metadata"]["uid"] = json!(uid);
    let set = Key::new("StatefulSet", NS, "etcd");
    observed.objects.get_mut(&set).unwrap()["status"]["readyReplicas"] = json!(3);
    let pod = Key::new("Pod", NS, "etcd-1");
    observed.objects.get_mut(&pod).unwrap()["status"]["conditions"] = json!([{
        "type": "Ready", "status": "True", "lastTransitionTime": now().to_string(),
    }]);
    observed.pods = Some(component_pods::of(&observed.objects));
    if let Etcd::Asked(answers) = &mut observed.etcd {
        let mut answer = world.member("etcd-1");
        answer.leader = Some(world.member("etcd-0").member_id);
        answers.insert("etcd-1".to_owned(), Ok(answer));
    }
    (world, observed)
}

#[test]
fn member_of_three_whose_disk_alone_is_slow_for_half_an_hour_is_replaced() {
    let (world, mut observed) = three_that_serve();
    let next = |observed: &Observed| plan(observed, &world.settings, world.now);
    let since = |minutes| slow(world.now - SignedDuration::from_mins(minutes), 300);
    assert_eq!(repair(&next(&observed)), None);
    observed.etcd_disks = disks([Speed::Fast, Speed::Fast, since(29)]);
    let waits = next(&observed);
    assert_eq!(repair(&waits), None);
    assert!(waits.requeue_after.unwrap() <= Duration::from_mins(1));
    observed.etcd_disks = disks([Speed::Fast, Speed::Unknown, since(31)]);
    assert_eq!(repair(&next(&observed)), None);
    observed.etcd_disks = disks([Speed::Fast, Speed::Fast, since(31)]);
    let begins = next(&observed);
    let Some(Step::Record(begun)) = repair(&begins) else {
        panic!("{:?}", repair(&begins));
    };
    assert_eq!(begun.replacing.as_ref().unwrap().member, "etcd-2");
    assert_eq!(reason(&begins, "Degraded"), "SlowDisk");
    assert_eq!(reason(&begins, "Progressing"), "ReplacingMember");
    let note = |observed: &mut Observed, etcd| {
        observed.cluster.status.as_mut().unwrap().etcd = Some(etcd);
    };
    note(&mut observed, begun);
    // It serves, and so is stopped first.
    let Some(Step::Record(noted)) = repair(&next(&observed)) else {
        panic!("it is not noted");
    };
    let pod_uid = noted.replacing.as_ref().unwrap().pod_uid.clone().unwrap();
    note(&mut observed, noted);
    let member = "etcd-2".to_owned();
    assert_eq!(
        repair(&next(&observed)),
        Some(Step::Restart { member, pod_uid })
    );
    let pod = observed.objects.get_mut(&Key::new("Pod", NS, "etcd-2"));
    pod.unwrap()["metadata"]["uid"] = json!("another");
    observed.pods = Some(component_pods::of(&observed.objects));
    let id = world.member("etcd-2").member_id;
    assert_eq!(repair(&next(&observed)), Some(Step::Remove { id }));
    // Nobody wants that.
    let (world, mut alone) = three_that_serve();
    alone.cluster.spec.etcd.auto_replace = false;
    alone.etcd_disks = disks([Speed::Fast, Speed::Fast, since(31)]);
    let told = plan(&alone, &world.settings, world.now);
    assert_eq!(repair(&told), None);
    assert_eq!(reason(&told, "Degraded"), "SlowDisk");
    let told = reason(&told, "Progressing");
    assert!(
        !["MemberLost", "ReplacingMember"].contains(&told.as_str()),
        "{told}"
    );
}

#[test]
fn member_that_does_not_start_for_its_data_is_replaced_only_while_the_others_have_the_same() {
    let (world, mut observed) = three_that_serve();
    let next = |observed: &Observed| plan(observed, &world.settings, world.now);
    let since = world.now - SignedDuration::from_mins(2);
    let words = json!({ "level": "fatal", "msg": "discovery failed",
        "error": "61 found data inconsistency with peers" });
    let pod = Key::new("Pod", NS, "etcd-1");
    let status = &mut observed.objects.get_mut(&pod).unwrap()["status"];
    status["conditions"] = json!([{ "type": "Ready", "status": "False",
        "lastTransitionTime": since.to_string() }]);
    status["containerStatuses"] = json!([{ "name": "etcd", "restartCount": 9,
        "state": { "waiting": { "reason": "CrashLoopBackOff" } },
        "lastState": { "terminated": { "exitCode": 1, "message": words.to_string() } } }]);
    observed.pods = Some(component_pods::of(&observed.objects));
    if let Etcd::Asked(answers) = &mut observed.etcd {
        answers.insert("etcd-1".to_owned(), Err("connection refused".to_owned()));
    }
    let hash = |hash| DataHash {
        hash,
        compacted: 3,
        revision: 7,
    };
    let hashes = |second: u32| {
        let hashes = [("etcd-0", hash(1)), ("etcd-2", hash(second))];
        let hashes = hashes.map(|(name, hash)| (name.to_owned(), hash));
        hashes.into_iter().collect()
    };
    assert_eq!(
        repair(&next(&observed)),
        None,
        "nothing is known of the others"
    );
    observed.etcd_listing.as_mut().unwrap().hashes = hashes(2);
    let held = next(&observed);
    assert_eq!(repair(&held), None);
    assert_eq!(reason(&held, "Degraded"), "Corrupt");
    observed.etcd_listing.as_mut().unwrap().hashes = hashes(1);
    let begins = next(&observed);
    let Some(Step::Record(begun)) = repair(&begins) else {
        panic!("{:?}", repair(&begins));
    };
    assert_eq!(begun.replacing.as_ref().unwrap().member, "etcd-1");
    assert_eq!(reason(&begins, "Degraded"), "MemberLost");
}
