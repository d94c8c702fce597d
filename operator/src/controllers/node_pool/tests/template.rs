//! What replaces the machines of a pool.

use api::tenant_cluster::{NodeAuthorityTurn, NodesOfBefore, RotationPhase, RotationStatus};

use super::*;
use crate::controllers::stored::stored;
use crate::rotation::kubelets;

#[test]
fn changed_kubelet_rolls_and_new_machines_have_it() {
    let mut world = World::running(2, &json!({}));
    let before = world.live();
    world.pool.spec.kubelet.max_pods = Some(50);
    world.comes_to_rest();
    assert!(world.live().iter().all(|name| !before.contains(name)));
    let machines = world.machines.iter();
    let pods: Vec<_> = machines.map(|m| m.spec.kubelet.max_pods).collect();
    assert_eq!(pods, [Some(50), Some(50)]);
}

/// The second generation of `client-ca` signs, since now.
fn rotated(world: &mut World, nodes: NodesOfBefore, hold: bool) {
    let cluster = world.cluster.as_mut().unwrap();
    cluster.spec.rotation.client_ca = Some(NodeAuthorityTurn {
        generation: 2,
        hold,
        nodes,
        ..NodeAuthorityTurn::default()
    });
    cluster.status.as_mut().unwrap().rotation = vec![RotationStatus {
        name: "clientCA".to_owned(),
        generation: 2,
        signs: 2,
        believed: vec![1, 2],
        signed_until: Some(world.now.to_string()),
        ..RotationStatus::default()
    }];
}

#[test]
fn machines_of_before_a_rotation_are_replaced_once_where_that_is_asked_for() {
    let mut world = World::running(2, &json!({}));
    let before = world.live();
    world.later(60);
    rotated(&mut world, NodesOfBefore::Wait, false);
    world.comes_to_rest();
    assert_eq!(world.live(), before, "they are waited for");
    rotated(&mut world, NodesOfBefore::Replace, true);
    world.comes_to_rest();
    assert_eq!(world.live(), before, "it is held");
    rotated(&mut world, NodesOfBefore::Replace, false);
    // What is made within that second is told by nothing from what was there.
    world.later(1);
    world.comes_to_rest();
    let after = world.live();
    assert!(after.iter().all(|name| !before.contains(name)), "{after:?}");
    assert_eq!((after.len(), world.ready()), (2, 2));
    let writes = world.writes;
    world.settle();
    assert_eq!((world.live(), world.writes), (after, writes));
}

/// What the Machine's reconciler says of telling its kubelet.
fn told(world: &mut World, name: &str, phase: Option<&str>) {
    let now = stored(&Time(world.now));
    let since = kubelets::renewed_before(world.cluster.as_ref().unwrap());
    let since = since.map(|since| since.to_string());
    let status = world.machine(name).status.get_or_insert_default();
    status.renewal = phase
        .map(|phase| read(json!({ "since": since, "attempt": 2, "begun": now, "phase": phase })));
    if phase.is_none() {
        status.renewed = Some(now);
    }
}

/// Who has a turn and was not told.
fn turns(world: &World) -> Vec<String> {
    let annotation = names::ANNOTATION_RENEW_KUBELET;
    let has = |machine: &&Machine| {
        let status = machine.status.as_ref();
        let is_told = status.is_some_and(|status| status.renewed.is_some());
        machine.annotations().contains_key(annotation) && !is_told
    };
    let machines = world.machines.iter().filter(has);
    machines.map(ResourceExt::name_any).collect()
}

fn in_place(world: &mut World) {
    for name in world.live() {
        world
            .machine(&name)
            .status
            .get_or_insert_default()
            .node_name = Some(name.clone());
    }
    world.later(60);
    rotated(world, NodesOfBefore::InPlace, false);
    let cluster = world.cluster.as_mut().unwrap();
    cluster.status.as_mut().unwrap().rotation[0].phase = RotationPhase::Draining;
    world.later(1);
}

#[test]
fn kubelets_are_told_in_place_one_by_one_and_then_a_tenth_and_no_machine_is_replaced() {
    let mut world = World::running(20, &json!({}));
    let before = world.live();
    in_place(&mut world);
    world.settle();
    let first = turns(&world);
    assert_eq!(first.len(), 1);
    world.settle();
    assert_eq!(turns(&world), first, "a turn that was given stays");
    world.later(1);
    told(&mut world, &first[0], None);
    world.settle();
    assert_eq!(turns(&world).len(), 2);
    for _ in 0..20 {
        for name in turns(&world) {
            told(&mut world, &name, None);
        }
        world.settle();
        assert!(turns(&world).len() <= 2);
    }
    assert!(turns(&world).is_empty());
    assert_eq!(world.live(), before);
    let writes = world.writes;
    world.settle();
    assert_eq!(world.writes, writes);
}

#[test]
fn node_that_is_not_ready_waits_and_holds_up_nobody() {
    let mut world = World::running(3, &json!({}));
    in_place(&mut world);
    let live = world.live();
    world.says(&live[0], MachinePhase::Running, Some(false));
    for _ in 0..4 {
        world.settle();
        for name in turns(&world) {
            assert_ne!(name, live[0]);
            told(&mut world, &name, None);
        }
    }
    world.settle();
    assert!(turns(&world).is_empty());
    world.says(&live[0], MachinePhase::Running, Some(true));
    world.settle();
    assert_eq!(turns(&world), [live[0].clone()]);
}

#[test]
fn machine_whose_kubelet_could_not_be_told_is_replaced_and_nobody_else() {
    let mut world = World::running(3, &json!({}));
    in_place(&mut world);
    world.settle();
    let before = world.live();
    let given_up = turns(&world);
    told(&mut world, &given_up[0], Some("GivenUp"));
    for _ in 0..8 {
        world.settle();
        world.all_ready();
        world.bury();
    }
    let after = world.live();
    let gone: Vec<_> = before.iter().filter(|name| !after.contains(name)).collect();
    assert_eq!(gone, [&given_up[0]]);
    assert_eq!(turns(&world).len(), 1, "the next one has its turn");
}

#[test]
fn nobody_has_a_turn_before_the_new_one_signs_alone_or_where_it_is_held() {
    for (phase, hold) in [
        (RotationPhase::Switching, false),
        (RotationPhase::Draining, true),
    ] {
        let mut world = World::running(2, &json!({}));
        in_place(&mut world);
        rotated(&mut world, NodesOfBefore::InPlace, hold);
        let cluster = world.cluster.as_mut().unwrap();
        cluster.status.as_mut().unwrap().rotation[0].phase = phase;
        world.settle();
        assert!(turns(&world).is_empty(), "{phase:?}");
    }
}
