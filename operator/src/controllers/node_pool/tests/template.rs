//! What replaces the machines of a pool.

use api::tenant_cluster::{NodeAuthorityTurn, NodesOfBefore, RotationStatus};

use super::*;

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
    world.comes_to_rest();
    let after = world.live();
    assert!(after.iter().all(|name| !before.contains(name)), "{after:?}");
    assert_eq!((after.len(), world.ready()), (2, 2));
    let writes = world.writes;
    world.settle();
    assert_eq!((world.live(), world.writes), (after, writes));
}
