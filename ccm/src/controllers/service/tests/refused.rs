//! What the management cluster refuses or changes: it costs a Service neither its endpoints nor its
//! address.
//!
//! Invariant: each refusal here is one that a real API gives.

use serde_json::json;

use super::clusters::{ALL, target};
use super::{mirror_spec, ready_addresses, ready_clusters, spec};
use crate::controllers::service::plan::plan;
use crate::limits::Over;

#[test]
fn refused_change_of_a_mirror_holds_up_neither_machines_nor_addresses() {
    let mut clusters = ready_clusters(&json!({}));
    clusters.refuses = true;
    clusters.change(&json!({ "spec": { "sessionAffinity": "ClientIP" } }));
    clusters.targets = vec![target(2), target(3)];
    clusters.allocate("192.0.2.7");
    clusters.reconcile(ALL);
    assert_eq!(ready_addresses(&clusters), ["10.0.0.2", "10.0.0.3"]);
    assert_eq!(clusters.addresses(), ["192.0.2.7"]);
    assert_eq!(clusters.errors, ["exceeded quota"], "and it is tried again");
    assert!(!clusters.published.contains(&"UpdatedLoadBalancer"));
    assert!(clusters.published.contains(&"EnsuredLoadBalancer"));
}

#[test]
fn ports_that_a_refused_mirror_still_has_go_on_leading_somewhere() {
    let mut clusters = ready_clusters(&json!({
        "ports": [{ "name": "old", "port": 80, "protocol": "TCP", "nodePort": 30080 }],
    }));
    clusters.refuses = true;
    let ports = json!([{ "name": "new", "port": 81, "protocol": "TCP", "nodePort": 30081 }]);
    clusters.change(&json!({ "spec": { "ports": ports } }));
    clusters.reconcile(ALL);
    let named = |clusters: &super::Clusters| {
        let slices = clusters.slices.values();
        let ports = slices.flat_map(|s| s.ports.clone().unwrap());
        let mut ports: Vec<_> = ports.map(|p| (p.name.unwrap(), p.port.unwrap())).collect();
        ports.sort();
        ports
    };
    let both = [("new".to_owned(), 30081), ("old".to_owned(), 30080)];
    assert_eq!(named(&clusters), both);
    clusters.refuses = false;
    clusters.reconcile(ALL);
    assert_eq!(named(&clusters), both[..1]);
}

#[test]
fn service_that_is_over_a_limit_says_what_to_do_and_is_made_once_there_is_a_place() {
    let mut clusters = spec(&json!({}));
    clusters.over = Some(Over::Services);
    clusters.reconcile(ALL);
    assert_eq!(clusters.log, [""; 0], "not even a finalizer");
    assert_eq!(clusters.complaints, ["TooManyLoadBalancers"]);
    assert_eq!(clusters.waiting, Some("TooManyLoadBalancers"));
    let told = &plan(&clusters.observe(), &clusters.settings).complaints[0].message;
    for words in ["(500)", "delete a Service", "ask whoever runs"] {
        assert!(told.contains(words), "{told}");
    }
    clusters.over = None;
    clusters.reconcile(ALL);
    assert_eq!(clusters.mirrors.len(), 1);
    assert_eq!(clusters.complaints, [""; 0]);
}

#[test]
fn ports_over_the_limit_are_not_mapped_and_those_that_were_go_on() {
    let mut clusters = ready_clusters(&json!({}));
    let ports: Vec<_> = (80..90)
        .map(|port| json!({ "name": format!("p{port}"), "port": port, "protocol": "TCP", "nodePort": 30000 + port }))
        .collect();
    clusters.change(&json!({ "spec": { "ports": ports } }));
    clusters.over = Some(Over::Ports);
    clusters.targets = vec![target(3)];
    clusters.reconcile(ALL);
    assert_eq!(ready_addresses(&clusters), ["10.0.0.3"]);
    assert_eq!(mirror_spec(&clusters)["ports"].as_array().unwrap().len(), 1);
    assert_eq!(clusters.complaints, ["TooManyLoadBalancers"]);
    let slices = clusters.slices.values();
    let most = slices
        .map(|slice| slice.ports.as_ref().unwrap().len())
        .max();
    assert!(most <= Some(2), "slices do not grow either");
}

#[test]
fn service_without_ports_that_can_be_mapped_keeps_sending_to_the_machines_that_there_are() {
    let mut clusters = ready_clusters(&json!({}));
    clusters.change(&json!({ "spec": { "ports": [{ "port": 80, "protocol": "TCP" }] } }));
    clusters.targets = vec![target(3)];
    clusters.reconcile(ALL);
    assert_eq!(ready_addresses(&clusters), ["10.0.0.3"]);
}

#[test]
fn dual_stack_that_is_preferred_becomes_what_both_sides_have() {
    let prefer = json!({ "ipFamilies": ["IPv4"], "ipFamilyPolicy": "PreferDualStack" });
    let both = json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack" });
    for (wanted, stacks, families, policy) in [
        (&prefer, vec!["IPv4"], json!(["IPv4"]), "SingleStack"),
        (
            &prefer,
            vec!["IPv4", "IPv6"],
            json!(["IPv4"]),
            "SingleStack",
        ),
        (&both, vec!["IPv4"], json!(["IPv4"]), "PreferDualStack"),
        (
            &both,
            vec!["IPv4", "IPv6"],
            json!(["IPv4", "IPv6"]),
            "PreferDualStack",
        ),
    ] {
        let mut clusters = spec(wanted);
        clusters.stacks = stacks;
        clusters.reconcile(ALL);
        let mirror = mirror_spec(&clusters);
        assert_eq!(
            (&mirror["ipFamilies"], &mirror["ipFamilyPolicy"]),
            (&families, &json!(policy))
        );
        let slices: Vec<_> = clusters.slices.values().map(|s| &s.address_type).collect();
        assert_eq!(json!(slices), families);
        clusters.allocate("192.0.2.7");
        clusters.reconcile(ALL);
        assert_eq!(clusters.addresses(), ["192.0.2.7"]);
        assert_eq!((clusters.errors.len(), clusters.complaints.len()), (0, 0));
    }
}

#[test]
fn families_are_those_of_the_machines_and_stay_while_there_are_none() {
    let mut clusters = spec(&json!({
        "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack",
    }));
    for target in &mut clusters.targets {
        target.addresses.truncate(1);
    }
    clusters.reconcile(ALL);
    assert_eq!(mirror_spec(&clusters)["ipFamilies"], json!(["IPv4"]));
    clusters.targets.clear();
    clusters.reconcile(ALL);
    assert_eq!(mirror_spec(&clusters)["ipFamilies"], json!(["IPv4"]));
    clusters.targets = vec![target(1)];
    clusters.reconcile(ALL);
    assert_eq!(
        mirror_spec(&clusters)["ipFamilies"],
        json!(["IPv4", "IPv6"])
    );
}

#[test]
fn change_by_somebody_who_always_wins_is_accepted_and_told_once() {
    let mut clusters = spec(&json!({}));
    clusters.mutation = json!({ "spec": { "loadBalancerSourceRanges": ["192.0.2.0/24"] } });
    clusters.change(&json!({ "spec": { "loadBalancerSourceRanges": ["10.0.0.0/8"] } }));
    clusters.reconcile(ALL);
    assert_eq!(ready_addresses(&clusters), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(clusters.complaints, ["LoadBalancerDiffers"]);
    clusters.log.clear();
    assert_eq!(clusters.reconcile(ALL), 0, "{:?}", clusters.log);
    // Whoever begins anew asks once, and accepts the same.
    clusters.restart();
    clusters.reconcile(ALL);
    assert_eq!(clusters.log, ["ApplyMirror"]);
    // What somebody changes by hand is set right all the same.
    clusters
        .mirror_mut()
        .spec
        .as_mut()
        .unwrap()
        .load_balancer_source_ranges = None;
    clusters.log.clear();
    clusters.reconcile(ALL);
    assert_eq!(clusters.log, ["ApplyMirror"]);
    // Once nobody changes it any more, the next change of the Service brings it back.
    clusters.mutation = json!(null);
    clusters.change(&json!({ "spec": { "sessionAffinity": "ClientIP" } }));
    clusters.reconcile(ALL);
    let mirror = mirror_spec(&clusters);
    assert_eq!(mirror["loadBalancerSourceRanges"], json!(["10.0.0.0/8"]));
    assert_eq!(clusters.complaints.len(), 0);
}
