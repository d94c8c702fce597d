//! Which Host a Machine takes.

use api::node_pool::{Architecture, HostSelector};
use kube::ResourceExt;

use super::*;
use crate::programs::Archive;

/// A Host that anybody may take.
fn free(name: &str, address: &str) -> Host {
    let mut case = Case::new();
    case.observed.host = host(name);
    case.observed.host.spec.node_address = Some(address.to_owned());
    case.sees(Errand::Inspect, seen_at(name, address));
    case.observed.host
}

fn seen_at(name: &str, address: &str) -> Outcome {
    let mut outcome = seen(name);
    if let Outcome::Seen { facts, .. } = &mut outcome {
        facts.addresses.push(address.parse().unwrap());
    }
    outcome
}

fn in_overlay(name: &str, address: &str) -> api::Machine {
    let mut machine = world::machine(name);
    let status = machine.status.get_or_insert_default();
    status.overlay.get_or_insert_default().address = address.to_owned();
    machine
}

/// Two sites with one private range.
#[test]
fn hosts_of_one_address_are_nodes_of_one_tenant_cluster_by_their_addresses_in_its_overlay() {
    let mut hosts = vec![free("a", "192.168.77.10"), free("b", "192.168.77.10")];
    let any = HostSelector::default();
    let first = in_overlay("w-1", "198.18.0.7");
    let status = choose::claim(&hosts[0], &first, now());
    let claim = status.clone().and_then(|status| status.claim).unwrap();
    assert_eq!(
        (claim.node_address.as_deref(), claim.in_overlay),
        (Some("198.18.0.7"), true)
    );
    hosts[0].status = status;
    assert_eq!(hosts[0].node_address(), "198.18.0.7".parse().ok());
    let name = |machine: &api::Machine| {
        let chosen = choose::choose(&hosts, (&any, &Archives::default()), machine);
        chosen.and_then(|host| host.metadata.name.clone())
    };
    assert_eq!(name(&in_overlay("w-2", "198.18.0.8")).as_deref(), Some("b"));
    assert_eq!(
        name(&in_overlay("w-2", "198.18.0.7")),
        None,
        "of another node"
    );
    assert_eq!(name(&in_overlay("w-2", "")), None, "nobody knows which one");
    assert_eq!(name(&world::machine("w-2")).as_deref(), Some("b"));
}

/// Its kubelet goes on with the arguments that it has.
#[test]
fn node_that_is_taken_over_keeps_its_own_address() {
    let host = free("a", "198.18.0.9");
    let mut machine = in_overlay("w-1", "198.18.0.7");
    let annotations = machine.metadata.annotations.get_or_insert_default();
    annotations.insert(names::ANNOTATION_ADOPTS.to_owned(), "uid/aa".to_owned());
    let own = "198.18.0.9".parse().unwrap();
    assert_eq!(choose::node_address(&host, &machine), Some((own, false)));
    let status = machine.status.get_or_insert_default();
    status.overlay.get_or_insert_default().address = "198.18.0.9".to_owned();
    assert_eq!(choose::node_address(&host, &machine), Some((own, true)));
}

#[test]
fn machine_takes_who_fits_and_was_unused_longest() {
    let free = |name: &str, since: &str, spec: serde_json::Value| {
        let mut case = Case::new();
        case.observed.host = host(name);
        case.sees(Errand::Inspect, seen(name));
        let status = case.observed.host.status.as_mut().unwrap();
        let since = since.parse::<Timestamp>().unwrap();
        status.available_since = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(since));
        case.observed.host.spec.labels = serde_json::from_value(spec).unwrap();
        case.observed.host
    };
    let mut hosts = vec![
        free("c", "2026-01-03T00:00:00Z", json!({"rack": "a"})),
        free("b", "2026-01-02T00:00:00Z", json!({"rack": "a"})),
        free("a", "2026-01-02T00:00:00Z", json!({"rack": "b"})),
    ];
    let selector = |value| serde_json::from_value::<HostSelector>(value).unwrap();
    let chosen = |hosts: &[Host], value| {
        let chosen = choose::choose(
            hosts,
            (&selector(value), &Archives::default()),
            &world::machine("w-1"),
        );
        chosen.and_then(|host| host.metadata.name.clone())
    };
    assert_eq!(chosen(&hosts, json!({})).as_deref(), Some("a"));
    let rack = json!({"matchLabels": {"rack": "a"}});
    assert_eq!(chosen(&hosts, rack.clone()).as_deref(), Some("b"));
    hosts[1].spec.maintenance = true;
    assert_eq!(chosen(&hosts, rack.clone()).as_deref(), Some("c"));
    hosts[0].metadata.generation = Some(2);
    assert_eq!(chosen(&hosts, rack), None, "another spec was verified");
    for (asked, fits) in [
        (
            json!({"architecture": "amd64", "cpu": 8, "memory": "15Gi"}),
            true,
        ),
        (json!({"architecture": "arm64"}), false),
        (json!({"cpu": 9}), false),
        (json!({"memory": "16Gi"}), false),
        (json!({"memory": "lots"}), false),
    ] {
        assert_eq!(chosen(&hosts, asked.clone()).is_some(), fits, "{asked}");
    }
    let facts = |host: &mut Host, kubelet: Option<&str>| {
        let facts = host.status.as_mut().and_then(|it| it.facts.as_mut());
        facts.unwrap().kubelet = kubelet.map(str::to_owned);
    };
    for kubelet in [Some("1.36.3"), None] {
        facts(&mut hosts[2], kubelet);
        assert_eq!(chosen(&hosts, json!({})), None, "{kubelet:?}");
    }
    // Another kubelet can be sent there.
    let archive = Archive {
        version: "1.35.4".to_owned(),
        architecture: Architecture::Amd64,
        path: "node.tar.gz".into(),
        sha256: String::new(),
    };
    let (any, sent) = (selector(json!({})), Archives(vec![archive]));
    let chosen_with = choose::choose(&hosts, (&any, &sent), &world::machine("w-1"));
    assert_eq!(chosen_with.map(ResourceExt::name_any).as_deref(), Some("a"));
    facts(&mut hosts[2], Some("1.35.4"));
    // A claim whose answer was lost.
    hosts[0].status = choose::claim(&hosts[2], &world::machine("w-1"), now());
    assert_eq!(chosen(&hosts, json!({"cpu": 9})).as_deref(), Some("c"));
    assert_eq!(
        choose::claim(&hosts[0], &world::machine("w-2"), now()),
        None
    );
    assert_eq!(choose::release(&hosts[0], "uid-w-2"), None);
    let released = choose::release(&hosts[0], "uid-w-1").unwrap();
    assert_eq!(released.phase, Some(HostPhase::Resetting));
}
