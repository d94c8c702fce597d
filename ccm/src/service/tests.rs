//! The lives of a Service that matter most; what holds for any is in [`laws`].
//!
//! Invariant: everything happens in a [`world::World`], which carries plans out as the APIs would.

mod laws;
mod world;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::plan::{Presence, Wish, wish};
use crate::names;
use crate::settings::{Endpoints, Settings};
use world::{ALL, World, service, settings, target};

const UID: &str = "0a1b2c3d-1111-4222-8333-444455556666";

fn spec(patch: &Value) -> World {
    let mut world = World::new(service(patch));
    world.targets = vec![target(1), target(2)];
    world
}

fn ready_world(patch: &Value) -> World {
    let mut world = spec(patch);
    world.reconcile(ALL);
    world
}

fn mirror_spec(world: &World) -> Value {
    serde_json::to_value(world.mirror().spec.as_ref()).unwrap()
}

fn ready_addresses(world: &World) -> Vec<String> {
    let mut all: Vec<_> = world
        .slices
        .values()
        .flat_map(|slice| &slice.endpoints)
        .filter(|e| e.conditions.as_ref().and_then(|c| c.ready) == Some(true))
        .flat_map(|e| e.addresses.clone())
        .collect();
    all.sort();
    all
}

#[test]
fn service_gets_finalizer_mirror_slices_and_address_in_this_order() {
    let mut world = spec(&json!({}));
    world.reconcile(ALL);
    assert_eq!(world.log, ["PatchService", "ApplyMirror", "ApplySlice"]);
    assert_eq!(world.told, ["EnsuringLoadBalancer"]);
    assert_eq!(world.waiting, Some("NoAddressYet"));
    world.allocate("192.0.2.7");
    world.log.clear();
    world.reconcile(ALL);
    assert_eq!(world.log, ["PatchStatus"]);
    assert_eq!(world.addresses(), ["192.0.2.7"]);
    assert_eq!(world.waiting, None);
}

#[test]
fn address_that_changes_or_goes_reaches_the_tenant() {
    let mut world = ready_world(&json!({}));
    for address in [Some("192.0.2.7"), Some("192.0.2.8"), None] {
        match address {
            Some(address) => world.allocate(address),
            None => world.mirror_mut().status = None,
        }
        world.reconcile(ALL);
        let expected: Vec<_> = address.into_iter().collect();
        assert_eq!(world.addresses(), expected);
    }
}

#[test]
fn host_names_ports_and_modes_of_an_address_are_taken_over() {
    let mut world = ready_world(&json!({}));
    let ingress = json!([
        { "hostname": "lb.example.com", "ports": [{ "port": 80, "protocol": "TCP", "error": "Full" }] },
        { "ip": "192.0.2.7", "ipMode": "Proxy" },
    ]);
    let status = json!({ "loadBalancer": { "ingress": ingress } });
    world.mirror_mut().status = serde_json::from_value(status).unwrap();
    world.reconcile(ALL);
    let service = serde_json::to_value(world.service.as_ref()).unwrap();
    assert_eq!(service["status"]["loadBalancer"]["ingress"], ingress);
}

#[test]
fn everything_that_says_how_traffic_is_treated_is_taken_over() {
    let wanted = json!({
        "ports": [
            { "name": "dns", "protocol": "UDP", "port": 53, "nodePort": 30053 },
            { "name": "dns-tcp", "protocol": "TCP", "port": 53, "nodePort": 30053 },
            { "name": "sctp", "protocol": "SCTP", "port": 9, "nodePort": 30009 },
            { "name": "web", "protocol": "TCP", "port": 80, "nodePort": 30080,
              "appProtocol": "kubernetes.io/h2c" },
        ],
        "externalTrafficPolicy": "Local", "internalTrafficPolicy": "Cluster",
        "healthCheckNodePort": 31234, "trafficDistribution": "PreferSameZone",
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 77 } },
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
        "ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "PreferDualStack",
        "clusterIP": "10.1.1.1", "clusterIPs": ["10.1.1.1"],
        "selector": { "app": "x" },
    });
    let mirror = mirror_spec(&ready_world(&wanted));
    for field in [
        "externalTrafficPolicy",
        "internalTrafficPolicy",
        "trafficDistribution",
        "sessionAffinity",
        "sessionAffinityConfig",
        "loadBalancerSourceRanges",
        "ipFamilies",
        "ipFamilyPolicy",
    ] {
        assert_eq!(mirror[field], wanted[field], "{field}");
    }
    for field in ["healthCheckNodePort", "clusterIP", "clusterIPs", "selector"] {
        assert_eq!(
            mirror[field],
            Value::Null,
            "{field} is of the tenant cluster alone"
        );
    }
    let ports = mirror["ports"].as_array().unwrap();
    assert_eq!(ports.len(), 4);
    for port in ports {
        let same = |p: &&Value| p["name"] == port["name"];
        let theirs = wanted["ports"]
            .as_array()
            .unwrap()
            .iter()
            .find(same)
            .unwrap();
        assert_eq!(port["targetPort"], theirs["nodePort"]);
        assert_eq!(port["nodePort"], 32000, "the management cluster's own");
        for field in ["port", "protocol", "appProtocol"] {
            assert_eq!(port[field], theirs[field]);
        }
    }
}

#[test]
fn every_later_change_reaches_the_mirror_and_what_is_dropped_goes() {
    let mut world = ready_world(&json!({ "loadBalancerSourceRanges": ["10.0.0.0/8"] }));
    world.change(&json!({ "spec": {
        "loadBalancerSourceRanges": null, "sessionAffinity": "ClientIP",
        "ports": [{ "port": 443, "protocol": "TCP", "nodePort": 30443 }],
    } }));
    world.reconcile(ALL);
    let mirror = mirror_spec(&world);
    assert_eq!(mirror["loadBalancerSourceRanges"], Value::Null);
    assert_eq!(mirror["sessionAffinity"], "ClientIP");
    assert_eq!(mirror["ports"].as_array().unwrap().len(), 1);
    let ports: Vec<_> = world
        .slices
        .values()
        .flat_map(|s| s.ports.clone().unwrap())
        .collect();
    assert_eq!(ports[0].port, Some(30443));
    assert!(world.told.contains(&"UpdatedLoadBalancer"));
}

#[test]
fn annotations_and_addresses_need_to_be_allowed() {
    let mut world = spec(&json!({
        "externalIPs": ["192.0.2.1", "198.51.100.1"], "loadBalancerIP": "198.51.100.2",
    }));
    world.change(&json!({ "metadata": { "annotations": { "lb.io/pool": "a", "other": "b" } } }));
    world.settings.annotations = vec!["lb.io/*".to_owned()];
    world.settings.addresses = vec!["192.0.2.0/24".parse().unwrap()];
    world.reconcile(ALL);
    let mirror = mirror_spec(&world);
    assert_eq!(mirror["externalIPs"], json!(["192.0.2.1"]));
    assert_eq!(mirror["loadBalancerIP"], Value::Null);
    let annotations = world.mirror().metadata.annotations.clone().unwrap();
    assert_eq!(annotations["lb.io/pool"], "a");
    assert!(!annotations.contains_key("other"));
    assert_eq!(world.complaints, ["AddressNotAllowed", "AddressNotAllowed"]);
}

#[test]
fn class_of_somebody_else_is_left_alone_and_one_of_ours_is_not() {
    let mut theirs = spec(&json!({ "loadBalancerClass": "other.io/lb" }));
    theirs.change(&json!({ "metadata": { "finalizers": [names::FINALIZER] } }));
    let before = theirs.service.clone();
    theirs.reconcile(ALL);
    assert_eq!(
        (theirs.log.len(), theirs.complaints.as_slice()),
        (0, &["OtherClass"][..])
    );
    assert_eq!(theirs.service, before);
    let mut ours = spec(&json!({ "loadBalancerClass": "covey.dev/lb" }));
    ours.settings.classes.insert("covey.dev/lb".to_owned());
    ours.settings.mirror_class = Some("metallb".to_owned());
    ours.reconcile(ALL);
    assert_eq!(mirror_spec(&ours)["loadBalancerClass"], "metallb");
}

#[test]
fn ports_without_a_node_port_are_named_and_the_others_are_mapped() {
    let ports = json!([
        { "name": "a", "port": 80, "protocol": "TCP" },
        { "name": "b", "port": 81, "protocol": "TCP", "nodePort": 30081 },
    ]);
    let mut some = spec(&json!({ "allocateLoadBalancerNodePorts": false, "ports": ports }));
    some.reconcile(ALL);
    assert_eq!(mirror_spec(&some)["ports"][0]["name"], "b");
    assert_eq!(some.complaints, ["NoNodePort"]);
    let none = json!([{ "port": 80, "protocol": "TCP" }]);
    let mut none = spec(&json!({ "allocateLoadBalancerNodePorts": false, "ports": none }));
    none.reconcile(ALL);
    assert_eq!((none.mirrors.len(), none.waiting), (0, Some("NotMappable")));
    assert_eq!(none.log.len(), 0, "not even a finalizer");
}

#[test]
fn service_that_cannot_be_mapped_any_more_keeps_its_load_balancer() {
    let mut world = ready_world(&json!({}));
    world.allocate("192.0.2.7");
    world.change(&json!({ "spec": { "ports": [{ "port": 80, "protocol": "TCP" }] } }));
    world.reconcile(ALL);
    assert_eq!((world.mirrors.len(), world.addresses().len()), (1, 1));
    assert_eq!(world.complaints, ["NoNodePort"]);
}

#[test]
fn nodes_that_are_lost_leave_the_slices_and_all_lost_at_once_do_not() {
    let mut world = ready_world(&json!({}));
    assert_eq!(ready_addresses(&world), ["10.0.0.1", "10.0.0.2"]);
    world.targets[0].ready = false;
    world.reconcile(ALL);
    assert_eq!(ready_addresses(&world), ["10.0.0.2"]);
    world.targets[1].ready = false;
    world.reconcile(ALL);
    assert_eq!(
        ready_addresses(&world),
        ["10.0.0.1", "10.0.0.2"],
        "it is the API rather"
    );
    world.targets[0].serving = false;
    world.reconcile(ALL);
    assert_eq!(
        ready_addresses(&world),
        ["10.0.0.2"],
        "this machine is certainly off"
    );
}

#[test]
fn local_policy_follows_the_pods_of_the_service() {
    let mut world = spec(&json!({ "externalTrafficPolicy": "Local" }));
    let presence = |ready, serving| Presence { ready, serving };
    world.local = [("node-2".into(), presence(true, true))].into();
    world.reconcile(ALL);
    assert_eq!(ready_addresses(&world), ["10.0.0.2"]);
    let slice = world.slices.values().next().unwrap();
    assert_eq!(
        slice.endpoints[0].node_name.as_deref(),
        Some("host-2"),
        "keeps the client's address"
    );
    world.local = [
        ("node-1".into(), presence(true, true)),
        ("node-2".into(), presence(false, true)),
    ]
    .into();
    world.reconcile(ALL);
    assert_eq!(ready_addresses(&world), ["10.0.0.1"]);
    let slice = world.slices.values().next().unwrap();
    let leaving = slice.endpoints[1].conditions.as_ref().unwrap();
    assert_eq!(
        (leaving.serving, leaving.terminating),
        (Some(true), Some(true))
    );
    world.local.clear();
    world.reconcile(ALL);
    assert_eq!(world.slices.len(), 0);
    assert_eq!(world.complaints, ["UnAvailableLoadBalancer"]);
}

#[test]
fn deleted_service_goes_once_its_mirror_is_gone_and_not_before() {
    let mut world = ready_world(&json!({}));
    world.allocate("192.0.2.7");
    world.reconcile(ALL);
    world.held = true;
    world.delete_service();
    world.reconcile(ALL);
    assert!(
        world.service.is_some(),
        "whoever allocated the address still holds the mirror"
    );
    assert_eq!(world.addresses(), Vec::<String>::new());
    assert_eq!(world.waiting, Some("MirrorIsDeleted"));
    world.mirrors.clear();
    world.reconcile(ALL);
    assert_eq!((world.service.as_ref(), world.slices.len()), (None, 0));
    assert!(world.told.contains(&"DeletedLoadBalancer"));
}

#[test]
fn service_that_wants_no_load_balancer_any_more_loses_it() {
    let mut world = ready_world(&json!({}));
    world.change(&json!({ "spec": { "type": "ClusterIP" } }));
    world.reconcile(ALL);
    assert_eq!((world.mirrors.len(), world.slices.len()), (0, 0));
    assert_eq!(world.service.unwrap().metadata.finalizers, Some(Vec::new()));
}

#[test]
fn mirror_that_somebody_deletes_is_made_anew() {
    let mut world = ready_world(&json!({}));
    world.allocate("192.0.2.7");
    world.reconcile(ALL);
    world.mirrors.clear();
    world.reconcile(ALL);
    assert_eq!((world.mirrors.len(), world.addresses().len()), (1, 0));
}

#[test]
fn orphan_is_swept_with_its_slices() {
    let mut world = ready_world(&json!({}));
    world.service = None;
    world.reconcile(ALL);
    assert_eq!((world.mirrors.len(), world.slices.len()), (0, 0));
}

#[test]
fn selector_mode_writes_no_slices_and_removes_those_of_before() {
    let mut world = ready_world(&json!({}));
    assert_eq!(world.slices.len(), 1);
    world.settings.endpoints = Endpoints::Selector([("a".to_owned(), "b".to_owned())].into());
    world.reconcile(ALL);
    assert_eq!(mirror_spec(&world)["selector"], json!({ "a": "b" }));
    assert_eq!(world.slices.len(), 0);
}

#[test]
fn mirror_of_the_kubevirt_ccm_keeps_its_name_and_address() {
    let mut world = spec(&json!({}));
    world.settings.adopt = true;
    let name = names::legacy_mirror(UID);
    world.foreign_mirror(&name, &json!({ "selector": { "role": "worker" } }));
    world.slice_of_selector(&name);
    world.reconcile(ALL);
    assert_eq!(world.mirrors.keys().collect::<Vec<_>>(), [&name]);
    assert_eq!(mirror_spec(&world)["selector"], Value::Null);
    assert_eq!(ready_addresses(&world), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(world.addresses(), ["192.0.2.99"]);
}

#[test]
fn wish_tells_ours_theirs_and_none_apart() {
    let wish = |patch: &Value| {
        let service: Service = service(patch);
        wish(&service, &settings())
    };
    assert_eq!(wish(&json!({})), Wish::Ours);
    assert_eq!(wish(&json!({ "type": "ClusterIP" })), Wish::None);
    assert_eq!(
        wish(&json!({ "loadBalancerClass": "x" })),
        Wish::Theirs("x".to_owned())
    );
    assert_eq!(Settings::default().endpoints, Endpoints::Slices);
}
