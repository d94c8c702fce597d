//! What nodes and ServiceCIDRs that come and go make of the settings in force.
//!
//! Invariant: tests tell what a watch would, and look at settings alone.

use serde_json::{Value, json};
use tenant_cp::Settings;

use super::cache::{Kind, WatchedObject};
use super::{ReservedRanges, kinds};
use crate::watches::kept::Keeper as _;

fn node(name: &str, pods: &str, address: &str) -> WatchedObject {
    let node = json!({
        "metadata": { "name": name }, "spec": { "podCIDRs": [pods, "nonsense"] },
        "status": { "addresses": [
            { "type": "Hostname", "address": name },
            { "type": "InternalIP", "address": address },
            { "type": "InternalIP", "address": "127.0.0.1" },
        ] },
    });
    WatchedObject::Node(serde_json::from_value(node).unwrap())
}

fn services(name: &str, cidrs: &Value) -> WatchedObject {
    let object = json!({ "metadata": { "name": name }, "spec": { "cidrs": cidrs } });
    let object: kinds::ServiceCidr = serde_json::from_value(object).unwrap();
    WatchedObject::ServiceCidr(object)
}

fn listed(ranges: &ReservedRanges, kind: Kind, objects: &[WatchedObject]) {
    ranges.begin(kind);
    objects.iter().for_each(|object| ranges.apply(object));
    ranges.end(kind);
}

fn reserved(ranges: &ReservedRanges) -> Vec<String> {
    let settings = ranges.settings();
    let reserved = settings.network.reserved.iter();
    reserved.map(ToString::to_string).collect()
}

fn is_known(ranges: &ReservedRanges) -> bool {
    ranges.settings().network.reserved_unknown.is_none()
}

fn found() -> ReservedRanges {
    let ranges = ReservedRanges::new(Settings::default());
    let nodes = [
        node("a", "10.244.0.0/24", "192.0.2.10"),
        node("b", "10.244.1.0/24", "192.0.2.20"),
        node("c", "10.244.2.0/24", "192.0.2.30"),
    ];
    listed(&ranges, Kind::Node, &nodes);
    let services = services("kubernetes", &json!(["10.96.0.0/16", "fd00::/112"]));
    listed(&ranges, Kind::ServiceCidr, &[services]);
    ranges
}

const ALL: [&str; 6] = [
    "10.96.0.0/16",
    "10.244.0.0/22",
    "192.0.2.10/32",
    "192.0.2.20/32",
    "192.0.2.30/32",
    "fd00::/112",
];

#[test]
fn ranges_follow_nodes_and_service_ranges_that_come_and_go() {
    let ranges = found();
    assert_eq!(reserved(&ranges), ALL);
    assert!(is_known(&ranges));
    ranges.delete(&node("b", "10.244.1.0/24", "192.0.2.20"));
    ranges.apply(&services("more", &json!(["10.97.0.0/16"])));
    let now = [
        "10.96.0.0/15",
        "10.244.0.0/22",
        "192.0.2.10/32",
        "192.0.2.30/32",
        "fd00::/112",
    ];
    assert_eq!(reserved(&ranges), now);
}

#[test]
fn what_a_new_list_does_not_name_is_gone_only_once_it_is_over() {
    let ranges = found();
    ranges.begin(Kind::ServiceCidr);
    ranges.apply(&services("other", &json!(["10.112.0.0/16"])));
    assert_eq!(reserved(&ranges), ALL);
    ranges.end(Kind::ServiceCidr);
    assert!(!reserved(&ranges).contains(&ALL[0].to_owned()));
    assert!(reserved(&ranges).contains(&"10.112.0.0/16".to_owned()));
}

#[test]
fn nobody_is_told_of_a_node_that_changes_without_other_ranges() {
    let ranges = found();
    let mut changes = ranges.changes();
    changes.borrow_and_update();
    // As a heartbeat does.
    ranges.apply(&node("a", "10.244.0.0/24", "192.0.2.10"));
    // Within the range of all pods.
    ranges.apply(&node("d", "10.244.3.0/24", "192.0.2.10"));
    listed(
        &ranges,
        Kind::ServiceCidr,
        &[services(
            "kubernetes",
            &json!(["10.96.0.0/16", "fd00::/112"]),
        )],
    );
    assert!(!changes.has_changed().unwrap());
    ranges.apply(&node("e", "10.244.4.0/24", "192.0.2.40"));
    assert!(changes.has_changed().unwrap());
}

#[test]
fn ranges_are_not_known_before_all_is_listed_nor_without_service_ranges() {
    let ranges = ReservedRanges::new(Settings::default());
    assert!(!is_known(&ranges) && !ranges.lock().is_listed());
    listed(
        &ranges,
        Kind::Node,
        &[node("a", "10.244.0.0/24", "192.0.2.10")],
    );
    assert!(!is_known(&ranges) && !ranges.lock().is_listed());
    ranges.not_served(Kind::ServiceCidr);
    assert!(!is_known(&ranges) && ranges.lock().is_listed());

    let mut configured = Settings::default();
    configured.network.reserved = vec!["10.0.0.0/8".parse().unwrap()];
    let ranges = ReservedRanges::new(configured);
    assert!(!is_known(&ranges));
    listed(&ranges, Kind::Node, &[]);
    ranges.not_served(Kind::ServiceCidr);
    assert!(is_known(&ranges));
    assert_eq!(reserved(&ranges), ["10.0.0.0/8"]);
}
