//! A copy of another tenant cluster has that one's addresses, and nobody else does.

use super::{asking, settle, small, stored, with_status};
use crate::network::claims::{conflicts, contested};
use crate::network::decide;
use crate::network::ranges::Use;
use api::Reason;
use api::TenantCluster;
use api::tenant_cluster::NetworkStatus;

fn original() -> TenantCluster {
    let network = NetworkStatus {
        pod_cidr: "10.130.0.0/16".to_owned(),
        service_cidr: "100.66.0.0/16".to_owned(),
        dns_domain: "shop.example".to_owned(),
    };
    with_status(stored(1), network)
}

fn copy(n: i64, of: &str) -> TenantCluster {
    let mut copy = stored(n);
    copy.spec.etcd.copy_of = Some(of.to_owned());
    copy
}

#[test]
fn copy_is_given_the_ranges_and_the_domain_of_what_it_is_a_copy_of() {
    let all = [original(), copy(2, "uid-1"), copy(3, "uid-1")];
    let wanted = all[0].status.clone().unwrap().network.unwrap();
    for at in [1, 2] {
        assert_eq!(decide(&all[at], &all, &small()).unwrap(), wanted);
    }
    // Both copies have them, and nobody is told that they were given twice.
    let mut settled = all.clone();
    assert_eq!(settle(&mut settled, &small()), []);
    for one in &settled {
        assert_eq!(contested(one, &settled), None);
        assert_eq!(one.status.clone().unwrap().network.unwrap(), wanted);
    }
    // Those that it asks for count, and admission lets it have the other one's.
    let mut asks = asking(4, "10.130.0.0/16", "100.66.0.0/16");
    asks.spec.etcd.copy_of = Some("uid-1".to_owned());
    let mine = [(Use::Pods, super::net("10.130.0.0/16"))];
    assert_eq!(conflicts(&asks, &mine, &all, &small()), []);
    let decided = decide(&asks, &all, &small()).unwrap();
    assert_eq!(
        (decided.pod_cidr, decided.service_cidr),
        (wanted.pod_cidr, wanted.service_cidr)
    );
}

#[test]
fn ranges_of_others_are_refused_to_a_copy_as_to_anybody() {
    let all = [original()];
    let asks = |of: Option<&str>, namespace: &str| {
        let mut asks = asking(4, "10.130.0.0/16", "100.66.0.0/16");
        asks.spec.etcd.copy_of = of.map(str::to_owned);
        asks.metadata.namespace = Some(namespace.to_owned());
        decide(&asks, &all, &small()).map_err(|problem| problem.reason)
    };
    assert!(asks(Some("uid-1"), "team").is_ok());
    for (of, namespace) in [
        (None, "team"),
        (Some("uid-9"), "team"),
        (Some("uid-1"), "other"),
    ] {
        assert_eq!(
            asks(of, namespace),
            Err(Reason::CIDROverlap),
            "{of:?} {namespace}"
        );
    }
    // Without the other one a copy is given what is free; what was given to another one stays that one's.
    let alone = copy(2, "uid-9");
    let given = decide(&alone, &all, &small()).unwrap();
    assert_ne!(given.pod_cidr, "10.130.0.0/16");
    let mut foreign = copy(2, "uid-1");
    foreign.metadata.namespace = Some("other".to_owned());
    assert_ne!(
        decide(&foreign, &all, &small()).unwrap().pod_cidr,
        "10.130.0.0/16"
    );
}
