//! The addon `cloudController` is switched on and off.
//!
//! Invariant: off, nothing of it is left, mirrors of Services included; its rights go first.

use tenant_cp::desired::cloud_controller;

use super::*;

fn with_cloud_controller() -> api::tenant_cluster::Addons {
    serde_json::from_value(json!({ "cloudController": { "enabled": true } })).unwrap()
}

/// What the cloud controller manager made of two Services, and a Service of somebody else.
fn play_mirrors(world: &mut World) {
    for (name, component) in [
        ("lb-1", "load-balancer"),
        ("lb-2", "load-balancer"),
        ("x", "other"),
    ] {
        let labels = json!({
            "app.kubernetes.io/component": component, "covey.dev/tenant-cluster-uid": UID,
        });
        let live = json!({ "metadata": { "uid": name, "labels": labels } });
        world.objects.insert(Key::new("Service", NS, name), live);
    }
}

#[test]
fn cloud_controller_comes_and_goes_with_all_that_it_made() {
    let whole = ready(minimal());
    let mut world = whole.clone();
    world.cluster.spec.addons = with_cloud_controller();
    world.settle();
    for key in cloud_controller::parts(NS) {
        assert!(world.objects.contains_key(&key), "{key}");
    }
    assert!(
        world
            .inside
            .contains_key(&Key::new("ClusterRole", "", cloud_controller::ROLE))
    );
    let names = world
        .cluster
        .status
        .clone()
        .unwrap_or_default()
        .certificates;
    assert!(names.iter().any(|certificate| certificate.name == "ccm"));

    play_mirrors(&mut world);
    let foreign = Key::new("Service", NS, "x");
    world.settle();
    assert!(
        world.objects.contains_key(&Key::new("Service", NS, "lb-1")),
        "it is on"
    );
    world.cluster.spec.addons = whole.cluster.spec.addons.clone();
    world.settle();
    assert!(world.objects.remove(&foreign).is_some(), "it is not ours");
    let keys = |map: &BTreeMap<Key, Value>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&world.objects), keys(&whole.objects));
    assert_eq!(keys(&world.inside), keys(&whole.inside));
    assert_eq!(world.condition("CloudControllerReady").0, "");
}

#[test]
fn crash_after_any_write_of_switching_the_cloud_controller_off_leaves_nothing_of_it() {
    let whole = ready(minimal());
    let mut on = whole.clone();
    on.cluster.spec.addons = with_cloud_controller();
    on.settle();
    play_mirrors(&mut on);
    on.objects.remove(&Key::new("Service", NS, "x"));
    on.cluster.spec.addons = whole.cluster.spec.addons.clone();
    let mut wanted = on.clone();
    wanted.settle();
    assert_eq!(wanted.objects.len(), whole.objects.len());
    for cut in 0..wanted.writes - on.writes {
        let mut world = on.clone();
        let _ = world.reconcile(&mut cut.clone());
        let binding = Key::new("RoleBinding", NS, cloud_controller::NAME);
        let others = cloud_controller::parts(NS);
        let all = others.iter().all(|key| world.objects.contains_key(key));
        assert!(
            all || !world.objects.contains_key(&binding),
            "rights go first: {cut}"
        );
        world.settle();
        let keys = |world: &World| world.objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&world), keys(&whole), "cut after write {cut}");
    }
}

#[test]
fn ready_waits_for_the_cloud_controller_only_where_there_are_node_pools() {
    let mut world = ready(minimal());
    world.cluster.spec.addons = with_cloud_controller();
    world.settle();
    let deployment = Key::new("Deployment", NS, cloud_controller::NAME);
    let play = |world: &mut World, status: Value| {
        world.objects.get_mut(&deployment).unwrap()["status"] = status;
        world.settle();
    };
    play(&mut world, json!({}));
    assert_eq!(
        world.condition("CloudControllerReady"),
        ("False".into(), "PodsNotReady".into())
    );
    assert_eq!(world.condition("Ready").0, "True");
    world.workers = true;
    world.settle();
    assert_eq!(
        world.condition("Ready"),
        ("False".into(), "AddonsNotReady".into())
    );
    play(&mut world, json!({ "readyReplicas": 1 }));
    assert_eq!(world.condition("Ready").0, "True");
    assert_eq!(world.condition("CloudControllerReady").0, "True");
}
