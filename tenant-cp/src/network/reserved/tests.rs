//! Ranges from what is found, by example and by law.
//!
//! Invariant: ranges are written as people write them.

use proptest::prelude::*;

use super::*;
use crate::settings::NetworkSettings;

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn found(pods: &[&str], addresses: &[&str], services: &[&str]) -> Found {
    Found {
        nodes: Some(Nodes {
            addresses: nets(addresses),
            pods: nets(pods),
        }),
        services: Some(nets(services)),
    }
}

fn reserved(configured: &[&str], found: &Found) -> Vec<String> {
    let settings = NetworkSettings {
        reserved: nets(configured),
        ..NetworkSettings::default()
    };
    let settings = in_force(&settings, found);
    settings.reserved.iter().map(IpNet::to_string).collect()
}

fn problem(configured: &[&str], found: &Found) -> Option<String> {
    let settings = NetworkSettings {
        reserved: nets(configured),
        ..NetworkSettings::default()
    };
    let problem = in_force(&settings, found).reserved_unknown?;
    assert_eq!(problem.reason, "ReservedRangesUnknown");
    Some(problem.to_string())
}

#[test]
fn ranges_of_a_cluster_are_those_of_its_nodes_pods_and_services() {
    let small = found(
        &["10.244.0.0/24", "10.244.2.0/24", "10.244.1.0/24"],
        &["192.0.2.7/32", "192.0.2.20/32", "2001:db8::7/128"],
        &["10.96.0.0/12"],
    );
    assert_eq!(
        reserved(&[], &small),
        [
            "10.96.0.0/12",
            "10.244.0.0/22",
            "192.0.2.7/32",
            "192.0.2.20/32",
            "2001:db8::7/128",
        ]
    );
    assert_eq!(problem(&[], &small), None);
}

#[test]
fn what_is_configured_stands_as_it_was_written_and_holds_what_was_found_in_it() {
    let small = found(&["10.244.0.0/24"], &["192.0.2.7/32"], &["10.96.0.0/12"]);
    assert_eq!(
        reserved(&["10.240.0.0/12", "172.16.0.0/16"], &small),
        [
            "10.240.0.0/12",
            "172.16.0.0/16",
            "10.96.0.0/12",
            "192.0.2.7/32"
        ]
    );
}

#[test]
fn a_node_more_in_a_range_that_is_known_is_no_news() {
    let pods = |numbers: &[u8]| {
        let texts: Vec<_> = numbers.iter().map(|n| format!("10.244.{n}.0/24")).collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        reserved(&[], &found(&texts, &[], &[]))
    };
    assert_eq!(pods(&[0, 1, 2]), pods(&[0, 3]));
    assert_eq!(pods(&[0, 200]), ["10.244.0.0/16"]);
    let addresses = |last: u8| {
        let texts: Vec<_> = (0..40_u8)
            .map(|n| n * 5)
            .chain([last])
            .map(|n| format!("192.0.2.{n}/32"))
            .collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        reserved(&[], &found(&[], &texts, &[]))
    };
    assert_eq!(addresses(0), addresses(3));
    assert!(addresses(0).len() <= MOST, "{:?}", addresses(0));
}

#[test]
fn two_clusters_ranges_are_not_joined_over_what_lies_between() {
    let far = found(&["10.1.0.0/24", "10.200.0.0/24", "fd00:1::/64"], &[], &[]);
    assert_eq!(
        reserved(&[], &far),
        ["10.1.0.0/24", "10.200.0.0/24", "fd00:1::/64"]
    );
}

#[test]
fn what_was_not_found_is_named_with_the_setting_that_mends_it() {
    let none = found(&[], &["192.0.2.7/32"], &[]);
    let said = problem(&[], &none).unwrap();
    assert_eq!(
        said,
        "network.reserved: the operator did not find the ranges of the management cluster's pods (no \
         node has spec.podCIDRs), Services (there is no ServiceCIDR; Kubernetes has them from 1.33 \
         on), which workers must not reach: name them in network.reserved of its configuration (the \
         chart's value config.network.reserved)"
    );
    assert_eq!(problem(&["10.0.0.0/8"], &none), None);
}

#[test]
fn what_could_not_be_listed_is_not_taken_for_nothing_whatever_is_configured() {
    let mut half = found(&["10.244.0.0/24"], &["192.0.2.7/32"], &[]);
    half.services = None;
    for configured in [&[][..], &["10.0.0.0/8"]] {
        let said = problem(configured, &half).unwrap();
        assert!(
            said.contains("the ServiceCIDRs of the management"),
            "{said}"
        );
        let said = problem(configured, &Found::default()).unwrap();
        assert!(said.contains("the nodes of the management"), "{said}");
    }
}

fn net() -> impl Strategy<Value = IpNet> {
    let v4 = (any::<u32>(), 0..=32_u8)
        .prop_map(|(bits, length)| IpNet::new(std::net::Ipv4Addr::from(bits).into(), length));
    let v6 = (any::<u128>(), 0..=128_u8)
        .prop_map(|(bits, length)| IpNet::new(std::net::Ipv6Addr::from(bits).into(), length));
    prop_oneof![v4, v6].prop_map(|net| net.unwrap().trunc())
}

proptest! {
    #[test]
    fn whatever_is_found_is_reserved_in_few_ranges_whatever_its_order(
        mut pods in prop::collection::vec(net(), 0..80),
        mut addresses in prop::collection::vec(net(), 0..80),
        mut services in prop::collection::vec(net(), 0..4),
        configured in prop::collection::vec(net(), 0..3),
    ) {
        let settings = NetworkSettings { reserved: configured.clone(), ..NetworkSettings::default() };
        let world = |pods: &[IpNet], addresses: &[IpNet], services: &[IpNet]| Found {
            nodes: Some(Nodes { addresses: addresses.to_vec(), pods: pods.to_vec() }),
            services: Some(services.to_vec()),
        };
        let once = in_force(&settings, &world(&pods, &addresses, &services));
        for net in pods.iter().chain(&addresses).chain(&services) {
            let covered = once.reserved.iter().any(|range| range.contains(net));
            prop_assert!(covered || net.prefix_len() == 0, "{net} is missing in {:?}", once.reserved);
        }
        prop_assert!(once.reserved.starts_with(&configured));
        prop_assert!(once.reserved[configured.len()..].iter().all(|net| net.prefix_len() > 0));
        prop_assert!(once.reserved.len() - configured.len() <= 6 * MOST);
        pods.reverse();
        addresses.reverse();
        services.reverse();
        prop_assert_eq!(&in_force(&settings, &world(&pods, &addresses, &services)), &once);
    }
}
