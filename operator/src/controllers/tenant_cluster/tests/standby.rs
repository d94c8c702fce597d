//! Laws of a control plane that waited and is taken over, and of one that goes.

use api::names::{LABEL_STANDBY, LABEL_TAKEN_OVER_BY};
use kit_objects::object::Key;
use serde_json::{Value, json};

use super::super::plan::{Action, Plan, plan};
use super::fields;
use super::world::*;
use crate::controllers::fields::{Schema, each};
use crate::standby::fit::APART;
use crate::standby::takeover::Taker;

const MINE: &str = "0b1b2c3d-2222-4222-8333-444455556666";

/// What was made for one that waited, and a TenantCluster for which nothing was made.
fn taking_over() -> World {
    let mut world = ready(minimal());
    let status = world.cluster.status.clone().unwrap();
    world.standby = Some((world.cluster.identity(), status));
    world.cluster = cluster("mine", MINE, minimal());
    world
}

fn settled(world: &mut World) {
    for _ in 0..20 {
        assert!(world.reconcile(&mut 1_000));
    }
    assert_eq!(world.condition("Ready").0, "True");
}

/// Specs of what runs in the tenant namespace.
fn workloads(world: &World) -> Vec<(&Key, &Value)> {
    let all = world.objects.iter();
    let workloads = all.filter(|(key, _)| ["Deployment", "StatefulSet"].contains(&&*key.kind));
    workloads.map(|(key, live)| (key, &live["spec"])).collect()
}

#[test]
fn what_runs_is_taken_over_as_it_is() {
    let mut world = taking_over();
    let before = world.clone();
    settled(&mut world);
    assert_eq!(workloads(&world), workloads(&before));
    assert!(!workloads(&world).is_empty());
    // Keys and etcd are those that were there, and nothing is made beside them.
    for name in [
        "ca",
        "client-ca",
        "users-ca",
        "service-account",
        "encryption",
    ] {
        let key = Key::new("Secret", NS, name);
        assert_eq!(world.objects.get(&key), before.objects.get(&key), "{name}");
    }
    let namespaces = world.objects.keys().filter(|key| key.kind == "Namespace");
    assert_eq!(namespaces.count(), 1);
    let kubeconfig = &world.objects[&Key::new("Secret", "team-a", "mine-kubeconfig")];
    let labels = &kubeconfig["metadata"]["labels"];
    assert_eq!(labels["covey.dev/tenant-cluster"], "mine");
    assert_eq!(labels["covey.dev/tenant-cluster-uid"], UID);
    assert_eq!(kubeconfig["metadata"]["ownerReferences"][0]["uid"], MINE);
    let status = world.cluster.status.as_ref().unwrap();
    assert_eq!(status.namespace.as_deref(), Some(NS));
    assert_eq!(status.kubeconfig_secret.as_deref(), Some("mine-kubeconfig"));
    let writes = world.writes;
    settled(&mut world);
    assert_eq!(
        world.writes, writes,
        "one that was taken over is written to at rest"
    );
}

/// Templates of the pods that a control plane consists of.
fn pods(spec: &Value) -> Vec<Value> {
    let world = fields::world(spec);
    let of = |kind: &str, name: &str| fields::plain(&world.objects[&Key::new(kind, NS, name)]);
    let pods = [
        ("Deployment", "control-plane"),
        ("Deployment", "controllers"),
        ("StatefulSet", "etcd"),
    ];
    let files = [
        "apiserver",
        "controller-manager",
        "scheduler",
        "konnectivity-server",
    ];
    let pods = pods.map(|(kind, name)| of(kind, name)["spec"]["template"].clone());
    let files = files.map(|name| of("Secret", name)["data"].clone());
    [Vec::from(pods), Vec::from(files)].concat()
}

#[test]
fn what_is_not_compared_changes_no_pod_of_a_control_plane() {
    let schema = Schema::of("TenantCluster");
    let authority = fields::base64_of(&ready(minimal()), "ca", "ca.crt");
    let plain = pods(&minimal());
    each(&schema, |path| {
        let first = path.split('.').next().unwrap();
        let is_compared =
            !APART.contains(&first) || path == "version" || path.starts_with("addons.konnectivity");
        let value = fields::value(&schema, path, &authority);
        if is_compared || value.get("konnectivity").is_some() {
            return;
        }
        let spec = schema.with(&fields::base(path), path, &value);
        assert!(
            pods(&spec) == plain,
            "{path} changes pods of the control plane"
        );
    });
}

#[test]
fn crash_after_any_write_of_a_takeover_ends_in_the_same_objects() {
    let mut whole = taking_over();
    settled(&mut whole);
    let keys: Vec<_> = whole.objects.keys().collect();
    for writes in 0.. {
        let mut world = taking_over();
        let before = world.clone();
        if world.reconcile(&mut writes.clone()) {
            assert!(writes > 3, "too little was cut off to say anything");
            break;
        }
        settled(&mut world);
        assert_eq!(
            world.objects.keys().collect::<Vec<_>>(),
            keys,
            "after {writes} writes"
        );
        assert!(
            workloads(&world) == workloads(&before),
            "after {writes} writes"
        );
        assert_eq!(world.cluster.identity(), whole.cluster.identity());
    }
}

fn planned(world: &World) -> Plan {
    plan(&world.observe(), &world.settings, now())
}

fn is_going(world: &mut World) {
    let meta = &mut world.cluster.metadata;
    meta.deletion_timestamp = serde_json::from_value(json!("2026-03-01T12:00:00Z")).unwrap();
}

fn actions(plan: &Plan) -> Vec<&Action> {
    plan.actions().collect()
}

#[test]
fn nothing_is_touched_for_whom_another_one_bears_or_may_bear() {
    for taker in [Taker::Bears, Taker::May] {
        let mut world = ready(minimal());
        world.taker = Some(taker);
        // All of it would be made anew.
        world.objects.retain(|key, _| key.kind != "Deployment");
        let rests = planned(&world);
        assert!(
            rests.is_settled() && rests.parts.is_empty(),
            "{taker:?}: {rests:?}"
        );
        is_going(&mut world);
        let goes = planned(&world);
        let wanted = match taker {
            Taker::Bears => vec![&Action::RemoveFinalizer],
            _ => Vec::new(),
        };
        assert_eq!(actions(&goes), wanted, "{taker:?}");
        let deletions = goes.parts.iter().flat_map(|part| &part.deletions);
        assert_eq!(deletions.count(), 0, "{taker:?}");
        assert_eq!(goes.requeue_after.is_some(), taker == Taker::May);
    }
}

#[test]
fn what_nobody_bears_any_more_goes_with_whom_it_was_made_for() {
    let mut world = ready(minimal());
    world.taker = Some(Taker::Gone);
    is_going(&mut world);
    for _ in 0..20 {
        assert!(world.reconcile(&mut 1_000));
    }
    assert!(!world.objects.contains_key(&Key::new("Namespace", "", NS)));
}

#[test]
fn one_that_goes_is_nobodys_to_take_over_before_anything_of_it_goes() {
    let mut world = ready(minimal());
    world.settings.operator_namespace = "covey".to_owned();
    world.cluster.metadata.namespace = Some("covey-standby".to_owned());
    world.cluster.metadata.labels = Some([(LABEL_STANDBY.to_owned(), "true".to_owned())].into());
    is_going(&mut world);
    let first = planned(&world);
    assert_eq!(actions(&first), [&Action::Retire]);
    assert!(first.parts.iter().all(|part| part.deletions.is_empty()));
    let namespace = world.objects.get_mut(&Key::new("Namespace", "", NS));
    namespace.unwrap()["metadata"]["labels"][LABEL_TAKEN_OVER_BY] = json!(UID);
    assert!(!actions(&planned(&world)).contains(&&Action::Retire));
    for _ in 0..20 {
        assert!(world.reconcile(&mut 1_000));
    }
    assert!(!world.objects.contains_key(&Key::new("Namespace", "", NS)));
}
