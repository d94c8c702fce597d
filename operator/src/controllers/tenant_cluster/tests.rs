//! Laws and scenarios of the plan, on a simulated management cluster ([`world`]).
//!
//! Long because the laws that hold in it are read together.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::condition::is_true;
use base64::Engine as _;
use kit_objects::object::Key;
use proptest::prelude::*;
use serde_json::{Value, json};
use tenant_cp::rollout::order::Cause;
use tenant_cp::{Settings, certificates};

use super::observed::{Etcd, Seen, Tenant, Way};
use super::part_name::PartName;
use super::plan::{Action, SLOW_SWEEP, plan};
use crate::rollouts::queue::Answer;

mod autoscaler;
mod cloud_controller;
mod controllers;
mod csi;
mod encrypted;
mod etcd;
mod etcd_disks;
mod etcd_events;
mod etcd_members;
mod etcd_set_back;
mod etcd_sizes;
mod etcd_space;
mod fields;
mod golden_start;
mod handover;
mod held;
mod hibernation;
mod idle;
mod kms;
mod losses;
mod overlay;
mod patches;
mod quotas;
mod restoring;
mod rollouts;
mod rotation;
mod rotation_at_rest;
mod rotation_clients;
mod rotation_cluster;
mod rotation_front_proxy;
mod rotation_kubeconfig;
mod rotation_tokens;
mod standby;
mod unknown;
mod upgrade_failures;
mod upgrade_laws;
mod upgrade_snapshots;
mod upgrades;
mod volume_loss;
mod world;

use world::*;

#[test]
fn creation_settles_and_then_writes_nothing() {
    for spec in [minimal(), large()] {
        let mut world = ready(spec);
        assert!(is_true(
            &world.cluster.status.clone().unwrap().conditions,
            api::ConditionType::Ready
        ));
        let before = world.writes;
        for _ in 0..20 {
            assert!(world.reconcile(&mut 1_000));
        }
        assert_eq!(world.writes, before, "an idle tenant cluster is written to");
    }
}

#[test]
fn crash_after_any_write_of_a_creation_ends_in_the_same_objects() {
    let whole = ready(minimal());
    // What is laid inside the tenant is one stage, at the end: a few cuts of it will do.
    let outside = whole.writes - whole.inside.len();
    for cut in (0..outside).chain((outside..whole.writes).step_by(13)) {
        let mut world = World::new(minimal());
        let finished = world.reconcile(&mut cut.clone());
        let ca = world.secret("ca").cloned();
        world.settle();
        assert!(!finished || cut > 20, "cut {cut}");
        let (mine, wanted): (Vec<_>, Vec<_>) = (
            world.objects.keys().collect(),
            whole.objects.keys().collect(),
        );
        assert_eq!(mine, wanted, "cut after write {cut}");
        assert_eq!(world.condition("Ready").0, "True", "cut after write {cut}");
        if let Some(ca) = ca {
            assert_eq!(
                world.secret("ca"),
                Some(&ca),
                "cut {cut} changed the authority"
            );
        }
    }
}

#[test]
fn crash_after_any_write_of_a_deletion_ends_with_nothing_left() {
    for cut in 0..3 {
        let mut world = ready(minimal());
        world.cluster.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        let _ = world.reconcile(&mut cut.clone());
        for _ in 0..3 {
            let _ = world.reconcile(&mut 1_000);
        }
        assert_eq!(world.cluster.metadata.finalizers, None);
        assert!(
            world
                .objects
                .keys()
                .all(|k| k.namespace != NS && k.name != NS),
            "cut {cut}"
        );
    }
}

#[test]
fn namespace_is_deleted_once_its_pods_are_gone_or_have_had_their_time() {
    let mut world = ready(minimal());
    world
        .objects
        .insert(Key::new("Pod", NS, "etcd-0"), json!({ "metadata": {} }));
    let deleted = |seconds: i64| {
        let at = now()
            .checked_sub(jiff::SignedDuration::from_secs(seconds))
            .unwrap();
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at))
    };
    world.cluster.metadata.deletion_timestamp = deleted(1);
    let _ = world.reconcile(&mut 1_000);
    assert!(world.objects.contains_key(&Key::new("Namespace", "", NS)));
    assert!(world.cluster.metadata.finalizers.is_some());
    let mut late = world.clone();
    late.cluster.metadata.deletion_timestamp = deleted(20);
    for mut world in [late, {
        world.objects.remove(&Key::new("Pod", NS, "etcd-0"));
        world
    }] {
        for _ in 0..2 {
            let _ = world.reconcile(&mut 1_000);
        }
        assert!(!world.objects.contains_key(&Key::new("Namespace", "", NS)));
        assert_eq!(world.cluster.metadata.finalizers, None);
    }
}

#[test]
fn pods_wait_for_their_turn_and_everything_else_is_ready_by_then() {
    let mut world = World::new(minimal());
    world.start = Answer::Wait;
    world.settle();
    assert_eq!(
        world.condition("Ready"),
        ("False".into(), "WaitingForStart".into())
    );
    assert!(world.secret("apiserver").is_some());
    assert!(
        !world
            .objects
            .keys()
            .any(|k| k.kind == "Deployment" || k.kind == "StatefulSet")
    );
    let rest = plan(&world.observe(), &Settings::default(), now());
    assert!(rest.is_settled(), "nothing is made anew while it waits");
    world.start = Answer::Go;
    world.settle();
    assert_eq!(world.condition("Ready").0, "True");
}

#[test]
fn ready_means_that_the_api_answered_whatever_the_replicas_say() {
    let mut world = World::new(minimal());
    world.tenant_up = false;
    world.settle();
    assert_eq!(world.condition("ControlPlaneReady").0, "True");
    assert_eq!(
        world.condition("Ready"),
        ("False".into(), "Starting".into())
    );
    world.tenant_up = true;
    world.settle();
    assert_eq!(world.condition("Ready").0, "True");
    world.tenant_up = false;
    world.settle();
    assert_eq!(
        world.condition("Ready"),
        ("False".into(), "ApiUnreachable".into())
    );
}

#[test]
fn what_is_to_be_asked_later_keeps_its_conditions() {
    let mut world = ready(minimal());
    for up in [true, false] {
        world.tenant_up = up;
        world.settle();
        let mut observed = world.observe();
        observed.tenant = Tenant::Postponed;
        observed.etcd = Etcd::Asked(BTreeMap::new());
        let plan = plan(&observed, &Settings::default(), now());
        assert!(plan.is_settled());
        assert_eq!(Some(&plan.status), world.cluster.status.as_ref());
        assert!(plan.events.is_empty());
        assert_eq!(
            plan.waiting_on.map(|w| w.reason),
            Some(api::Reason::WaitingForTurn)
        );
        assert_eq!(plan.requeue_after.map(|t| t.as_secs()), Some(120));
    }
    let mut changed = world.observe();
    changed.tenant = Tenant::Postponed;
    changed.cluster.metadata.generation = Some(1000);
    let plan = plan(&changed, &Settings::default(), now());
    let progressing = plan.status.conditions.iter();
    let mut progressing = progressing.filter(|c| c.type_ == "Progressing");
    assert!(
        progressing.all(|c| c.status == "True" && c.reason == "WaitingForTurn"),
        "a new spec is not said to be carried out"
    );
}

#[test]
fn lost_authority_of_a_running_tenant_is_reported_and_never_made_anew() {
    let mut world = ready(minimal());
    world.objects.remove(&Key::new("Secret", NS, "etcd-ca"));
    world.settle();
    assert!(world.secret("etcd-ca").is_none());
    assert_eq!(
        world.condition("Degraded"),
        ("True".into(), "CertificateAuthorityLost".into())
    );
}

#[test]
fn lost_authority_of_which_a_copy_exists_is_restored_as_it_was() {
    let mut world = ready(minimal());
    for name in ["kubelet-serving-ca", "client-ca", "users-ca"] {
        let before = world.secret(name).cloned().unwrap();
        world.objects.remove(&Key::new("Secret", NS, name));
        world.settle();
        let restored = world.secret(name).cloned().unwrap();
        assert_eq!(restored["data"], before["data"], "{name}");
        assert_eq!(world.condition("Degraded").0, "False");
    }
}

#[test]
fn removed_and_changed_objects_come_back() {
    let whole = ready(large());
    // What held data does not come back by being made anew: `losses`.
    let held = ["Namespace", "PersistentVolumeClaim"];
    let all = whole.objects.keys();
    for key in all.filter(|key| !held.contains(&key.kind.as_str())) {
        let mut world = whole.clone();
        world.objects.remove(key);
        if ["ca", "etcd-ca", "front-proxy-ca"].contains(&key.name.as_str()) {
            continue;
        }
        world.settle();
        assert!(
            world.objects.contains_key(key),
            "{key} does not come back: {:?}",
            world.condition("Progressing")
        );
    }
    let mut world = whole;
    let key = Key::new("Deployment", NS, "control-plane");
    world.objects.get_mut(&key).unwrap()["spec"]["replicas"] = json!(7);
    world.settle();
    assert_eq!(world.objects[&key]["spec"]["replicas"], 3);
}

#[test]
fn bad_spec_keeps_what_runs_and_says_what_is_wrong() {
    let mut world = ready(minimal());
    let before = world.objects.clone();
    world.cluster.spec.version = "1.21.0".into();
    world.settle();
    assert_eq!(world.objects, before);
    assert_eq!(world.condition("Degraded").0, "True");
    assert_eq!(world.condition("Ready").0, "True");
}

#[test]
fn paused_tenant_is_left_as_it_is_but_can_be_deleted() {
    let mut world = ready(minimal());
    world.cluster.spec.paused = true;
    world
        .objects
        .remove(&Key::new("Deployment", NS, "control-plane"));
    world.settle();
    assert!(
        !world
            .objects
            .contains_key(&Key::new("Deployment", NS, "control-plane"))
    );
    world.cluster.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    for _ in 0..3 {
        let _ = world.reconcile(&mut 1_000);
    }
    assert_eq!(world.cluster.metadata.finalizers, None);
}

#[test]
fn namesake_of_an_older_tenant_does_not_touch_its_namespace() {
    let mut world = ready(minimal());
    let label = &mut world
        .objects
        .get_mut(&Key::new("Namespace", "", NS))
        .unwrap()["metadata"];
    label["labels"][api::names::LABEL_TENANT_UID] = json!("another");
    world.cluster.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    let _ = world.reconcile(&mut 1_000);
    assert!(world.objects.contains_key(&Key::new("Namespace", "", NS)));
    assert_eq!(world.cluster.metadata.finalizers, None);
}

/// A probe finds it, and each look costs a dozen requests at the management API.
#[test]
fn one_that_is_silent_is_looked_at_seldom() {
    let mut world = ready(minimal());
    world.tenant_up = false;
    world.settle();
    let mut observed = world.observe();
    observed.tenant = Tenant::Silent {
        message: "away".to_owned(),
    };
    observed.etcd = Etcd::Asked(BTreeMap::new());
    let plan = plan(&observed, &Settings::default(), now());
    assert_eq!(plan.requeue_after.map(|t| t.as_secs()), Some(600));
}

#[test]
fn idle_tenant_is_looked_at_before_its_certificates_end() {
    let world = ready(minimal());
    let mut observed = world.observe();
    observed.tenant = world.answer(false, false, &[]);
    let again = plan(&observed, &Settings::default(), now())
        .requeue_after
        .unwrap();
    assert_eq!(again, SLOW_SWEEP);
}

#[test]
fn what_is_lost_or_changed_inside_comes_back_once_somebody_looks() {
    let whole = ready(minimal());
    let lost = Key::new("Deployment", "kube-system", "coredns");
    let changed = Key::new("ConfigMap", "kube-system", "kubeadm-config");
    let mut world = whole.clone();
    world.inside.remove(&lost);
    world.inside.get_mut(&changed).unwrap()["data"] = json!({});
    world.inside.get_mut(&changed).unwrap()["hash"] = Value::Null;
    let before = world.writes;
    world.settle();
    assert_eq!(world.writes, before, "nobody looked");
    world.list_due = true;
    world.settle();
    assert_eq!(
        world.inside.keys().collect::<Vec<_>>(),
        whole.inside.keys().collect::<Vec<_>>()
    );
    assert_eq!(
        world.inside[&changed]["data"],
        whole.inside[&changed]["data"]
    );
    assert_eq!(world.writes, before + 2);
}

#[test]
fn addon_that_is_switched_off_goes_and_comes_back() {
    let whole = ready(minimal());
    let mut world = whole.clone();
    let foreign = Key::new("ConfigMap", "kube-system", "mine");
    let mine = json!({ "metadata": { "uid": "x", "labels": { "covey.dev/addon": "coredns" } } });
    world.inside.insert(foreign.clone(), mine);
    world.cluster.spec.addons = serde_json::from_value(json!({
        "coreDNS": { "enabled": false }, "kubeProxy": { "enabled": false },
        "cni": { "type": "none" }, "konnectivity": { "enabled": false },
    }))
    .unwrap();
    world.settle();
    let addons: Vec<_> = world
        .inside
        .iter()
        .filter(|(_, live)| live["metadata"]["labels"]["covey.dev/addon"].is_string())
        .map(|(key, _)| format!("{} {}", key.kind, key.name))
        .collect();
    assert_eq!(
        addons,
        [
            "ConfigMap mine",
            "Namespace konnectivity",
            "Namespace kube-flannel"
        ]
    );
    assert!(
        world
            .objects
            .keys()
            .all(|key| !key.name.starts_with("konnectivity"))
    );
    assert_eq!(world.condition("CoreDNSReady").0, "");
    assert_eq!(world.condition("Ready").0, "True");
    world.cluster.spec.addons = whole.cluster.spec.addons.clone();
    world.inside.remove(&foreign);
    world.settle();
    assert_eq!(
        world.inside.keys().collect::<Vec<_>>(),
        whole.inside.keys().collect::<Vec<_>>()
    );
    assert_eq!(
        world.objects.keys().collect::<Vec<_>>(),
        whole.objects.keys().collect::<Vec<_>>()
    );
}

#[test]
fn crash_after_any_write_of_a_switch_ends_with_the_same_objects() {
    let whole = ready(minimal());
    let off = json!({ "cni": { "type": "none" }, "konnectivity": { "enabled": false } });
    let off: api::tenant_cluster::Addons = serde_json::from_value(off).unwrap();
    let mut wanted = whole.clone();
    wanted.cluster.spec.addons = off.clone();
    wanted.settle();
    for cut in 0..wanted.writes - whole.writes {
        let mut world = whole.clone();
        world.cluster.spec.addons = off.clone();
        let _ = world.reconcile(&mut cut.clone());
        world.settle();
        let keys = |world: &World| {
            let inside = world.inside.keys().cloned();
            inside
                .chain(world.objects.keys().cloned())
                .collect::<Vec<_>>()
        };
        assert_eq!(keys(&world), keys(&wanted), "cut after write {cut}");
    }
}

#[test]
fn ready_waits_for_addons_as_soon_as_there_are_nodes() {
    let mut world = ready(minimal());
    assert_eq!(
        world.condition("CoreDNSReady"),
        ("False".into(), "NoNodes".into())
    );
    let namespace = Key::new("Namespace", "", NS);
    let level = |world: &World| {
        let labels = &world.objects[&namespace]["metadata"]["labels"];
        labels["pod-security.kubernetes.io/enforce"].clone()
    };
    assert_eq!(level(&world), "restricted");
    world.workers = true;
    world.settle();
    assert_eq!(level(&world), "baseline");
    assert_eq!(world.condition("Ready").0, "True", "a pool without nodes");
    world.play_nodes(1, 0);
    world.settle();
    assert_eq!(
        world.condition("Ready"),
        ("False".into(), "AddonsNotReady".into())
    );
    assert_eq!(world.condition("NetworkReady").0, "False");
    let status = &world.cluster.status.clone().unwrap_or_default();
    assert!(
        status.answers_since().is_some(),
        "addons are no part of the API"
    );
    world.play_nodes(3, 1);
    world.settle();
    assert_eq!(world.condition("Ready").0, "True");
    assert_eq!(
        world.condition("KonnectivityReady"),
        ("True".into(), "PodsReady".into())
    );
    world.play_nodes(0, 0);
    world.settle();
    assert_eq!(world.condition("Ready").0, "True", "scaled to zero");
    world.workers = false;
    world.settle();
    assert_eq!(level(&world), "restricted");
}

#[test]
fn rights_that_somebody_took_from_us_are_laid_again() {
    let mut world = ready(minimal());
    let role = Key::new("ClusterRole", "", "covey:operator");
    world.inside.remove(&role);
    let mut observed = world.observe();
    observed.tenant = Tenant::Answers {
        version: "1.35.4".into(),
        way: Way::Published,
        seen: Seen::Hidden,
        pods: BTreeMap::new(),
    };
    let plan = plan(&observed, &Settings::default(), now());
    assert!(world.carry_out(&plan, &mut observed, &mut 1_000));
    assert!(world.inside.contains_key(&role));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any part of a tenant cluster may be missing or mangled, in any combination.
    #[test]
    fn any_world_is_planned_without_panic_and_settles(
        missing in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        mangled in proptest::collection::vec((any::<prop::sample::Index>(), 0..4_u8), 0..6),
        tenant_up in any::<bool>(),
        large_spec in any::<bool>(),
    ) {
        static WORLDS: std::sync::OnceLock<[World; 2]> = std::sync::OnceLock::new();
        let worlds = WORLDS.get_or_init(|| [ready(minimal()), ready(large())]);
        let mut world = worlds[usize::from(large_spec)].clone();
        world.tenant_up = tenant_up;
        let keys: Vec<_> = world.objects.keys().cloned().collect();
        for index in missing {
            world.objects.remove(index.get(&keys));
        }
        for (index, how) in mangled {
            if let Some(live) = world.objects.get_mut(index.get(&keys)) {
                match how {
                    0 => live["spec"] = json!("nonsense"),
                    1 => live["data"] = json!({ "ca.crt": "AAAA" }),
                    2 => live["metadata"]["labels"] = Value::Null,
                    _ => live["status"] = json!([]),
                }
            }
        }
        world.settle();
    }

    #[test]
    fn plan_does_not_depend_on_the_order_of_other_tenants(seed in any::<u64>()) {
        let mut world = World::new(minimal());
        let names: Vec<_> = (0..6).map(|n| (format!("other-{n}"), format!("{n}0000000-0"))).collect();
        let mut others: Vec<_> =
            names.iter().map(|(n, u)| Arc::new(cluster(n, u, minimal()))).collect();
        world.others = others.clone();
        world.cluster.metadata.finalizers = Some(vec![api::names::FINALIZER.into()]);
        let first = plan(&world.observe(), &Settings::default(), now());
        others.sort_by_key(|o| o.metadata.uid.as_ref().map(|u| u.len() as u64 ^ seed.rotate_left(u.as_bytes()[0].into())));
        world.others = others;
        prop_assert_eq!(plan(&world.observe(), &Settings::default(), now()), first);
    }
}
