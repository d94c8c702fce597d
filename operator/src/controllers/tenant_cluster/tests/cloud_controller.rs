//! The addon `cloudController` is switched on and off.
//!
//! Invariant: off, nothing of it is left, mirrors of Services and what it left on those included; it
//! is gone before its work is undone, so that it does nothing of that again.

use api::names::FINALIZER_LOAD_BALANCER;
use tenant_cp::addons::addon::Addon as _;
use tenant_cp::addons::cloud_controller;

use super::super::plan::tenant_objects::release::{MOST, Release, release};
use super::*;

impl World {
    /// Releases the tenant's Services; false when it was cut off.
    pub(super) fn release_services(&mut self, budget: &mut usize) -> bool {
        let keys: Vec<_> = self.services.keys().cloned().collect();
        for key in keys {
            for _ in 0..MOST {
                let Some(next) = release(&self.services[&key]) else {
                    break;
                };
                if !self.spend(budget) {
                    return false;
                }
                let live = self.services.get_mut(&key).unwrap();
                match next {
                    Release::Status(_) => live["status"]["loadBalancer"] = json!({}),
                    Release::Finalizers(patch) => {
                        live["metadata"]["finalizers"] = patch["metadata"]["finalizers"].clone();
                    }
                }
            }
        }
        true
    }
}

fn with_cloud_controller() -> api::tenant_cluster::Addons {
    serde_json::from_value(json!({ "cloudController": { "enabled": true } })).unwrap()
}

/// A world in which it is on and has worked for two Services; and one that it is off in.
fn on_and_off() -> (World, World) {
    let off = ready(minimal());
    let mut on = off.clone();
    on.cluster.spec.addons = with_cloud_controller();
    on.settle();
    for (name, component) in [
        ("lb-1", "load-balancer"),
        ("lb-2", "load-balancer"),
        ("x", "other"),
    ] {
        let labels = json!({
            "app.kubernetes.io/component": component, "covey.dev/tenant-cluster-uid": UID,
        });
        let live = json!({ "metadata": { "uid": name, "labels": labels } });
        on.objects.insert(Key::new("Service", NS, name), live);
    }
    let lease = Key::new("Lease", NS, cloud_controller::LEASE);
    on.objects
        .insert(lease, json!({ "metadata": { "uid": "lease" } }));
    for (name, class) in [
        ("a", Value::Null),
        ("b", Value::Null),
        ("theirs", json!("x")),
    ] {
        let live = json!({
            "metadata": { "uid": name, "finalizers": [FINALIZER_LOAD_BALANCER] },
            "spec": { "loadBalancerClass": class },
            "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } },
        });
        on.services
            .insert(Key::new("Service", "default", name), live);
    }
    on.settle();
    (on, off)
}

fn switch_off(world: &mut World) {
    world.cluster.spec.addons = api::tenant_cluster::Addons::default();
}

/// Names of the tenant's Services that have its finalizer.
fn held(world: &World) -> Vec<&str> {
    let all = world.services.iter();
    all.filter(|(_, live)| live["metadata"]["finalizers"] != json!([]))
        .map(|(key, _)| key.name.as_str())
        .collect()
}

fn keys(map: &BTreeMap<Key, Value>) -> Vec<Key> {
    map.keys().cloned().collect()
}

fn deployment() -> Key {
    Key::new("Deployment", NS, cloud_controller::NAME)
}

#[test]
fn cloud_controller_comes_and_goes_with_all_that_it_made() {
    let (mut world, off) = on_and_off();
    for key in cloud_controller::CloudController.parts(NS, "", "") {
        assert!(world.objects.contains_key(&key), "{key}");
    }
    let role = Key::new("ClusterRole", "", cloud_controller::ROLE);
    assert!(world.inside.contains_key(&role));
    let status = world.cluster.status.clone().unwrap_or_default();
    assert!(status.certificates.iter().any(|one| one.name == "ccm"));
    let mirror = Key::new("Service", NS, "lb-1");
    assert!(world.objects.contains_key(&mirror), "it is on");
    assert_eq!(held(&world), ["a", "b", "theirs"]);

    switch_off(&mut world);
    world.settle();
    let foreign = Key::new("Service", NS, "x");
    assert!(world.objects.remove(&foreign).is_some(), "it is not ours");
    assert_eq!(keys(&world.objects), keys(&off.objects));
    assert_eq!(keys(&world.inside), keys(&off.inside));
    assert_eq!(world.condition("CloudControllerReady").0, "");
    assert_eq!(held(&world), ["theirs"]);
    let free = &world.services[&Key::new("Service", "default", "a")];
    assert_eq!(free["status"]["loadBalancer"], json!({}));
}

#[test]
fn crash_after_any_write_of_switching_the_cloud_controller_off_leaves_nothing_of_it() {
    let (mut on, _) = on_and_off();
    switch_off(&mut on);
    let mut wanted = on.clone();
    wanted.settle();
    let writes = wanted.writes - on.writes;
    assert!(writes > 14, "{writes}");
    for cut in 0..writes {
        let mut world = on.clone();
        let _ = world.reconcile(&mut cut.clone());
        let parts = cloud_controller::CloudController.parts(NS, "", "");
        let left = parts.iter().filter(|key| world.objects.contains_key(key));
        let whole = left.count() == parts.len();
        assert!(
            whole || !world.objects.contains_key(&deployment()),
            "what runs goes first: {cut}"
        );
        let mirrors = world.objects.keys().any(|key| key.name.starts_with("lb-"));
        assert!(
            held(&world).len() == 3 || !mirrors,
            "Services are released last: {cut}"
        );
        // The next operator knows nothing, so it looks.
        world.list_due = true;
        world.settle();
        assert_eq!(keys(&world.objects), keys(&wanted.objects), "cut {cut}");
        assert_eq!(keys(&world.inside), keys(&wanted.inside), "cut {cut}");
        assert_eq!(world.services, wanted.services, "cut {cut}");
    }
}

#[test]
fn nothing_is_undone_while_a_pod_works_and_no_service_is_released_while_a_mirror_is_there() {
    let (mut world, _) = on_and_off();
    switch_off(&mut world);
    world.only_deletes(&deployment());

    let going = json!("2026-11-21T12:00:00Z");
    let live = world.objects.get_mut(&deployment()).unwrap();
    live["metadata"]["deletionTimestamp"] = going.clone();
    let before = (world.objects.clone(), world.inside.clone());
    world.settle();
    assert_eq!((&world.objects, &world.inside), (&before.0, &before.1));
    let waits = ("True".to_owned(), "RemovingCloudController".to_owned());
    assert_eq!(world.condition("Progressing"), waits);
    assert_eq!(world.condition("Ready").0, "True");

    world.objects.remove(&deployment());
    let mirror = Key::new("Service", NS, "lb-2");
    let live = world.objects.get_mut(&mirror).unwrap();
    live["metadata"]["deletionTimestamp"] = going;
    world.settle();
    let parts = cloud_controller::CloudController.parts(NS, "", "");
    assert!(parts.iter().all(|key| !world.objects.contains_key(key)));
    assert!(!world.objects.contains_key(&Key::new("Service", NS, "lb-1")));
    assert_eq!(world.condition("Progressing"), waits);
    assert_eq!((held(&world).len(), &world.inside), (3, &before.1));

    world.objects.remove(&mirror);
    world.settle();
    assert_eq!(held(&world), ["theirs"]);
    assert!(world.inside.len() < before.1.len());
    assert_eq!(world.condition("Progressing").1, "AsDesired");
}

#[test]
fn rights_that_are_laid_again_meanwhile_end_nothing_of_what_is_to_be_released() {
    let (on, off) = on_and_off();
    let mut switched = on.clone();
    switch_off(&mut switched);
    switched.settle();
    for before in 0..4 {
        let mut world = on.clone();
        switch_off(&mut world);
        for _ in 0..before {
            world.reconcile(&mut 3);
        }
        world.hides = true;
        world.settle();
        assert_eq!(held(&world), ["theirs"], "after {before}");
        assert_eq!(keys(&world.inside), keys(&off.inside), "after {before}");
        assert_eq!(world.services, switched.services, "after {before}");
    }
}

#[test]
fn look_that_holds_something_back_is_not_the_last_one() {
    let (mut world, _) = on_and_off();
    let list = |world: &World| {
        let mut observed = world.observe();
        observed.etcd = Etcd::Asked(BTreeMap::new());
        let plan = plan(&observed, &Settings::default(), now());
        plan.actions().find_map(|action| match action {
            Action::Probe {
                list, provisional, ..
            } => Some((list.is_some(), *provisional)),
            _ => None,
        })
    };
    switch_off(&mut world);
    let live = world.objects.get_mut(&deployment()).unwrap();
    live["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
    world.list_due = true;
    assert_eq!(list(&world), Some((true, true)));
    world.objects.remove(&deployment());
    world.settle();
    assert_eq!(list(&world), Some((true, false)));
}

#[test]
fn ready_waits_for_the_cloud_controller_only_where_there_are_node_pools() {
    let (mut world, _) = on_and_off();
    let play = |world: &mut World, status: Value| {
        world.objects.get_mut(&deployment()).unwrap()["status"] = status;
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
