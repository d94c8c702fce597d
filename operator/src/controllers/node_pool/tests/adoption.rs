//! Nodes that run already are taken over before anything else is made where they are.

use api::node_pool::locations::ONLY_LOCATION;
use api::{Host, Machine, names};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::world::{World, read};
use crate::controllers::node_pool::nodes::{self, Node, Nodes};

const OURS: &str = "aa";

fn host(name: &str, rack: &str, change: &Value) -> Host {
    let good = |type_: &str| {
        json!({ "type": type_, "status": "True", "reason": "AsExpected", "message": "",
            "lastTransitionTime": "2026-11-21T10:00:00Z" })
    };
    let mut host = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
        "metadata": { "name": name, "namespace": "users", "uid": format!("uid-{name}"), "generation": 1,
            "finalizers": [names::FINALIZER_HOST] },
        "spec": { "address": "192.0.2.10", "user": "root", "sshKeySecretName": "ssh", "hostKeys": ["x"],
            "labels": { "rack": rack }, "adopt": true },
        "status": {
            "observedGeneration": 1, "phase": "Adoptable",
            "node": { "name": format!("node-{name}"), "caFingerprints": ["old", OURS] },
            "facts": { "machineID": name, "hostKey": name, "architecture": "amd64", "cpu": 8, "memory": "16000Mi",
                "os": "debian 12", "kernel": "6.1.0", "cgroup2": true, "tun": true, "kubelet": "1.35.4" },
            "conditions": [good("Reachable"), good("Verified")],
        },
    });
    for (key, value) in change.as_object().unwrap() {
        for (inner, value) in value.as_object().unwrap() {
            host[key][inner] = value.clone();
        }
    }
    read(host)
}

/// Two locations, each with the Hosts of a rack, and one of virtual machines.
fn racks(replicas: i32) -> World {
    let rack = |name: &str| {
        json!({ "name": name, "weight": 1,
            "provider": { "static": { "selector": { "matchLabels": { "rack": name } } } } })
    };
    let vms = json!({ "name": "vms", "weight": 1, "provider": { "kubevirt": {} } });
    let locations = json!([rack("a"), rack("b"), vms]);
    World::new(
        replicas,
        &json!({ "provider": null, "locations": locations }),
    )
}

fn found(world: &World, hosts: &[Host], trusted: &[&str]) -> Nodes {
    let trusted: Vec<_> = trusted.iter().map(|text| (*text).to_owned()).collect();
    nodes::of(&world.pool, hosts, Some(&trusted))
}

fn taken(world: &World) -> Vec<(String, Option<String>, String)> {
    let adopts = |machine: &&Machine| machine.adopts().is_some();
    let mut all: Vec<_> = world
        .machines
        .iter()
        .filter(adopts)
        .map(|m| {
            (
                m.name_any(),
                m.spec.location.clone(),
                m.spec.version.clone(),
            )
        })
        .collect();
    all.sort();
    all
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn nodes_are_known_by_location_and_by_an_authority_that_is_trusted() {
    let world = racks(3);
    let none = json!({});
    let hosts = [
        host("h2", "b", &none),
        host("h1", "a", &none),
        host("h3", "c", &none),
    ];
    let nodes = found(&world, &hosts, &["new", OURS]);
    let names = |location: &str| -> Vec<_> {
        let of = nodes.of.get(location).into_iter().flatten();
        of.map(|node| node.name.as_str()).collect()
    };
    assert_eq!(
        (names("a"), names("b"), names("vms")),
        (vec!["node-h1"], vec!["node-h2"], vec![])
    );
    assert!(nodes.awaited.is_empty());
    assert_eq!(nodes.of["a"][0].fingerprint, OURS);
    // Another authority, and one that is trusted no more.
    assert_eq!(found(&world, &hosts, &["new"]), Nodes::default());
    // What does not fit the selector, or is not to be had.
    for change in [
        json!({ "spec": { "maintenance": true } }),
        json!({ "spec": { "adopt": false } }),
        json!({ "metadata": { "namespace": "others" } }),
        json!({ "status": { "phase": "Quarantined" } }),
        json!({ "status": { "claim": { "machineName": "m", "machineUID": "m", "tenantClusterUID": "t" } } }),
    ] {
        let hosts = [host("h1", "a", &change)];
        assert_eq!(found(&world, &hosts, &[OURS]), Nodes::default(), "{change}");
    }
}

#[test]
fn what_nobody_has_looked_at_is_awaited() {
    let world = racks(3);
    let fresh = [host(
        "h1",
        "b",
        &json!({ "status": { "observedGeneration": null, "phase": null } }),
    )];
    let nodes = found(&world, &fresh, &[OURS]);
    assert_eq!(nodes.awaited.iter().collect::<Vec<_>>(), ["b"]);
    // The authority is not known yet.
    let hosts = [host("h1", "a", &json!({}))];
    let nodes = nodes::of(&world.pool, &hosts, None);
    assert_eq!((nodes.of.len(), nodes.awaited.len()), (0, 1));
    // One that was looked at and cannot be reached is not.
    let down = [host(
        "h1",
        "a",
        &json!({ "status": { "phase": "Unverified" } }),
    )];
    assert_eq!(found(&world, &down, &[OURS]), Nodes::default());
}

#[test]
fn each_location_takes_over_its_own_nodes_before_it_makes_others() {
    let mut world = racks(6);
    let none = json!({});
    let old = json!({ "status": { "facts": { "machineID": "h2", "hostKey": "h2", "architecture": "amd64", "cpu": 8,
        "memory": "16000Mi", "os": "debian 12", "kernel": "6.1.0", "cgroup2": true, "tun": true, "kubelet": "1.34.2" } } });
    let hosts = [
        host("h1", "a", &none),
        host("h2", "b", &old),
        host("h3", "b", &none),
        host("h4", "b", &none),
    ];
    world.nodes = found(&world, &hosts, &[OURS]);
    world.settle();
    let expected = [
        ("node-h1".to_owned(), some("a"), "1.35.4".to_owned()),
        ("node-h2".to_owned(), some("b"), "1.34.2".to_owned()),
        ("node-h3".to_owned(), some("b"), "1.35.4".to_owned()),
        ("node-h4".to_owned(), some("b"), "1.35.4".to_owned()),
    ];
    assert_eq!(
        taken(&world),
        expected,
        "two of each location, and node-h4 is there to take the place of the old one"
    );
    assert_eq!(world.machines.len(), 7, "and none was taken away again");
    let adopts = world
        .machines
        .iter()
        .find_map(|m| (m.name_any() == "node-h1").then(|| m.adopts()));
    assert_eq!(adopts, Some(Some(("uid-h1", OURS))));
}

#[test]
fn a_name_that_is_taken_or_a_kubelet_that_is_not_served_is_left_alone() {
    let mut world = racks(3);
    let none = json!({});
    world.nodes = found(&world, &[host("h1", "a", &none)], &[OURS]);
    world.nodes.of.get_mut("a").unwrap().push(Node {
        name: "node-new".to_owned(),
        host: "uid-new".to_owned(),
        fingerprint: OURS.to_owned(),
        version: "1.36.0".to_owned(),
    });
    let mut other = racks(1);
    other.settle();
    let mut other = other.machines.remove(0);
    other.metadata.name = some("node-h1");
    other.metadata.owner_references = None;
    world.others = vec![std::sync::Arc::new(other)];
    world.settle();
    assert_eq!(taken(&world), []);
    assert_eq!(world.machines.len(), 3);
}

#[test]
fn nothing_is_made_where_nodes_are_awaited_and_the_pool_looks_again() {
    let mut world = World::new(2, &json!({ "provider": { "static": {} } }));
    world.nodes.awaited.insert(ONLY_LOCATION.to_owned());
    world.settle();
    assert_eq!(world.machines.len(), 0);
    let again = world.plan().requeue_after.unwrap();
    assert!(again.as_secs() <= 5, "{again:?}");
    world.nodes = found(&world, &[host("h1", "a", &json!({}))], &[OURS]);
    world.settle();
    let names: Vec<_> = taken(&world).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(
        (names, world.machines.len()),
        (vec!["node-h1".to_owned()], 2)
    );
}

#[test]
fn machines_that_wait_for_a_host_give_way_and_nobody_else_does() {
    let mut world = World::new(2, &json!({ "provider": { "static": {} } }));
    world.settle();
    assert_eq!(world.machines.len(), 2);
    // One of them has a Host.
    let has = world.machines[0].name_any();
    world.machines[0].status = Some(read(json!({
        "phase": "Creating", "addresses": [{ "type": "InternalIP", "address": "192.0.2.9" }],
    })));
    let none = json!({});
    world.nodes = found(
        &world,
        &[host("h1", "a", &none), host("h2", "a", &none)],
        &[OURS],
    );
    world.settle();
    world
        .machines
        .retain(|m| m.metadata.deletion_timestamp.is_none());
    world.settle();
    let names: Vec<_> = world.machines.iter().map(ResourceExt::name_any).collect();
    assert_eq!((names.len(), taken(&world).len()), (2, 1), "{names:?}");
    assert!(names.contains(&has), "{names:?}");
}
