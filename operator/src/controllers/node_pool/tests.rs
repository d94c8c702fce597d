//! Scenarios of the plan, and in [`laws`] what holds in any life of a pool.
//!
//! Invariant: a test says what is to happen and looks at Machines, never at a plan's insides.
//! Long because each scenario of a pool's own is told here; others have files below.

use std::sync::Arc;

use api::machine::MachinePhase;
use api::{ConditionType, Machine, Reason, names, set_condition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::observed::is_owned;
use world::{POOL, World, cluster, read};

mod adoption;
mod autoscaling;
mod budget;
mod capacity;
mod fields;
mod laws;
mod locations;
mod outage;
mod quotas;
mod ranges;
mod release;
mod template;
mod world;

fn is(type_: (String, String), status: &str, reason: &str) -> bool {
    type_ == (status.to_owned(), reason.to_owned())
}

#[test]
fn creation_settles_and_then_writes_nothing() {
    let mut world = World::running(3, &json!({}));
    assert_eq!((world.live().len(), world.ready()), (3, 3));
    assert!(is(world.condition("Ready"), "True", "NodesReady"));
    assert!(is(world.condition("Progressing"), "False", "AsDesired"));
    let before = world.writes;
    for _ in 0..20 {
        world.settle();
    }
    assert_eq!(world.writes, before);
}

#[test]
fn crash_after_any_write_ends_with_as_many_machines() {
    for cut in 0..8 {
        let mut world = World::new(4, &json!({}));
        let _ = world.reconcile(&mut cut.clone());
        world.comes_to_rest();
        assert_eq!(world.live().len(), 4, "cut after write {cut}");
        world.pool.spec.replicas = 1;
        let _ = world.reconcile(&mut cut.clone());
        world.comes_to_rest();
        assert_eq!(world.live().len(), 1, "cut after write {cut}");
        world.pool.spec.version = Some("1.34.4".into());
        world.pool.spec.replicas = 3;
        let _ = world.reconcile(&mut cut.clone());
        world.comes_to_rest();
        assert_eq!(world.pool.status.clone().unwrap().updated_replicas, 3);
        assert_eq!(world.live().len(), 3, "cut after write {cut}");
        world.pool.metadata.deletion_timestamp = Some(Time(world.now));
        let _ = world.reconcile(&mut cut.clone());
        while !world.gone {
            world.bury();
            world.settle();
        }
        assert!(world.machines.is_empty());
    }
}

#[test]
fn names_are_never_used_twice_not_even_after_scaling_to_zero() {
    let mut world = World::running(2, &json!({}));
    for _ in 0..5 {
        world.pool.spec.replicas = 0;
        world.comes_to_rest();
        assert!(world.live().is_empty());
        assert!(is(world.condition("Ready"), "True", "NodesReady"));
        world.pool.spec.replicas = 2;
        world.comes_to_rest();
    }
    assert_eq!(world.names.len(), 12);
}

#[test]
fn machines_of_others_are_neither_counted_nor_touched() {
    let mut world = World::new(1, &json!({}));
    let mut foreign = World::running(3, &json!({})).machines;
    for (n, machine) in foreign.iter_mut().enumerate() {
        // The same label and the same names, another owner, or none.
        machine.metadata.owner_references = match n {
            0 => None,
            1 => Some(vec![]),
            _ => Some(vec![read(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "controller": true,
            }))]),
        };
    }
    world.machines = foreign.clone();
    world.comes_to_rest();
    assert_eq!(world.machines.len(), 4);
    assert_eq!(world.machines[..3], foreign);
    assert!(is_owned(&world.machines[3], POOL));
    assert_eq!(world.names.len(), 1, "a name that is taken was skipped");
}

#[test]
fn rollout_keeps_what_it_promises() {
    for (spec, most, least) in [
        (json!({}), 4, 3),
        (
            json!({ "rollout": { "maxSurge": 0, "maxUnavailable": 1 } }),
            3,
            2,
        ),
        (
            json!({ "rollout": { "maxSurge": "50%", "maxUnavailable": 1 } }),
            5,
            2,
        ),
    ] {
        let mut world = World::running(3, &spec);
        let old = world.live();
        world
            .cluster
            .as_mut()
            .unwrap()
            .status
            .as_mut()
            .unwrap()
            .version = Some("1.35.9".into());
        for _ in 0..10 {
            world.settle();
            // One that goes counts, too: its virtual machine has its place until it is gone.
            assert!(
                world.machines.len() <= most && world.ready() >= least,
                "{spec}"
            );
            world.bury();
            world.all_ready();
        }
        world.settle();
        assert!(world.live().iter().all(|name| !old.contains(name)));
        assert_eq!(world.live().len(), 3);
        assert_eq!(
            world.pool.status.clone().unwrap().version.as_deref(),
            Some("1.35.9")
        );
        assert!(is(world.condition("Progressing"), "False", "AsDesired"));
    }
}

#[test]
fn a_rollout_waits_for_who_goes_but_not_for_ever() {
    let mut world = World::running(
        3,
        &json!({ "rollout": { "maxSurge": 0, "maxUnavailable": 1 } }),
    );
    let status = world.cluster.as_mut().unwrap().status.as_mut().unwrap();
    status.version = Some("1.35.9".into());
    world.settle();
    assert_eq!((world.going().len(), world.live().len()), (1, 2));
    assert!(is(world.condition("Progressing"), "True", "RollingOut"));
    let wait = world.plan().requeue_after.unwrap();
    assert!(
        wait.as_secs() >= 15 * 60 && wait.as_secs() < 16 * 60,
        "{wait:?}"
    );
    world.later(14);
    world.settle();
    assert_eq!((world.going().len(), world.live().len()), (1, 2));
    world.later(2);
    world.settle();
    assert_eq!((world.going().len(), world.live().len()), (1, 3));
}

#[test]
fn changed_template_rolls_and_changed_labels_do_not() {
    let mut world = World::running(2, &json!({}));
    let before = world.live();
    world.pool.spec.labels.insert("a".into(), "b".into());
    world.pool.spec.drain_timeout = "1m".into();
    world.comes_to_rest();
    assert_eq!(world.live(), before);
    assert!(
        world
            .machines
            .iter()
            .all(|m| m.spec.drain_timeout.0 == "1m")
    );
    let kubevirt = world
        .pool
        .spec
        .provider
        .as_mut()
        .unwrap()
        .kubevirt
        .as_mut()
        .unwrap();
    kubevirt.cpu = 8;
    world.comes_to_rest();
    assert!(world.live().iter().all(|name| !before.contains(name)));
    assert!(
        world
            .machines
            .iter()
            .all(|m| m.spec.labels.contains_key("a"))
    );
}

#[test]
fn machines_that_drain_follow_a_shorter_time_for_it() {
    for whole_pool in [false, true] {
        let mut world = World::running(2, &json!({}));
        if whole_pool {
            world.pool.metadata.deletion_timestamp = Some(Time(world.now));
        } else {
            world.pool.spec.replicas = 1;
        }
        world.settle();
        let going = world.going();
        assert!(!going.is_empty());
        world.pool.spec.drain_timeout = "5s".into();
        world.settle();
        let is_going = |m: &&Machine| going.contains(&m.name_any());
        let mut machines = world.machines.iter().filter(is_going);
        assert!(machines.all(|m| m.spec.drain_timeout.0 == "5s"));
        assert!(world.plan().is_settled());
    }
}

#[test]
fn version_that_the_control_plane_cannot_have_is_refused_and_everything_stays() {
    for (version, reason) in [
        ("1.36.0", "VersionNewerThanControlPlane"),
        ("1.31.9", "VersionTooOld"),
    ] {
        let mut world = World::running(2, &json!({}));
        let before = world.live();
        world.pool.spec.version = Some(version.into());
        world.pool.spec.replicas = 5;
        world.settle();
        assert_eq!(world.live(), before);
        assert!(is(world.condition("Degraded"), "True", reason), "{version}");
        world.pool.spec.version = Some("1.32.0".into());
        world.comes_to_rest();
        assert_eq!(world.live().len(), 5);
        assert!(is(world.condition("Degraded"), "False", "AsExpected"));
    }
}

#[test]
fn scaling_down_takes_the_named_one_then_who_is_not_ready_then_the_oldest() {
    let mut world = World::running(4, &json!({}));
    world.later(1);
    world.pool.spec.replicas = 5;
    world.comes_to_rest();
    let names = world.live();
    world.says(&names[2], MachinePhase::Running, Some(false));
    let annotation = names::ANNOTATION_DELETE_MACHINE.to_owned();
    let machine = world.machine(&names[3]);
    machine.annotations_mut().insert(annotation, "yes".into());
    world.settle();
    assert!(
        world.going().is_empty(),
        "the annotation alone takes nobody"
    );
    for (replicas, victim) in [(4, 3), (3, 2), (2, 0)] {
        world.pool.spec.replicas = replicas;
        world.settle();
        assert_eq!(world.going(), [names[victim].clone()]);
        world.bury();
    }
}

#[test]
fn annotation_on_the_pool_names_victims_in_the_same_write_as_the_size() {
    let mut world = World::running(4, &json!({}));
    let names = world.live();
    world.pool.spec.replicas = 2;
    let text = format!("{}, {},no-such-machine", names[1], names[3]);
    let annotation = names::ANNOTATION_DELETE_MACHINE.to_owned();
    world.pool.annotations_mut().insert(annotation, text);
    world.settle();
    let mut wanted = vec![names[1].clone(), names[3].clone()];
    wanted.sort();
    assert_eq!(world.going(), wanted);
    world.comes_to_rest();
    assert_eq!(world.live().len(), 2);
}

#[test]
fn machine_that_does_not_join_in_time_is_replaced() {
    let mut world = World::new(3, &json!({}));
    world.settle();
    let names = world.live();
    for name in &names[..2] {
        world.says(name, MachinePhase::Running, Some(true));
    }
    world.settle();
    world.later(9);
    world.settle();
    assert!(world.going().is_empty());
    assert!(world.plan().requeue_after.unwrap().as_secs() <= 61);
    world.later(2);
    world.settle();
    assert_eq!(world.going(), [names[2].clone()]);
    assert_eq!(world.live().len(), 3);
}

#[test]
fn time_in_which_the_api_does_not_answer_does_not_count() {
    let mut world = World::running(3, &json!({}));
    world.pool.spec.replicas = 4;
    world.settle();
    let silent = world.live()[0].clone();
    world.says(&silent, MachinePhase::Running, Some(false));
    let says = |world: &mut World, ready: bool, reason: Reason| {
        let now = Time(world.now);
        let status = world.cluster.as_mut().unwrap().status.as_mut().unwrap();
        let (list, type_) = (&mut status.conditions, ConditionType::Ready);
        set_condition(list, type_, ready.into(), reason, "", None, now);
    };
    says(&mut world, false, Reason::ApiUnreachable);
    world.later(60);
    world.settle();
    assert!(world.going().is_empty());
    says(&mut world, true, Reason::Answering);
    world.later(9);
    world.settle();
    assert!(world.going().is_empty());
    world.later(2);
    world.settle();
    assert_eq!(
        world.going().len(),
        2,
        "the silent one and the one that did not join"
    );
}

#[test]
fn broken_addons_keep_no_machine_from_being_replaced() {
    let mut world = World::running(3, &json!({}));
    let (silent, now) = (world.live()[0].clone(), Time(world.now));
    world.says(&silent, MachinePhase::Running, Some(false));
    let status = world.cluster.as_mut().unwrap().status.as_mut().unwrap();
    let (list, type_) = (&mut status.conditions, ConditionType::Ready);
    set_condition(
        list,
        type_,
        false.into(),
        Reason::AddonsNotReady,
        "",
        None,
        now,
    );
    world.later(11);
    world.settle();
    assert_eq!(world.going(), [silent]);
}

#[test]
fn silent_nodes_are_replaced_a_share_at_a_time() {
    let mut world = World::running(5, &json!({ "health": { "maxReplaced": "40%" } }));
    for name in &world.live()[..4] {
        world.says(name, MachinePhase::Running, Some(false));
    }
    world.later(11);
    world.settle();
    assert_eq!(world.going().len(), 2);
    assert!(is(world.condition("Degraded"), "True", "TooManyUnhealthy"));
    world.bury();
    world.settle();
    assert_eq!(world.going().len(), 0, "the replacements are on their way");
    let fresh: Vec<_> = world.live()[3..].to_vec();
    for name in &fresh {
        world.says(name, MachinePhase::Running, Some(true));
    }
    world.settle();
    assert_eq!(world.going().len(), 2);
    world.comes_to_rest();
    assert!(is(world.condition("Degraded"), "False", "AsExpected"));
}

#[test]
fn nodes_that_went_silent_together_are_left_alone() {
    let mut world = World::running(3, &json!({}));
    for name in world.live() {
        world.says(&name, MachinePhase::Running, Some(false));
        world.later(1);
    }
    world.later(60);
    world.settle();
    assert!(world.going().is_empty());
    assert!(is(world.condition("Degraded"), "True", "AllNodesSilent"));
    // A node of another pool of the same tenant cluster answers: it is not the network.
    let mut other = World::running(1, &json!({})).machines.remove(0);
    other.metadata.owner_references = None;
    other.metadata.name = Some("other-12345".into());
    world.others = vec![Arc::new(other)];
    world.settle();
    assert_eq!(world.going().len(), 2);
}

#[test]
fn nodes_that_went_silent_one_after_the_other_are_replaced_and_a_single_one_too() {
    let mut world = World::running(2, &json!({}));
    for name in world.live() {
        world.says(&name, MachinePhase::Running, Some(false));
        world.later(60);
    }
    world.settle();
    assert_eq!(world.going().len(), 1, "40% of two, rounded up, is one");
    let mut world = World::running(1, &json!({}));
    let name = world.live()[0].clone();
    world.says(&name, MachinePhase::Running, Some(false));
    world.later(11);
    world.settle();
    assert_eq!(world.going(), [name]);
}

#[test]
fn machine_that_the_provider_lost_is_replaced_at_once_unless_health_is_off() {
    for (share, going) in [(json!("40%"), 1), (json!(0), 0)] {
        let mut world = World::running(3, &json!({ "health": { "maxReplaced": share } }));
        let name = world.live()[1].clone();
        world.says(&name, MachinePhase::Failed, Some(false));
        world.settle();
        assert_eq!(world.going().len(), going);
    }
}

#[test]
fn pool_of_an_unknown_cluster_says_so_and_begins_when_it_appears() {
    let mut world = World::new(2, &json!({}));
    let cluster = world.cluster.take();
    world.settle();
    assert!(is(world.condition("Degraded"), "True", "ClusterNotFound"));
    assert!(world.machines.is_empty());
    world.cluster = cluster;
    world
        .cluster
        .as_mut()
        .unwrap()
        .status
        .as_mut()
        .unwrap()
        .version = None;
    world.settle();
    assert!(is(world.condition("Ready"), "False", "WaitingForCluster"));
    world
        .cluster
        .as_mut()
        .unwrap()
        .status
        .as_mut()
        .unwrap()
        .version = Some("1.35.4".into());
    world.comes_to_rest();
    assert_eq!(world.live().len(), 2);
    assert!(is(world.condition("Degraded"), "False", "AsExpected"));
}

#[test]
fn machines_go_with_their_cluster_and_the_pool_stays() {
    let mut world = World::running(2, &json!({}));
    let now = Time(world.now);
    world.cluster.as_mut().unwrap().metadata.deletion_timestamp = Some(now);
    world.settle();
    assert_eq!(world.going().len(), 2);
    world.bury();
    world.cluster = None;
    world.settle();
    assert!(is(world.condition("Degraded"), "True", "ClusterNotFound"));
    assert!(!world.gone);
    // Another tenant cluster of the same name.
    world.cluster = Some(cluster());
    world.comes_to_rest();
    let old = world.live();
    let mut newer = cluster();
    newer.metadata.uid = Some("another".into());
    world.cluster = Some(newer);
    world.settle();
    assert_eq!(world.going().len(), 2);
    assert!(world.live().iter().all(|name| !old.contains(name)));
}

#[test]
fn deleted_pool_waits_for_its_machines_unless_they_are_to_be_orphaned() {
    let mut world = World::running(2, &json!({}));
    world.pool.metadata.deletion_timestamp = Some(Time(world.now));
    let mut orphaned = world.clone();
    orphaned
        .pool
        .metadata
        .finalizers
        .as_mut()
        .unwrap()
        .push("orphan".into());
    orphaned.settle();
    assert!(orphaned.going().is_empty() && !orphaned.gone);
    world.settle();
    assert_eq!((world.going().len(), world.gone), (2, false));
    world.bury();
    world.settle();
    assert!(world.gone);
}

#[test]
fn paused_cluster_pauses_its_pools() {
    let mut world = World::running(2, &json!({}));
    world.cluster.as_mut().unwrap().spec.paused = true;
    world.pool.spec.replicas = 5;
    world.settle();
    assert_eq!(world.live().len(), 2);
    assert!(is(world.condition("Progressing"), "False", "Paused"));
}
