//! Services in, actions out.

use serde_json::{Value, json};

use super::*;

/// Six addresses: .1 to .6.
fn range() -> Ipv4Net {
    "10.5.0.0/29".parse().unwrap()
}

fn service(name: &str, change: Value) -> Service {
    let mut object = json!({
        "metadata": {
            "name": name, "namespace": "a", "uid": name, "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
    });
    for key in ["metadata", "spec", "status"] {
        if let Some(fields) = change[key].as_object() {
            for (field, value) in fields {
                object[key][field] = value.clone();
            }
        }
    }
    serde_json::from_value(object).unwrap()
}

fn with_address(name: &str, address: &str) -> Service {
    service(
        name,
        json!({ "status": { "loadBalancer": { "ingress": [{ "ip": address }] } } }),
    )
}

fn summaries(services: &[Service]) -> Vec<String> {
    let plan = plan(range(), services);
    plan.iter().map(Action::summary).collect()
}

/// The Services after the actions were done.
fn applied(services: &[Service]) -> Vec<Service> {
    let mut after = services.to_vec();
    for action in plan(range(), services) {
        let (name, status) = match &action {
            Action::Give { service, address } => (
                service.name_any(),
                json!({ "loadBalancer": { "ingress": [{ "ip": address }] } }),
            ),
            Action::Take { service } => (service.name_any(), json!({ "loadBalancer": {} })),
        };
        for service in after.iter_mut().filter(|s| s.name_any() == name) {
            service.status = serde_json::from_value(status.clone()).unwrap();
        }
    }
    after
}

#[test]
fn each_service_gets_another_address_and_then_there_is_nothing_to_do() {
    let services = ["x", "y", "z"].map(|name| service(name, json!({})));
    assert_eq!(
        summaries(&services),
        [
            "give 10.5.0.1 to a/x",
            "give 10.5.0.2 to a/y",
            "give 10.5.0.3 to a/z"
        ]
    );
    assert!(summaries(&applied(&services)).is_empty());
}

#[test]
fn order_of_the_services_does_not_matter() {
    let mut services = ["x", "y", "z"].map(|name| service(name, json!({})));
    let before = summaries(&services);
    services.reverse();
    assert_eq!(summaries(&services), before);
}

#[test]
fn address_that_is_held_stays_and_a_freed_one_is_given_again() {
    let held = with_address("held", "10.5.0.2");
    let new = |name: &str| service(name, json!({}));
    assert_eq!(
        summaries(&[new("x"), held.clone(), new("y")]),
        ["give 10.5.0.1 to a/x", "give 10.5.0.3 to a/y"]
    );
    // The one that held .1 was deleted.
    assert_eq!(summaries(&[held, new("y")]), ["give 10.5.0.1 to a/y"]);
}

#[test]
fn other_types_and_classes_are_left_alone() {
    let services = [
        service("plain", json!({ "spec": { "type": "ClusterIP" } })),
        service(
            "other",
            json!({ "spec": { "loadBalancerClass": "example.com/x" } }),
        ),
        service(
            "going",
            json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:01Z" } }),
        ),
        with_address("foreign", "192.0.2.1"),
    ];
    assert!(summaries(&services).is_empty());
    let ours = service("ours", json!({ "spec": { "loadBalancerClass": "lab" } }));
    assert_eq!(summaries(&[ours]), ["give 10.5.0.1 to a/ours"]);
}

#[test]
fn service_that_is_no_load_balancer_any_more_loses_our_address() {
    let status = json!({ "loadBalancer": { "ingress": [{ "ip": "10.5.0.4" }] } });
    let changed = service(
        "x",
        json!({ "spec": { "type": "ClusterIP" }, "status": status }),
    );
    let services = [changed];
    assert_eq!(summaries(&services), ["take the address of a/x"]);
    assert!(summaries(&applied(&services)).is_empty());
}

#[test]
fn asked_for_address_is_given_if_it_is_free_and_in_the_range() {
    let asks =
        |name: &str, address: &str| service(name, json!({ "spec": { "loadBalancerIP": address } }));
    assert_eq!(
        summaries(&[
            asks("x", "10.5.0.5"),
            asks("y", "10.5.0.5"),
            asks("z", "8.8.8.8")
        ]),
        [
            "give 10.5.0.5 to a/x",
            "give 10.5.0.1 to a/y",
            "give 10.5.0.2 to a/z"
        ]
    );
}

#[test]
fn of_two_services_with_one_address_the_older_keeps_it() {
    let older = with_address("z", "10.5.0.1");
    let mut newer = with_address("a", "10.5.0.1");
    let later = json!("2026-01-02T00:00:00Z");
    newer.metadata.creation_timestamp = serde_json::from_value(later).unwrap();
    let services = [newer, older];
    assert_eq!(summaries(&services), ["give 10.5.0.2 to a/a"]);
    assert!(summaries(&applied(&services)).is_empty());
}

#[test]
fn used_up_range_gives_what_it_has_and_no_address_twice() {
    let services: Vec<_> = (0..9)
        .map(|number| service(&format!("s{number}"), json!({})))
        .collect();
    let given: BTreeSet<_> = plan(range(), &services)
        .into_iter()
        .filter_map(|action| match action {
            Action::Give { address, .. } => Some(address),
            Action::Take { .. } => None,
        })
        .collect();
    assert_eq!(given, range().hosts().collect());
    assert!(summaries(&applied(&services)).is_empty());
}
