//! The volumes of all members of etcd are lost.
//!
//! Invariant: what may still be there is waited for; what is gone is restored where the user said so, once.

use super::*;

/// One of so many members whose claims were bound, with a backup that was read again.
fn backed_up(members: i32, policy: &str) -> World {
    let mut world = ready(json!({
        "version": "1.35.4", "etcd": { "replicas": members },
        "backup": { "target": "main", "onVolumeLoss": policy },
    }));
    for number in 0..members {
        let claim = world.objects.get_mut(&claim(number)).unwrap();
        claim["spec"]["volumeName"] = json!(format!("pv-{number}"));
        let volume = json!({ "kind": "PersistentVolume" });
        world.objects.insert(pv(number), volume);
    }
    world.settle();
    let status = world.cluster.status.as_mut().unwrap();
    let etcd = status.etcd.as_ref().unwrap();
    assert_eq!(etcd.members[0].volume.as_deref(), Some("pv-0"));
    status.backup = Some(api::tenant_cluster::BackupStatus {
        verified: Some("2026-11-21T11:00:00Z".to_owned()),
        ..api::tenant_cluster::BackupStatus::default()
    });
    world
}

fn claim(number: i32) -> Key {
    Key::new("PersistentVolumeClaim", NS, &format!("data-etcd-{number}"))
}

fn pv(number: i32) -> Key {
    Key::new("PersistentVolume", "", &format!("pv-{number}"))
}

fn lose(world: &mut World, number: i32) {
    world.objects.remove(&claim(number));
    world.objects.remove(&pv(number));
}

fn restores(world: &World) -> Vec<&Value> {
    let all = world
        .objects
        .iter()
        .filter(|(key, _)| key.kind == "Restore");
    all.map(|(_, restore)| restore).collect()
}

fn told(world: &World) -> String {
    let conditions = world.cluster.status.iter().flat_map(|s| &s.conditions);
    let mut degraded = conditions.filter(|c| c.type_ == "Degraded");
    degraded
        .next()
        .map(|c| c.message.clone())
        .unwrap_or_default()
}

#[test]
fn loss_of_all_volumes_is_restored_once_whichever_write_was_the_last() {
    for members in [1, 3] {
        for cut in 0..6 {
            let mut world = backed_up(members, "Restore");
            for number in 0..members {
                lose(&mut world, number);
            }
            world.reconcile(&mut cut.clone());
            world.settle();
            let made = restores(&world);
            assert_eq!(made.len(), 1, "{members}, cut after {cut}");
            assert_eq!(made[0]["spec"], json!({ "clusterName": "demo" }));
            let lost = made[0]["metadata"]["annotations"]["covey.dev/lost-etcd"].as_str();
            let etcd = world
                .cluster
                .status
                .as_ref()
                .unwrap()
                .etcd
                .as_ref()
                .unwrap();
            assert_eq!(lost, etcd.cluster_id.as_deref());
            assert_eq!(etcd.restored_for.len(), usize::try_from(members).unwrap());
            assert!(
                told(&world).contains("a Restore is asked for"),
                "{}",
                told(&world)
            );
            // It comes to nothing, or somebody deletes it: people decide.
            for is_deleted in [false, true] {
                let mut world = world.clone();
                for (_, restore) in world
                    .objects
                    .iter_mut()
                    .filter(|(k, _)| k.kind == "Restore")
                {
                    restore["over"] = json!(true);
                }
                if is_deleted {
                    world.objects.retain(|key, _| key.kind != "Restore");
                }
                world.settle();
                assert_eq!(restores(&world).len(), usize::from(!is_deleted));
                assert!(told(&world).contains("did not help"), "{}", told(&world));
            }
        }
    }
}

#[test]
fn nothing_is_restored_where_people_decide_or_a_volume_may_be_there() {
    let is_held = |mut world: World, words: &str| {
        world.settle();
        assert_eq!(restores(&world), [&Value::Null; 0]);
        assert!(told(&world).contains(words), "{words}: {}", told(&world));
    };
    let all_lost = |policy| {
        let mut world = backed_up(3, policy);
        (0..3).for_each(|number| lose(&mut world, number));
        world
    };
    is_held(all_lost("Hold"), "onVolumeLoss is Hold");
    is_held(
        all_lost("Hold"),
        "the newest change in the backup came at 2026-11-21T11:58:00Z",
    );
    let mut world = all_lost("Restore");
    world.cluster.status.as_mut().unwrap().backup = None;
    is_held(world, "no full snapshot is known to be whole");
    // Two of three are gone, and one is left.
    let mut world = backed_up(3, "Hold");
    lose(&mut world, 0);
    lose(&mut world, 2);
    is_held(world, "create a Restore with spec.survivor: etcd-1");
    // The claims are gone, and a volume was kept.
    let mut world = all_lost("Restore");
    world.objects.insert(pv(2), json!({}));
    is_held(world, "PersistentVolume pv-2 of etcd-2 is left");
    let mut world = all_lost("Restore");
    world.objects.insert(pv(2), json!({ "hidden": true }));
    is_held(
        world,
        "it is not known whether PersistentVolume pv-2 of etcd-2 is gone",
    );
    // Nobody knows which volume it had.
    let mut world = all_lost("Restore");
    let etcd = world
        .cluster
        .status
        .as_mut()
        .unwrap()
        .etcd
        .as_mut()
        .unwrap();
    etcd.members[1].volume = None;
    is_held(
        world,
        "it is not known whether the volume of etcd-1 is gone",
    );
}

#[test]
fn what_is_left_of_one_member_goes_first_where_the_others_are_gone_whichever_write_was_the_last() {
    for cut in 0..6 {
        let mut world = backed_up(3, "Restore");
        lose(&mut world, 0);
        lose(&mut world, 2);
        world.reconcile(&mut cut.clone());
        world.settle();
        let made = restores(&world);
        assert_eq!(made.len(), 1, "cut after {cut}");
        let wanted = json!({ "clusterName": "demo", "survivor": "etcd-1" });
        assert_eq!(made[0]["spec"], wanted);
        let etcd = world.cluster.status.as_ref().unwrap().etcd.as_ref();
        assert_eq!(etcd.unwrap().restored_for.len(), 2);
        for (_, restore) in world
            .objects
            .iter_mut()
            .filter(|(k, _)| k.kind == "Restore")
        {
            restore["over"] = json!(true);
        }
        world.settle();
        assert_eq!(restores(&world).len(), 1);
        assert!(told(&world).contains("did not help"), "{}", told(&world));
    }
}

#[test]
fn restore_that_somebody_asked_for_is_the_only_one() {
    let mut world = backed_up(1, "Restore");
    lose(&mut world, 0);
    let theirs = Key::new("Restore", "team-a", "theirs");
    world
        .objects
        .insert(theirs, json!({ "spec": { "clusterName": "demo" } }));
    world.settle();
    assert_eq!(restores(&world).len(), 1);
}
