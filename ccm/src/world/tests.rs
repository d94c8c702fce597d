//! What watches and answers tell, in whichever order they come.

use futures::FutureExt as _;
use serde_json::json;

use super::*;

fn read<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// The node `a`, in this version.
fn node(version: &str, ready: &str) -> k8s_openapi::api::core::v1::Node {
    read(json!({
        "metadata": { "name": "a", "uid": "a", "resourceVersion": version },
        "spec": { "providerID": "kubevirt://a" },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    }))
}

/// A world with a load balancer, and a node that is not ready yet.
fn world() -> (World, Queue) {
    let queue = Queue::new();
    let world = World::new(Arc::default(), queue.clone());
    world.apply(Seen::Service(read(json!({
        "metadata": { "name": "web", "namespace": "default", "uid": "web", "resourceVersion": "1" },
        "spec": { "type": "LoadBalancer" },
    }))));
    let interface =
        json!({ "name": "default", "ipAddress": "10.5.0.1", "ipAddresses": ["10.5.0.1"] });
    world.apply(Seen::Instance(read(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": { "name": "a" }, "spec": {},
        "status": { "phase": "Running", "nodeName": "host", "interfaces": [interface] },
    }))));
    world.apply(Seen::Node(Box::new(node("2", "False"))));
    (world, queue)
}

/// Whether the node gets traffic.
fn ready(world: &World) -> bool {
    let targets = world.service("web").targets;
    let [target] = targets.as_slice() else {
        panic!("{targets:?}");
    };
    target.ready
}

/// Whether the Service is queued; afterwards nothing is.
fn woken(queue: &Queue) -> bool {
    let mut keys = Vec::new();
    while let Some(turn) = queue.next().now_or_never() {
        queue.done(&turn.key);
        keys.push(turn.key);
    }
    keys.contains(&Key::Service("web".to_owned()))
}

#[test]
fn what_an_answer_tells_first_is_not_lost() {
    let (world, queue) = world();
    assert!(woken(&queue) && !ready(&world));
    let answer = node("4", "True");
    world.learn_node(&Node::from(&answer));
    assert!(woken(&queue), "traffic goes elsewhere");
    assert!(ready(&world));
    // The events of both writes come late, and change nothing.
    for event in [node("3", "True"), answer] {
        world.apply(Seen::Node(Box::new(event)));
        assert!(!woken(&queue) && ready(&world));
    }
}

#[test]
fn an_answer_that_is_late_does_not_undo_what_a_watch_told() {
    let (world, queue) = world();
    world.apply(Seen::Node(Box::new(node("4", "True"))));
    assert!(woken(&queue));
    world.learn_node(&Node::from(&node("3", "False")));
    assert!(!woken(&queue) && ready(&world));
}
