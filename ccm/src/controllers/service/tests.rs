//! The lives of a Service that matter most; what holds for any is in [`laws`].
//!
//! Invariant: everything happens in [`clusters::Clusters`], which carry plans out as the APIs would.

mod clusters;
mod laws;
mod near;
mod played;
mod refused;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::cache::endpoint_slices::LocalEndpoints;
use crate::cache::services::{DesiredLoadBalancer, desired_load_balancer};
use crate::controllers::service::plan::plan;
use crate::names;
use crate::settings::{Endpoints, Settings};
use clusters::{ALL, Clusters, service, settings, target};

const UID: &str = "0a1b2c3d-1111-4222-8333-444455556666";

fn spec(patch: &Value) -> Clusters {
    let mut clusters = Clusters::new(service(patch));
    clusters.targets = vec![target(1), target(2)];
    clusters
}

fn ready_clusters(patch: &Value) -> Clusters {
    let mut clusters = spec(patch);
    clusters.reconcile(ALL);
    clusters
}

fn mirror_spec(clusters: &Clusters) -> Value {
    serde_json::to_value(clusters.mirror().spec.as_ref()).unwrap()
}

fn ready_addresses(clusters: &Clusters) -> Vec<String> {
    let mut all: Vec<_> = clusters
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
    let mut clusters = spec(&json!({}));
    clusters.reconcile(ALL);
    assert_eq!(clusters.log, ["PatchService", "ApplyMirror", "ApplySlice"]);
    assert_eq!(clusters.published, ["EnsuringLoadBalancer"]);
    assert_eq!(clusters.waiting, Some("NoAddressYet"));
    clusters.allocate("192.0.2.7");
    clusters.log.clear();
    clusters.reconcile(ALL);
    assert_eq!(clusters.log, ["PatchStatus"]);
    assert_eq!(clusters.addresses(), ["192.0.2.7"]);
    assert_eq!(clusters.waiting, None);
}

#[test]
fn address_that_changes_or_goes_reaches_the_tenant() {
    let mut clusters = ready_clusters(&json!({}));
    for address in [Some("192.0.2.7"), Some("192.0.2.8"), None] {
        match address {
            Some(address) => clusters.allocate(address),
            None => clusters.mirror_mut().status = None,
        }
        clusters.reconcile(ALL);
        let expected: Vec<_> = address.into_iter().collect();
        assert_eq!(clusters.addresses(), expected);
    }
}

#[test]
fn host_names_ports_and_modes_of_an_address_are_taken_over() {
    let mut clusters = ready_clusters(&json!({}));
    let ingress = json!([
        { "hostname": "lb.example.com", "ports": [{ "port": 80, "protocol": "TCP", "error": "Full" }] },
        { "ip": "192.0.2.7", "ipMode": "Proxy" },
    ]);
    let status = json!({ "loadBalancer": { "ingress": ingress } });
    clusters.mirror_mut().status = serde_json::from_value(status).unwrap();
    clusters.reconcile(ALL);
    let service = serde_json::to_value(clusters.service.as_ref()).unwrap();
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
        "healthCheckNodePort": 31234, "trafficDistribution": "PreferClose",
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 77 } },
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
        "ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "PreferDualStack",
        "clusterIP": "10.1.1.1", "clusterIPs": ["10.1.1.1"],
        "selector": { "app": "x" },
    });
    let mirror = mirror_spec(&ready_clusters(&wanted));
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
    let mut clusters = ready_clusters(&json!({ "loadBalancerSourceRanges": ["10.0.0.0/8"] }));
    clusters.change(&json!({ "spec": {
        "loadBalancerSourceRanges": null, "sessionAffinity": "ClientIP",
        "ports": [{ "port": 443, "protocol": "TCP", "nodePort": 30443 }],
    } }));
    clusters.reconcile(ALL);
    let mirror = mirror_spec(&clusters);
    assert_eq!(mirror["loadBalancerSourceRanges"], Value::Null);
    assert_eq!(mirror["sessionAffinity"], "ClientIP");
    assert_eq!(mirror["ports"].as_array().unwrap().len(), 1);
    let ports: Vec<_> = clusters
        .slices
        .values()
        .flat_map(|s| s.ports.clone().unwrap())
        .collect();
    assert_eq!(ports[0].port, Some(30443));
    assert!(clusters.published.contains(&"UpdatedLoadBalancer"));
}

#[test]
fn annotations_and_addresses_need_to_be_allowed() {
    let mut clusters = spec(&json!({
        "externalIPs": ["192.0.2.1", "198.51.100.1"], "loadBalancerIP": "198.51.100.2",
    }));
    clusters.change(&json!({ "metadata": { "annotations": { "lb.io/pool": "a", "other": "b" } } }));
    clusters.settings.annotations = vec!["lb.io/*".to_owned()];
    clusters.settings.addresses = vec!["192.0.2.0/24".parse().unwrap()];
    clusters.reconcile(ALL);
    let mirror = mirror_spec(&clusters);
    assert_eq!(mirror["externalIPs"], json!(["192.0.2.1"]));
    assert_eq!(mirror["loadBalancerIP"], Value::Null);
    let annotations = clusters.mirror().metadata.annotations.clone().unwrap();
    assert_eq!(annotations["lb.io/pool"], "a");
    assert!(!annotations.contains_key("other"));
    assert_eq!(
        clusters.complaints,
        ["AddressNotAllowed", "AddressNotAllowed"]
    );
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
fn service_that_came_with_a_copy_has_no_load_balancer_until_its_mark_is_taken_off() {
    let mark = json!({ "annotations": { names::ANNOTATION_COPIED: "true" },
        "finalizers": [names::FINALIZER] });
    let mut copied = spec(&json!({}));
    let mut service = serde_json::to_value(copied.service.as_ref()).unwrap();
    for (field, value) in mark.as_object().unwrap() {
        service["metadata"][field] = value.clone();
    }
    service["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }] } });
    copied.service = serde_json::from_value(service).unwrap();
    copied.reconcile(ALL);
    assert!(copied.mirrors.is_empty(), "{:?}", copied.log);
    assert_eq!(copied.complaints, ["CopiedLoadBalancer"]);
    let service = copied.service.clone().unwrap();
    let status = service.status.and_then(|status| status.load_balancer);
    assert!(
        status
            .and_then(|balancer| balancer.ingress)
            .is_none_or(|all| all.is_empty())
    );
    let finalizers = service.metadata.finalizers.unwrap_or_default();
    assert!(
        finalizers.is_empty(),
        "nothing of ours holds it: {finalizers:?}"
    );
    copied.log.clear();
    copied.reconcile(ALL);
    assert!(copied.log.is_empty(), "at rest: {:?}", copied.log);

    let service = copied.service.as_mut().unwrap();
    service.metadata.annotations = None;
    copied.reconcile(ALL);
    assert_eq!(copied.mirrors.len(), 1);
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
    let mut clusters = ready_clusters(&json!({}));
    clusters.allocate("192.0.2.7");
    clusters.change(&json!({ "spec": { "ports": [{ "port": 80, "protocol": "TCP" }] } }));
    clusters.reconcile(ALL);
    assert_eq!((clusters.mirrors.len(), clusters.addresses().len()), (1, 1));
    assert_eq!(clusters.complaints, ["NoNodePort"]);
}

#[test]
fn nodes_that_are_lost_leave_the_slices_and_all_lost_at_once_do_not() {
    let mut clusters = ready_clusters(&json!({}));
    assert_eq!(ready_addresses(&clusters), ["10.0.0.1", "10.0.0.2"]);
    clusters.targets[0].ready = false;
    clusters.reconcile(ALL);
    assert_eq!(ready_addresses(&clusters), ["10.0.0.2"]);
    clusters.targets[1].ready = false;
    clusters.reconcile(ALL);
    assert_eq!(
        ready_addresses(&clusters),
        ["10.0.0.1", "10.0.0.2"],
        "it is the API rather"
    );
    clusters.targets[0].serving = false;
    clusters.reconcile(ALL);
    assert_eq!(
        ready_addresses(&clusters),
        ["10.0.0.2"],
        "this machine is certainly off"
    );
}

#[test]
fn local_policy_follows_the_pods_of_the_service() {
    let mut clusters = spec(&json!({ "externalTrafficPolicy": "Local" }));
    let endpoints = |ready, serving| LocalEndpoints { ready, serving };
    clusters.local = [("node-2".into(), endpoints(true, true))].into();
    clusters.reconcile(ALL);
    assert_eq!(ready_addresses(&clusters), ["10.0.0.2"]);
    let slice = clusters.slices.values().next().unwrap();
    assert_eq!(
        slice.endpoints[0].node_name.as_deref(),
        Some("host-2"),
        "keeps the client's address"
    );
    clusters.local = [
        ("node-1".into(), endpoints(true, true)),
        ("node-2".into(), endpoints(false, true)),
    ]
    .into();
    clusters.reconcile(ALL);
    assert_eq!(ready_addresses(&clusters), ["10.0.0.1"]);
    let slice = clusters.slices.values().next().unwrap();
    let leaving = slice.endpoints[1].conditions.as_ref().unwrap();
    assert_eq!(
        (leaving.serving, leaving.terminating),
        (Some(true), Some(true))
    );
    clusters.local.clear();
    clusters.reconcile(ALL);
    assert_eq!(clusters.slices.len(), 0);
    assert_eq!(clusters.complaints, ["UnAvailableLoadBalancer"]);
    let words = |clusters: &Clusters| {
        let plan = plan(&clusters.observe(), &clusters.settings);
        let said = plan.complaints.iter().map(|notice| notice.message.clone());
        said.collect::<String>()
    };
    assert!(!words(&clusters).contains("Hosts"));
    clusters.unmapped_nodes = 2;
    assert!(
        words(&clusters).contains("2 of them are on machines outside"),
        "{}",
        words(&clusters)
    );
}

#[test]
fn deleted_service_goes_once_its_mirror_is_gone_and_not_before() {
    let mut clusters = ready_clusters(&json!({}));
    clusters.allocate("192.0.2.7");
    clusters.reconcile(ALL);
    clusters.held = true;
    clusters.delete_service();
    clusters.reconcile(ALL);
    assert!(
        clusters.service.is_some(),
        "whoever allocated the address still holds the mirror"
    );
    assert_eq!(clusters.addresses(), Vec::<String>::new());
    assert_eq!(clusters.waiting, Some("MirrorIsDeleted"));
    clusters.mirrors.clear();
    clusters.reconcile(ALL);
    assert_eq!(
        (clusters.service.as_ref(), clusters.slices.len()),
        (None, 0)
    );
    assert!(clusters.published.contains(&"DeletedLoadBalancer"));
}

#[test]
fn service_that_wants_no_load_balancer_any_more_loses_it() {
    let mut clusters = ready_clusters(&json!({}));
    clusters.change(&json!({ "spec": { "type": "ClusterIP" } }));
    clusters.reconcile(ALL);
    assert_eq!((clusters.mirrors.len(), clusters.slices.len()), (0, 0));
    assert_eq!(
        clusters.service.unwrap().metadata.finalizers,
        Some(Vec::new())
    );
}

#[test]
fn mirror_that_somebody_deletes_is_made_anew() {
    let mut clusters = ready_clusters(&json!({}));
    clusters.allocate("192.0.2.7");
    clusters.reconcile(ALL);
    clusters.mirrors.clear();
    clusters.reconcile(ALL);
    assert_eq!((clusters.mirrors.len(), clusters.addresses().len()), (1, 0));
}

#[test]
fn orphan_is_swept_with_its_slices() {
    let mut clusters = ready_clusters(&json!({}));
    clusters.service = None;
    clusters.reconcile(ALL);
    assert_eq!((clusters.mirrors.len(), clusters.slices.len()), (0, 0));
}

fn answer(clusters: &Clusters) -> Option<String> {
    let annotations = clusters.mirror().metadata.annotations.as_ref()?;
    annotations.get(names::ANNOTATION_ORPHAN).cloned()
}

#[test]
fn orphan_that_a_restore_keeps_stays_until_its_mark_goes_and_a_service_that_is_deleted_takes_it_along()
 {
    let mut clusters = ready_clusters(&json!({}));
    clusters.allocate("192.0.2.7");
    clusters.reconcile(ALL);
    let mark = || [(names::ANNOTATION_KEPT.to_owned(), "r".to_owned())].into();
    let annotations = &mut clusters.mirror_mut().metadata.annotations;
    annotations.get_or_insert_default().append(&mut mark());
    clusters.reconcile(ALL);
    assert_eq!(answer(&clusters), Some("r=false".to_owned()));
    let mut deleted = clusters.clone();
    clusters.service = None;
    clusters.reconcile(ALL);
    assert_eq!((clusters.mirrors.len(), clusters.slices.len()), (1, 1));
    assert_eq!(answer(&clusters), Some("r=true".to_owned()));
    // What was said for one restore is not said for the next.
    let annotations = clusters.mirror_mut().metadata.annotations.as_mut();
    let next = (names::ANNOTATION_KEPT.to_owned(), "s".to_owned());
    annotations.unwrap().extend([next]);
    clusters.log.clear();
    clusters.reconcile(ALL);
    assert_eq!(clusters.log, ["PatchMirror"]);
    assert_eq!(answer(&clusters), Some("s=true".to_owned()));
    let annotations = clusters.mirror_mut().metadata.annotations.as_mut();
    annotations.unwrap().remove(names::ANNOTATION_KEPT);
    clusters.reconcile(ALL);
    assert_eq!((clusters.mirrors.len(), clusters.slices.len()), (0, 0));
    // Whoever deletes the Service has decided.
    deleted.change(&json!({ "spec": { "type": "ClusterIP" } }));
    deleted.reconcile(ALL);
    assert_eq!((deleted.mirrors.len(), deleted.slices.len()), (0, 0));
}

#[test]
fn selector_mode_writes_no_slices_and_removes_those_of_before() {
    let mut clusters = ready_clusters(&json!({}));
    assert_eq!(clusters.slices.len(), 1);
    clusters.settings.endpoints = Endpoints::Selector([("a".to_owned(), "b".to_owned())].into());
    clusters.reconcile(ALL);
    assert_eq!(mirror_spec(&clusters)["selector"], json!({ "a": "b" }));
    assert_eq!(clusters.slices.len(), 0);
}

#[test]
fn mirror_of_the_kubevirt_ccm_keeps_its_name_and_address() {
    let mut clusters = spec(&json!({}));
    clusters.settings.adopt = true;
    let name = names::legacy_mirror(UID);
    clusters.foreign_mirror(&name, &json!({ "selector": { "role": "worker" } }));
    clusters.slice_of_selector(&name);
    clusters.reconcile(ALL);
    assert_eq!(clusters.mirrors.keys().collect::<Vec<_>>(), [&name]);
    assert_eq!(mirror_spec(&clusters)["selector"], Value::Null);
    assert_eq!(ready_addresses(&clusters), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(clusters.addresses(), ["192.0.2.99"]);
    // The KubeVirt CCM has a share in its ports, which an apply does not take off.
    clusters.change(&json!({ "spec": {
        "ports": [{ "name": "b", "port": 443, "protocol": "TCP", "nodePort": 30443 }],
    } }));
    clusters.reconcile(ALL);
    let ports = mirror_spec(&clusters)["ports"].clone();
    assert_eq!(ports.as_array().map(Vec::len), Some(1), "{ports}");
    assert_eq!(ports[0]["port"], 443);
    assert_eq!(ports[0]["targetPort"], 30443);
    assert_eq!(clusters.errors, Vec::<String>::new());
    // Nor does it lose them once nobody gives ccm the file of the KubeVirt CCM any more.
    clusters.settings.adopt = false;
    clusters.reconcile(ALL);
    assert_eq!(clusters.mirrors.keys().collect::<Vec<_>>(), [&name]);
    assert_eq!(clusters.addresses(), ["192.0.2.99"]);
}

#[test]
fn desired_load_balancer_tells_ours_theirs_and_none_apart() {
    let desired = |patch: &Value| {
        let service: Service = service(patch);
        desired_load_balancer(&service, &settings())
    };
    assert_eq!(desired(&json!({})), DesiredLoadBalancer::Ours);
    assert_eq!(
        desired(&json!({ "type": "ClusterIP" })),
        DesiredLoadBalancer::None
    );
    assert_eq!(
        desired(&json!({ "loadBalancerClass": "x" })),
        DesiredLoadBalancer::Theirs("x".to_owned())
    );
    assert_eq!(Settings::default().endpoints, Endpoints::Slices);
}
