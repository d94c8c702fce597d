//! The number of etcd's members changes.
//!
//! Invariant: who is asked has a vote, and who is taken away was asked by nobody any more.

use api::tenant_cluster::{EtcdMemberStatus, EtcdStatus};

use super::etcd::of_etcd;
use super::*;

fn known(world: &mut World) -> &mut EtcdStatus {
    let status = world.cluster.status.as_mut().unwrap();
    status.etcd.as_mut().unwrap()
}

/// etcd has as many members as are wanted, on volumes of the class that is wanted.
pub(super) fn play(world: &mut World) {
    // Not where what is wanted is refused.
    if is_misplaced(world) && members(world) == 3 {
        become_as_many(world, 3);
        world.settle();
        assert_eq!(servers(world), 3);
        assert_eq!(world.condition("Ready").0, "True");
        move_all(world);
    }
    become_as_many(world, world.cluster.spec.etcd.replicas);
}

fn is_misplaced(world: &World) -> bool {
    let claim = &world.objects[&Key::new("PersistentVolumeClaim", NS, "data-etcd-0")];
    let class = &world.cluster.spec.etcd.storage.storage_class_name;
    let is_another = |class: &String| claim["spec"]["storageClassName"] != class.as_str();
    class.as_ref().is_some_and(is_another)
}

/// Their claims and the StatefulSet are made anew; names give UIDs here, so that members are who they were.
fn move_all(world: &mut World) {
    let etcd = world.cluster.status.as_mut().unwrap().etcd.take();
    let is_moved = |key: &Key| {
        key.kind == "PersistentVolumeClaim" || (key.kind == "StatefulSet" && key.name == "etcd")
    };
    world.objects.retain(|key, _| !is_moved(key));
    world.settle();
    world.cluster.status.as_mut().unwrap().etcd = etcd;
    world.settle();
}

/// etcd has so many members; what was kept of others somebody deletes.
fn become_as_many(world: &mut World, wanted: i32) {
    let Some(etcd) = world.cluster.status.as_mut().and_then(|s| s.etcd.as_mut()) else {
        return;
    };
    let whose = |number: i32| format!("etcd-{number}");
    for number in (0..wanted).filter(|number| *number > 0) {
        if !etcd.members.iter().any(|m| m.name == whose(number)) {
            etcd.members.push(EtcdMemberStatus {
                name: whose(number),
                volume_uid: format!("uid-of-data-etcd-{number}"),
                id: Some(format!("6{number}")),
                started: true,
                ..etcd.members[0].clone()
            });
        }
    }
    for number in wanted..3 {
        etcd.members.retain(|m| m.name != whose(number));
        let claim = Key::new("PersistentVolumeClaim", NS, &format!("data-etcd-{number}"));
        world.objects.remove(&claim);
    }
}

fn servers(world: &World) -> usize {
    let control_plane = &world.objects[&Key::new("Deployment", NS, "control-plane")];
    let containers = control_plane["spec"]["template"]["spec"]["containers"].as_array();
    let args = containers
        .unwrap()
        .iter()
        .filter_map(|c| c["args"].as_array());
    let mut args = args.flatten().filter_map(Value::as_str);
    let servers = args.find_map(|arg| arg.strip_prefix("--etcd-servers="));
    servers.unwrap().split(',').count()
}

fn members(world: &World) -> Value {
    world.objects[&Key::new("StatefulSet", NS, "etcd")]["spec"]["replicas"].clone()
}

fn want(world: &mut World, replicas: i32) {
    world.cluster.spec.etcd.replicas = replicas;
    world.cluster.metadata.generation = Some(world.cluster.metadata.generation.unwrap() + 1);
    world.settle();
}

#[test]
fn members_that_are_added_are_asked_by_nobody_before_all_of_them_vote() {
    let mut world = ready(minimal());
    want(&mut world, 3);
    assert_eq!((members(&world), servers(&world)), (json!(3), 1));
    for number in 1..3 {
        let claim = Key::new("PersistentVolumeClaim", NS, &format!("data-etcd-{number}"));
        assert!(world.objects.contains_key(&claim));
    }
    // Those that there are are named to who joins.
    assert_eq!(
        of_etcd(&world, "initial-cluster"),
        "etcd-0=https://etcd-0:2380"
    );
    let etcd = known(&mut world);
    for number in 1..3 {
        etcd.members.push(EtcdMemberStatus {
            name: format!("etcd-{number}"),
            volume_uid: format!("uid-of-data-etcd-{number}"),
            id: Some(format!("6{number}")),
            started: true,
            learner: number == 2,
            ..etcd.members[0].clone()
        });
    }
    world.settle();
    assert_eq!(servers(&world), 1, "the last one has no vote");
    let etcd = known(&mut world);
    etcd.members[2].learner = false;
    world.settle();
    assert_eq!((members(&world), servers(&world)), (json!(3), 3));
    // One that is replaced is still asked.
    let etcd = known(&mut world);
    etcd.members[2].learner = true;
    world.settle();
    assert_eq!(servers(&world), 3);
}

#[test]
fn members_that_are_taken_away_are_asked_by_nobody_before_and_stay_until_then() {
    let mut world = ready(large());
    want(&mut world, 1);
    assert_eq!((members(&world), servers(&world)), (json!(3), 1));
    let service = |world: &World, number: i32| {
        let key = Key::new("Service", NS, &format!("etcd-{number}"));
        world.objects.contains_key(&key)
    };
    assert!(service(&world, 2));
    // One was removed.
    let etcd = known(&mut world);
    etcd.members.pop();
    world.settle();
    assert_eq!(members(&world), json!(2));
    assert!(service(&world, 1) && !service(&world, 2));
    let claim = Key::new("PersistentVolumeClaim", NS, "data-etcd-2");
    assert!(world.objects.contains_key(&claim), "it is kept");
    // And it is set back.
    want(&mut world, 3);
    assert_eq!(members(&world), json!(3));
}

#[test]
fn number_that_changes_before_etcd_was_seen_to_serve_makes_no_second_cluster() {
    let mut world = ready(minimal());
    world.cluster.status.as_mut().unwrap().etcd = None;
    want(&mut world, 3);
    assert_eq!(known(&mut world).members.len(), 1, "it began alone");
    assert_eq!(
        of_etcd(&world, "initial-cluster"),
        "etcd-0=https://etcd-0:2380"
    );
    let mut world = ready(large());
    world.cluster.status.as_mut().unwrap().etcd = None;
    want(&mut world, 1);
    assert_eq!(known(&mut world).members.len(), 3);
    assert_eq!((members(&world), servers(&world)), (json!(3), 1));
}

#[test]
fn last_member_keeps_its_pod_while_one_before_it_is_gone() {
    let mut world = ready(large());
    want(&mut world, 1);
    known(&mut world).members.remove(1);
    world.settle();
    assert_eq!(members(&world), json!(3), "pods are ended from the end on");
}

#[test]
fn members_are_asked_on_while_one_that_is_to_stay_is_replaced() {
    let mut world = ready(large());
    known(&mut world).members[0].learner = true;
    want(&mut world, 1);
    assert_eq!((members(&world), servers(&world)), (json!(3), 3));
    known(&mut world).members[0].learner = false;
    world.settle();
    assert_eq!((members(&world), servers(&world)), (json!(3), 1));
}

/// Whether it is one of three follows from its claim, so that it is known whatever was forgotten.
#[test]
fn single_member_is_one_of_three_while_its_claim_is_of_another_class() {
    let mut world = ready(minimal());
    world.settings.etcd_storage_classes = vec!["fast".to_owned()];
    world.cluster.spec.etcd.storage.storage_class_name = Some("fast".to_owned());
    want(&mut world, 1);
    assert_eq!((members(&world), servers(&world)), (json!(3), 1));
    let class = |world: &World, number: i32| {
        let claim = Key::new("PersistentVolumeClaim", NS, &format!("data-etcd-{number}"));
        world.objects[&claim]["spec"]["storageClassName"].clone()
    };
    let classes = [0, 1, 2].map(|number| class(&world, number));
    assert_eq!(classes, ["standard", "fast", "fast"]);
    play(&mut world);
    world.settle();
    assert_eq!((members(&world), servers(&world)), (json!(1), 1));
    assert_eq!(class(&world, 0), "fast");
}
