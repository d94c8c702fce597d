//! Laws of control planes that wait.

use std::sync::Arc;

use api::TenantCluster;
use api::names;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};
use tenant_cp::Settings;

use super::fit::{candidates, inherited};
use super::pool::{Step, plan};

const NOW: &str = "2026-03-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn settings(standby: Value) -> Settings {
    serde_json::from_value(json!({ "standby": standby })).unwrap()
}

fn cluster(value: Value) -> Arc<TenantCluster> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn ready(since: &str, status: &str) -> Value {
    json!([{ "type": "Ready", "status": status, "reason": "AsExpected", "message": "", "lastTransitionTime": since }])
}

/// One that waits.
fn standby(slot: u16) -> Value {
    json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": {
            "name": format!("standby-1-36-3-{slot}"), "namespace": "covey-system-standby", "uid": format!("s{slot}"),
            "labels": { names::LABEL_STANDBY: "true" },
            "creationTimestamp": format!("2026-03-01T10:00:0{slot}Z"),
        },
        "spec": { "version": "1.36.3" },
        "status": {
            "version": "1.36.3", "conditions": ready("2026-03-01T10:01:00Z", "True"), "bootstrapHash": "h",
            "network": { "podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20", "dnsDomain": "cluster.local" },
            "etcd": { "members": [] },
        },
    })
}

/// One that somebody has just made.
fn asked(spec: Value) -> Arc<TenantCluster> {
    cluster(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": "team-a", "uid": "d" },
        "spec": spec,
    }))
}

fn taken_by(identity: &str) -> Arc<TenantCluster> {
    cluster(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "other", "namespace": "team-b", "uid": "o" },
        "spec": { "version": "1.36.3" },
        "status": { "identity": { "name": "standby-1-36-3-0", "namespace": "covey-system-standby", "uid": identity } },
    }))
}

fn uids(cluster: &TenantCluster, all: &[Arc<TenantCluster>]) -> Vec<String> {
    let found = candidates(cluster, all, &settings(json!({})));
    found.into_iter().map(|identity| identity.uid).collect()
}

#[test]
fn whoever_wants_nothing_of_its_own_may_take_over_the_oldest_that_waits() {
    let all = [cluster(standby(1)), cluster(standby(0))];
    for spec in [
        json!({ "version": "1.36.3" }),
        json!({ "version": "v1.36.3" }),
        json!({ "version": "1.36.3", "addons": { "coreDNS": { "enabled": false } }, "maintenance": { "priority": 3 } }),
    ] {
        assert_eq!(uids(&asked(spec.clone()), &all), ["s0", "s1"], "{spec}");
    }
}

#[test]
fn whoever_wants_something_of_its_own_is_made() {
    let all = [cluster(standby(0))];
    for spec in [
        json!({ "version": "1.36.2" }),
        json!({ "version": "1.36.3", "controlPlane": { "replicas": 2 } }),
        json!({ "version": "1.36.3", "controlPlane": { "endpoint": { "host": "api.example.com" } } }),
        json!({ "version": "1.36.3", "controlPlane": { "endpoint": { "certSANs": ["api.example.com"] } } }),
        json!({ "version": "1.36.3", "controlPlane": { "endpoint": { "type": "LoadBalancer" } } }),
        json!({ "version": "1.36.3", "network": { "podCIDR": "10.9.0.0/18" } }),
        json!({ "version": "1.36.3", "etcd": { "replicas": 3 } }),
        json!({ "version": "1.36.3", "etcd": { "storage": { "size": "9Gi" } } }),
        json!({ "version": "1.36.3", "addons": { "konnectivity": { "enabled": false } } }),
        json!({ "version": "1.36.3", "backup": { "target": "t" } }),
        json!({ "version": "1.36.3", "hibernation": { "enabled": true } }),
    ] {
        assert_eq!(uids(&asked(spec.clone()), &all), [""; 0], "{spec}");
    }
}

#[test]
fn nobody_takes_over_what_is_not_ready_or_somebodys_or_where_something_was_made_already() {
    let with = |pointer: &str, value: Value| {
        let mut changed = standby(0);
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[key] = value;
        cluster(changed)
    };
    let fresh = asked(json!({ "version": "1.36.3" }));
    for unfit in [
        with("/metadata/deletionTimestamp", json!(NOW)),
        with("/metadata/labels", json!({})),
        with("/metadata/namespace", json!("team-a")),
        with("/spec/paused", json!(true)),
        with("/status/conditions", ready(NOW, "False")),
        with("/status/conditions", ready(NOW, "Unknown")),
        with("/status/version", json!("1.36.2")),
        with("/status/network", Value::Null),
        with("/status/etcd", Value::Null),
    ] {
        assert_eq!(uids(&fresh, &[unfit]), [""; 0]);
    }
    assert_eq!(
        uids(&fresh, &[cluster(standby(0)), taken_by("s0")]),
        [""; 0]
    );
    for made in [
        json!({ "bootstrapHash": "h" }),
        json!({ "network": { "podCIDR": "10.1.0.0/18", "serviceCIDR": "100.64.0.0/20", "dnsDomain": "cluster.local" } }),
        json!({ "etcd": { "members": [] } }),
        json!({ "identity": { "name": "a", "namespace": "b", "uid": "c" } }),
    ] {
        let mut begun = (*fresh).clone();
        begun.status = serde_json::from_value(made).unwrap();
        assert_eq!(uids(&begun, &[cluster(standby(0))]), [""; 0]);
    }
    // One that waits takes over no other.
    assert_eq!(
        uids(&with("/status", json!({})), &[cluster(standby(1))]),
        [""; 0]
    );
}

#[test]
fn what_is_so_of_the_parts_is_inherited_and_nothing_that_was_said_of_another() {
    let of = cluster(standby(0));
    let status = inherited(of.status.clone().unwrap(), of.identity());
    assert_eq!(status.network, of.status.as_ref().unwrap().network);
    assert_eq!(status.bootstrap_hash.as_deref(), Some("h"));
    assert!(status.conditions.is_empty());
    let mut taker = (*asked(json!({ "version": "1.36.3" }))).clone();
    taker.status = Some(status);
    assert_eq!(taker.identity(), of.identity());
    assert_eq!(taker.tenant_namespace(), of.tenant_namespace());
    assert_eq!(taker.metadata.uid.as_deref(), Some("d"));
}

#[test]
fn as_many_wait_as_the_configuration_says_one_after_the_other() {
    let two = settings(json!({ "1.36.3": 2 }));
    let make = |slot: u16| Step::Make {
        name: format!("standby-1-36-3-{slot}"),
        version: "1.36.3".to_owned(),
    };
    assert_eq!(plan(&[], &two, true, now()).0, [make(0)]);
    // Whoever asked for one comes first.
    assert_eq!(plan(&[], &two, false, now()).0, []);
    let one = [cluster(standby(0))];
    assert_eq!(plan(&one, &two, true, now()).0, [make(1)]);
    let both = [cluster(standby(0)), cluster(standby(1))];
    assert_eq!(plan(&both, &two, true, now()), (Vec::new(), None));
}

#[test]
fn one_goes_that_was_taken_over_that_nobody_wants_or_that_does_not_come_up() {
    let (one, none) = (settings(json!({ "1.36.3": 1 })), settings(json!({})));
    let gone = || Step::Delete {
        name: "standby-1-36-3-0".to_owned(),
        uid: "s0".to_owned(),
    };
    let there = [cluster(standby(0))];
    assert_eq!(plan(&there, &none, true, now()).0, [gone()]);
    let taken = [cluster(standby(0)), taken_by("s0")];
    // Its name is free only when it is gone.
    assert_eq!(plan(&taken, &one, true, now()).0, [gone()]);
    let of_another_version = settings(json!({ "1.35.4": 1 }));
    let steps = plan(&there, &of_another_version, false, now()).0;
    assert_eq!(steps, [gone()]);
    let mut other_spec = standby(0);
    other_spec["spec"]["controlPlane"] = json!({ "replicas": 2 });
    assert_eq!(plan(&[cluster(other_spec)], &one, true, now()).0, [gone()]);
    let mut silent = standby(0);
    silent["status"]["conditions"] = ready("2026-03-01T11:46:00Z", "False");
    let (steps, again) = plan(&[cluster(silent.clone())], &one, true, now());
    assert_eq!(
        (steps, again),
        (Vec::new(), Some(SignedDuration::from_mins(1)))
    );
    silent["status"]["conditions"] = ready("2026-03-01T11:45:00Z", "False");
    assert_eq!(plan(&[cluster(silent)], &one, true, now()).0, [gone()]);
    let mut going = standby(0);
    going["metadata"]["deletionTimestamp"] = json!(NOW);
    assert_eq!(plan(&[cluster(going)], &one, true, now()).0, []);
    // A user's, whatever its label says.
    let mut users = standby(0);
    users["metadata"]["namespace"] = json!("team-a");
    assert_eq!(plan(&[cluster(users)], &none, true, now()).0, []);
}

proptest! {
    #[test]
    fn nothing_is_made_twice_and_nothing_of_users_goes(
        slots in prop::collection::btree_set(0_u16..6, 0..6),
        count in 0_u16..6,
        is_quiet in any::<bool>(),
    ) {
        let all: Vec<_> = slots.iter().map(|slot| cluster(standby(*slot))).collect();
        let all = [all, vec![asked(json!({ "version": "1.36.3" }))]].concat();
        let (steps, _) = plan(&all, &settings(json!({ "1.36.3": count })), is_quiet, now());
        for step in steps {
            match step {
                Step::Make { name, .. } => {
                    let is_there = all.iter().any(|c| c.metadata.name.as_deref() == Some(&name));
                    prop_assert!(is_quiet && !is_there);
                }
                Step::Delete { uid, .. } => {
                    let slot: u16 = uid.trim_start_matches('s').parse().unwrap();
                    prop_assert!(slot >= count);
                }
            }
        }
    }
}
