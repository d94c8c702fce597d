//! The addon `csi` is switched on and off.
//!
//! Invariant: off, nothing of it is left but volumes, which are not the operator's, and the kinds of
//! snapshots; what runs goes before what it needs.

use tenant_cp::addons::addon::Addon as _;
use tenant_cp::addons::csi;

use super::*;

/// What these worlds are offered.
fn settings() -> Settings {
    let storage = serde_json::from_value(json!({ "classes": [
        { "name": "fast", "storageClass": "ceph", "default": true, "snapshotClass": "snaps" },
    ] }));
    Settings {
        storage: storage.unwrap(),
        ..Settings::default()
    }
}

fn with_csi() -> World {
    let mut world = ready(minimal());
    world.settings = settings();
    world.cluster.spec.addons =
        serde_json::from_value(json!({ "csi": { "enabled": true } })).unwrap();
    world.settle();
    world
}

fn deployment() -> Key {
    Key::new("Deployment", NS, csi::NAME)
}

fn kinds(world: &World) -> Vec<String> {
    let all = world.inside.keys();
    let definitions = all.filter(|key| key.kind == "CustomResourceDefinition");
    definitions.map(|key| key.name.clone()).collect()
}

#[test]
fn csi_comes_and_goes_but_for_volumes_and_the_kinds_of_snapshots() {
    let off = ready(minimal());
    let mut world = with_csi();
    for key in csi::Csi.parts(NS, "", "") {
        assert!(world.objects.contains_key(&key), "{key}");
    }
    let class = Key::new("StorageClass", "", "fast");
    assert!(world.inside.contains_key(&class));
    assert_eq!(kinds(&world).len(), 3);
    let volume = Key::new("PersistentVolumeClaim", NS, "vol-1");
    let live = json!({ "metadata": { "uid": "vol-1", "labels": {
        "app.kubernetes.io/component": "volume",
    } } });
    world.objects.insert(volume.clone(), live);
    world.settle();

    world.cluster.spec.addons = api::tenant_cluster::Addons::default();
    world.only_deletes(&deployment());
    world.settle();
    assert!(
        world.objects.remove(&volume).is_some(),
        "it is not ours to take"
    );
    let keys = |map: &BTreeMap<Key, Value>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&world.objects), keys(&off.objects));
    assert_eq!(kinds(&world).len(), 3);
    world
        .inside
        .retain(|key, _| key.kind != "CustomResourceDefinition");
    assert_eq!(keys(&world.inside), keys(&off.inside));
    assert_eq!(world.condition("CSIReady").0, "");
}

#[test]
fn crash_after_any_write_of_switching_csi_off_leaves_nothing_of_it() {
    let mut on = with_csi();
    on.cluster.spec.addons = api::tenant_cluster::Addons::default();
    let mut wanted = on.clone();
    wanted.settle();
    let writes = wanted.writes - on.writes;
    assert!(writes > 14, "{writes}");
    for cut in 0..writes {
        let mut world = on.clone();
        let _ = world.reconcile(&mut cut.clone());
        world.list_due = true;
        world.settle();
        assert_eq!(world.objects.len(), wanted.objects.len(), "cut {cut}");
        let left = world.inside.keys().collect::<Vec<_>>();
        assert_eq!(left, wanted.inside.keys().collect::<Vec<_>>(), "cut {cut}");
    }
}

#[test]
fn ready_waits_for_both_halves_where_there_are_nodes() {
    let mut world = with_csi();
    assert_eq!(world.condition("CSIReady").1, "NoNodes");
    assert_eq!(world.condition("Ready").0, "True");
    world.workers = true;
    world.settle();
    let not_yet = ("False".to_owned(), "PodsNotReady".to_owned());
    let outside = |world: &mut World, ready: i64| {
        let live = world.objects.get_mut(&deployment()).unwrap();
        live["status"]["readyReplicas"] = json!(ready);
        world.settle();
    };
    outside(&mut world, 0);
    assert_eq!(world.condition("CSIReady"), not_yet);
    outside(&mut world, 1);
    assert_eq!(world.condition("CSIReady").1, "NoNodes");
    let node = Key::new("DaemonSet", "kube-system", "csi-node");
    let play = |world: &mut World, ready: i64| {
        let live = world.inside.get_mut(&node).unwrap();
        live["status"] = json!({ "numberReady": ready, "desiredNumberScheduled": 1 });
        world.list_due = true;
        world.settle();
    };
    play(&mut world, 0);
    assert_eq!(world.condition("CSIReady"), not_yet);
    play(&mut world, 1);
    assert_eq!(world.condition("CSIReady").0, "True");
}
