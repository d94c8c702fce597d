//! What replaces the machines of a pool.

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
