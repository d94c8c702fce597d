//! The addon `autoscaler` is switched on and off.
//!
//! Invariant: off, nothing of it is left, its binding in the user's namespace included; what runs goes
//! before what it needs.

use tenant_cp::addons::addon::Addon as _;
use tenant_cp::addons::autoscaler;

use super::*;

const USERS: &str = "team-a";

fn on() -> api::tenant_cluster::Addons {
    let limits = json!({ "nodes": 20 });
    serde_json::from_value(json!({ "autoscaler": { "enabled": true, "limits": limits } })).unwrap()
}

fn with_autoscaler() -> World {
    let mut world = ready(minimal());
    world.cluster.spec.addons = on();
    world.settle();
    world
}

fn switch_off(world: &mut World) {
    world.cluster.spec.addons = api::tenant_cluster::Addons::default();
}

fn parts(world: &World) -> Vec<Key> {
    let namespace = world.cluster.metadata.namespace.as_deref().unwrap();
    assert_eq!(namespace, USERS);
    autoscaler::Autoscaler.parts(NS, namespace, "demo")
}

fn deployments() -> Vec<Key> {
    [autoscaler::STOCK, autoscaler::NAME]
        .map(|name| Key::new("Deployment", NS, name))
        .into()
}

fn binding() -> Key {
    Key::new("RoleBinding", USERS, "covey-autoscaler-demo")
}

fn targets(world: &World) -> Vec<Key> {
    let plan = plan(&world.observe(), &world.settings, now());
    plan.deletions().map(|one| one.key.clone()).collect()
}

fn keys(map: &BTreeMap<Key, Value>) -> Vec<Key> {
    map.keys().cloned().collect()
}

#[test]
fn autoscaler_comes_and_goes_with_its_binding_in_the_users_namespace() {
    let off = ready(minimal());
    let mut world = with_autoscaler();
    for key in parts(&world) {
        assert!(world.objects.contains_key(&key), "{key}");
    }
    let owner = &world.objects[&binding()]["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], UID);
    let config_map = Key::new("ConfigMap", "kube-system", api::names::PRIORITY_EXPANDER);
    assert!(world.inside.contains_key(&config_map));
    let status = world.cluster.status.clone().unwrap_or_default();
    let names: Vec<_> = status
        .certificates
        .into_iter()
        .map(|one| one.name)
        .collect();
    for name in ["autoscaler-ca", "autoscaler-server", "cluster-autoscaler"] {
        assert!(names.iter().any(|one| one == name), "{name} in {names:?}");
    }

    switch_off(&mut world);
    assert_eq!(targets(&world), deployments(), "only what runs");
    world.settle();
    assert_eq!(keys(&world.objects), keys(&off.objects));
    assert_eq!(keys(&world.inside), keys(&off.inside));
    assert_eq!(world.condition("AutoscalerReady").0, "");
}

/// It ends when it does not reach the API for long, and would be restarted less and less often.
#[test]
fn cluster_autoscaler_is_made_once_the_api_answers_and_then_mended_whatever_the_api_does() {
    let [stock, adapter] = deployments().try_into().unwrap();
    let mut world = World::new(minimal());
    world.cluster.spec.addons = on();
    world.tenant_up = false;
    world.settle();
    assert!(world.objects.contains_key(&adapter));
    assert!(!world.objects.contains_key(&stock));
    world.tenant_up = true;
    world.settle();
    assert!(world.objects.contains_key(&stock));
    world.tenant_up = false;
    world.objects.remove(&stock);
    world.settle();
    assert!(world.objects.contains_key(&stock));
}

#[test]
fn what_the_adapter_wrote_into_the_priorities_stays() {
    let mut world = with_autoscaler();
    let config_map = Key::new("ConfigMap", "kube-system", api::names::PRIORITY_EXPANDER);
    let live = world.inside.get_mut(&config_map).unwrap();
    live["data"] = json!({ "priorities": "10: [gold.*]" });
    world.list_due = true;
    let before = world.writes;
    world.settle();
    assert_eq!(world.writes, before);
    assert!(world.inside[&config_map]["data"].is_object());
}

#[test]
fn binding_that_is_not_ours_is_not_taken_away() {
    let mut world = with_autoscaler();
    switch_off(&mut world);
    let live = world.objects.get_mut(&binding()).unwrap();
    live["metadata"]["labels"][api::names::LABEL_TENANT_UID] = json!("of-another");
    world.objects.retain(|key, _| !deployments().contains(key));
    let targets = targets(&world);
    assert!(!targets.is_empty() && !targets.contains(&binding()));
}

#[test]
fn crash_after_any_write_of_switching_the_autoscaler_on_or_off_ends_the_same() {
    let off = ready(minimal());
    let on_world = with_autoscaler();
    for (from, addons, to) in [
        (&off, on(), &on_world),
        (&on_world, api::tenant_cluster::Addons::default(), &off),
    ] {
        let mut from = from.clone();
        from.cluster.spec.addons = addons;
        let mut whole = from.clone();
        whole.settle();
        let writes = whole.writes - from.writes;
        assert!(writes > 20, "{writes}");
        for cut in 0..writes {
            let mut world = from.clone();
            let _ = world.reconcile(&mut cut.clone());
            world.list_due = true;
            world.settle();
            assert_eq!(keys(&world.objects), keys(&to.objects), "cut {cut}");
            assert_eq!(keys(&world.inside), keys(&to.inside), "cut {cut}");
        }
    }
}

#[test]
fn both_pods_have_to_be_ready_and_neither_keeps_the_tenant_cluster_from_it() {
    let mut world = with_autoscaler();
    let set = |world: &mut World, name: &str, ready: i64| {
        let key = Key::new("Deployment", NS, name);
        world.objects.get_mut(&key).unwrap()["status"] = json!({ "readyReplicas": ready });
        world.settle();
    };
    for workers in [false, true] {
        world.workers = workers;
        set(&mut world, autoscaler::NAME, 1);
        set(&mut world, autoscaler::STOCK, 0);
        let said = world.condition("AutoscalerReady");
        assert_eq!(said, ("False".to_owned(), "PodsNotReady".to_owned()));
        assert_eq!(world.condition("AutoscalerReady").0, "False");
        set(&mut world, autoscaler::STOCK, 1);
        assert_eq!(world.condition("AutoscalerReady").0, "True");
    }
    world.workers = false;
    set(&mut world, autoscaler::STOCK, 0);
    assert_eq!(world.condition("Ready").0, "True");
}
