//! Laws of the address ranges, and who gives way.

use api::TenantCluster;
use api::tenant_cluster::{NetworkStatus, TenantClusterStatus};
use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::pools::{allocate, allocate_ours, check_pools};
use super::ranges::overlap;
use super::reservations::Reservations;
use super::*;

mod copies;
mod given_twice;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn pool(cidr: &str, prefix: u8) -> Pool {
    Pool {
        cidr: net(cidr),
        prefix,
    }
}

/// A small installation: 16 pod ranges and 16 Service ranges.
fn small() -> NetworkSettings {
    NetworkSettings {
        pods: pool("10.128.0.0/12", 16),
        services: pool("100.64.0.0/12", 16),
        reserved: vec![],
        reserved_unknown: None,
    }
}

/// A stored TenantCluster: `n` gives name, UID and second of creation.
fn stored(n: i64) -> TenantCluster {
    let mut tc = TenantCluster::new(&format!("t{n}"), Default::default());
    tc.metadata.namespace = Some("team".to_owned());
    tc.metadata.uid = Some(format!("uid-{n}"));
    tc.metadata.creation_timestamp = Some(Time(jiff::Timestamp::from_second(n).unwrap()));
    tc
}

fn asking(n: i64, pods: &str, services: &str) -> TenantCluster {
    let mut tc = stored(n);
    tc.spec.network.pod_cidr = Some(pods.to_owned());
    tc.spec.network.service_cidr = Some(services.to_owned());
    tc
}

fn with_status(mut tc: TenantCluster, network: NetworkStatus) -> TenantCluster {
    tc.status = Some(TenantClusterStatus {
        network: Some(network),
        ..Default::default()
    });
    tc
}

/// Decides for all that have nothing yet, one after another, as the operator does.
fn settle(all: &mut [TenantCluster], settings: &NetworkSettings) -> Vec<Problem> {
    let mut problems = Vec::new();
    for at in 0..all.len() {
        match decide(&all[at], all, settings) {
            Ok(network) => all[at] = with_status(all[at].clone(), network),
            Err(problem) => problems.push(problem),
        }
    }
    problems
}

fn ranges_of(tc: &TenantCluster) -> Vec<IpNet> {
    let network = tc
        .status
        .as_ref()
        .and_then(|status| status.network.as_ref());
    network.map_or_else(Vec::new, |n| vec![net(&n.pod_cidr), net(&n.service_cidr)])
}

/// The lowest free range, found by trying every one.
fn by_trying(pool: &Pool, taken: &[IpNet], reserved: &[IpNet]) -> Option<IpNet> {
    let all = pool.cidr.subnets(pool.prefix).ok();
    all.into_iter().flatten().find(|candidate| {
        !taken
            .iter()
            .chain(reserved)
            .any(|net| overlap(net, candidate))
    })
}

fn any_net() -> impl Strategy<Value = IpNet> {
    prop_oneof![
        // Mostly around the pool, now and then anywhere or of the other family.
        (0_u32..1 << 20, 12_u8..=32).prop_map(|(low, prefix)| {
            IpNet::new(
                std::net::Ipv4Addr::from((10 << 24) | (8 << 20) | low).into(),
                prefix,
            )
            .unwrap()
            .trunc()
        }),
        (any::<u32>(), 0_u8..=32).prop_map(|(address, prefix)| {
            IpNet::new(std::net::Ipv4Addr::from(address).into(), prefix)
                .unwrap()
                .trunc()
        }),
        Just(net("fd00::/8")),
    ]
}

proptest! {
    #[test]
    fn allocate_finds_what_trying_every_range_finds(
        taken in prop::collection::vec(any_net(), 0..40),
        reserved in prop::collection::vec(any_net(), 0..3),
        prefix in 12_u8..=18,
    ) {
        let pool = pool("10.128.0.0/12", prefix);
        prop_assert_eq!(
            allocate(&pool, &taken, &reserved),
            by_trying(&pool, &taken, &reserved)
        );
    }

    #[test]
    fn allocate_does_not_depend_on_the_order_of_what_is_taken(
        (taken, shuffled) in prop::collection::vec(any_net(), 0..20)
            .prop_flat_map(|taken| (Just(taken.clone()), Just(taken).prop_shuffle())),
    ) {
        let pool = pool("10.128.0.0/12", 16);
        prop_assert_eq!(allocate(&pool, &taken, &[]), allocate(&pool, &shuffled, &[]));
    }

    /// Some ask for ranges, some are given them, some are deleted in between.
    #[test]
    fn decided_ranges_are_disjoint_and_stay(
        asks in prop::collection::vec(prop::option::of(0_u8..4), 1..10),
        deleted in prop::collection::vec(any::<bool>(), 10),
        more in 1_i64..4,
    ) {
        let settings = small();
        let mut all: Vec<TenantCluster> = asks
            .iter()
            .enumerate()
            .map(|(at, ask)| {
                let mut tc = stored(at as i64);
                tc.spec.network.pod_cidr = ask.map(|n| format!("10.{}.0.0/15", 128 + 2 * n));
                tc
            })
            .collect();
        settle(&mut all, &settings);
        let before = all.clone();
        let mut keep = deleted.iter();
        all.retain(|_| !keep.next().unwrap());
        all.extend((0..more).map(|n| stored(100 + n)));
        settle(&mut all, &settings);

        for (at, one) in all.iter().enumerate() {
            if let Some(was) = before.iter().find(|was| was.metadata.uid == one.metadata.uid)
                && !ranges_of(was).is_empty()
            {
                prop_assert_eq!(ranges_of(was), ranges_of(one), "ranges in force never change");
            }
            let mine = ranges_of(one);
            prop_assert!(mine.len() != 2 || !overlap(&mine[0], &mine[1]));
            for other in &all[at + 1..] {
                for (a, b) in mine.iter().flat_map(|a| ranges_of(other).into_iter().map(move |b| (a, b))) {
                    prop_assert!(!overlap(a, &b), "{a} of {at} meets {b}");
                }
            }
        }
    }

    /// All are decided before any status is written: only the reservations knows.
    #[test]
    fn reservations_keep_undelivered_decisions_apart(
        count in 2_i64..8,
        ask in prop::option::of(0_i64..8),
    ) {
        let settings = small();
        let mut all: Vec<TenantCluster> = (0..count).map(stored).collect();
        if let Some(at) = ask.filter(|at| *at < count) {
            all[at as usize].spec.network.pod_cidr = Some("10.128.0.0/15".to_owned());
        }
        let mut reservations = Reservations::default();
        let mut ask = || -> Vec<_> {
            all.iter().map(|tc| reservations.decide(tc, &all, &settings, true)).collect()
        };
        let (decided, again) = (ask(), ask());
        prop_assert_eq!(&decided, &again);
        let nets: Vec<IpNet> = decided
            .iter()
            .flatten()
            .flat_map(|n| [net(&n.pod_cidr), net(&n.service_cidr)])
            .collect();
        for (at, one) in nets.iter().enumerate() {
            prop_assert!(nets[at + 1..].iter().all(|other| !overlap(one, other)));
        }
    }
}

#[test]
fn the_default_pools_hold_512_tenant_clusters() {
    let settings = NetworkSettings::default();
    assert_eq!(check_pools(&settings), []);
    let mut taken = Vec::new();
    while let Some(range) = allocate(&settings.pods, &taken, &[]) {
        taken.push(range);
    }
    assert_eq!(taken.len(), 512);
    assert_eq!(taken[0], net("10.128.0.0/18"));
    assert_eq!(taken[511], net("10.255.192.0/18"));
}

#[test]
fn the_last_address_of_all_is_no_overflow() {
    let v4 = pool("255.0.0.0/8", 9);
    assert_eq!(
        allocate(&v4, &[net("255.0.0.0/9")], &[]),
        Some(net("255.128.0.0/9"))
    );
    assert_eq!(
        allocate(&v4, &[net("255.255.255.255/32")], &[]),
        Some(net("255.0.0.0/9"))
    );
    assert_eq!(allocate(&v4, &[net("0.0.0.0/0")], &[]), None);
    let v6 = pool("ffff::/16", 17);
    assert_eq!(
        allocate(&v6, &[net("ffff::/17")], &[]),
        Some(net("ffff:8000::/17"))
    );
    assert_eq!(allocate(&v6, &[net("ffff::/16")], &[]), None);
    assert_eq!(allocate(&pool("::/0", 0), &[], &[]), None);
    assert_eq!(allocate(&pool("10.0.0.0/16", 12), &[], &[]), None);
    assert_eq!(allocate(&pool("10.0.0.0/16", 33), &[], &[]), None);
}

#[test]
fn a_range_is_free_again_after_deletion() {
    let settings = small();
    let mut all = vec![stored(1), stored(2)];
    settle(&mut all, &settings);
    let freed = ranges_of(&all[0]);
    let mut left = vec![all[1].clone(), stored(3)];
    settle(&mut left, &settings);
    assert_eq!(ranges_of(&left[1]), freed);
}

#[test]
fn a_tenant_cluster_that_is_being_deleted_keeps_its_ranges() {
    let settings = small();
    let mut all = vec![stored(1), stored(2)];
    settle(&mut all[..1], &settings);
    all[0].metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    settle(&mut all, &settings);
    assert_eq!(ranges_of(&all[1])[0], net("10.129.0.0/16"));
}

#[test]
fn ranges_of_the_user_win_and_missing_ones_are_allocated() {
    let mut tc = stored(1);
    tc.spec.network.service_cidr = Some("10.96.0.0/12".to_owned());
    tc.spec.network.dns_domain = Some("example.internal".to_owned());
    let decided = decide::<TenantCluster>(&tc, &[], &small()).unwrap();
    assert_eq!(decided.pod_cidr, "10.128.0.0/16");
    assert_eq!(decided.service_cidr, "10.96.0.0/12");
    assert_eq!(decided.dns_domain, "example.internal");
}

#[test]
fn of_two_that_ask_for_the_same_the_older_keeps_it() {
    let older = asking(1, "10.0.0.0/16", "10.96.0.0/12");
    let younger = asking(2, "10.0.128.0/17", "10.112.0.0/12");
    let all = [younger.clone(), older.clone()];
    assert!(decide(&older, &all, &small()).is_ok());
    let problem = decide(&younger, &all, &small()).unwrap_err();
    assert_eq!(problem.reason, "CIDROverlap");
    assert_eq!(
        problem.to_string(),
        "spec.network.podCIDR: 10.0.128.0/17 overlaps podCIDR 10.0.0.0/16 of tenant cluster \
         team/t1: choose another range, or leave the field out to be given a free one"
    );
}

#[test]
fn nobody_is_told_what_is_in_another_namespace() {
    let mut older = asking(1, "10.0.0.0/16", "10.96.0.0/12");
    older.metadata.namespace = Some("others".to_owned());
    let younger = asking(2, "10.0.128.0/17", "10.112.0.0/12");
    let problem = decide(&younger, &[older], &small()).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "spec.network.podCIDR: 10.0.128.0/17 overlaps a range of another tenant cluster: choose \
         another range, or leave the field out to be given a free one"
    );
}

#[test]
fn of_two_made_in_the_same_second_the_lower_uid_keeps_it() {
    let one = asking(1, "10.0.0.0/16", "10.96.0.0/12");
    let mut two = asking(2, "10.0.0.0/16", "10.112.0.0/12");
    two.metadata.creation_timestamp = one.metadata.creation_timestamp.clone();
    let all = [two.clone(), one.clone()];
    assert!(decide(&one, &all, &small()).is_ok());
    assert!(decide(&two, &all, &small()).is_err());
}

#[test]
fn a_range_in_force_does_not_give_way_to_an_older_one() {
    let older = asking(1, "10.128.0.0/16", "10.96.0.0/12");
    let mut younger = [stored(2)];
    settle(&mut younger, &small());
    let problem = decide(&older, &younger, &small()).unwrap_err();
    assert_eq!(problem.reason, "CIDROverlap");
    assert!(problem.message.contains("team/t2"), "{problem}");
}

#[test]
fn allocation_keeps_away_from_ranges_that_others_only_ask_for() {
    let others = [asking(9, "10.128.0.0/16", "100.64.0.0/16")];
    let decided = decide(&stored(1), &others, &small()).unwrap();
    assert_eq!((decided.pod_cidr, decided.service_cidr), {
        ("10.129.0.0/16".to_owned(), "100.65.0.0/16".to_owned())
    });
}

#[test]
fn reserved_ranges_are_never_given_and_never_accepted() {
    let mut settings = small();
    settings.reserved = vec![net("10.128.0.0/14"), net("100.64.3.0/24")];
    let decided = decide::<TenantCluster>(&stored(1), &[], &settings).unwrap();
    assert_eq!(decided.pod_cidr, "10.132.0.0/16");
    assert_eq!(decided.service_cidr, "100.65.0.0/16");
    let asked = asking(1, "10.131.0.0/16", "10.96.0.0/12");
    let problem = decide::<TenantCluster>(&asked, &[], &settings).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "spec.network.podCIDR: 10.131.0.0/16 overlaps 10.128.0.0/14, which belongs to the \
         management cluster: choose another range, or leave the field out to be given a free one"
    );
}

#[test]
fn an_exhausted_pool_says_what_can_be_done() {
    let mut all: Vec<TenantCluster> = (0..17).map(stored).collect();
    let problems = settle(&mut all, &small());
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].reason, "AddressPoolExhausted");
    assert_eq!(
        problems[0].to_string(),
        "spec.network.podCIDR: no free /16 is left in the pool 10.128.0.0/12: delete tenant \
         clusters that nobody needs, set spec.network.podCIDR to a range of your own, or give the \
         operator a larger pool (network.pods.cidr in its configuration)"
    );
}

#[test]
fn what_is_decided_once_is_kept_even_where_the_pools_changed() {
    let tc = with_status(
        stored(1),
        NetworkStatus {
            pod_cidr: "172.16.0.0/16".to_owned(),
            service_cidr: "172.17.0.0/16".to_owned(),
            dns_domain: "x.example".to_owned(),
        },
    );
    let decided = decide(
        &tc,
        &[asking(0, "172.16.0.0/16", "172.17.0.0/16")],
        &small(),
    );
    assert_eq!(decided.ok(), tc.status.and_then(|status| status.network));
}

#[test]
fn nothing_malformed_comes_into_force() {
    let mut tc = stored(1);
    tc.spec.network.dns_domain = Some("Cluster.Local".to_owned());
    let problem = decide::<TenantCluster>(&tc, &[], &small()).unwrap_err();
    assert_eq!(problem.reason, "DNSDomainMalformed");
    let tc = asking(1, "10.0.0.0/16", "10.0.0.0/20");
    let problem = decide::<TenantCluster>(&tc, &[], &small()).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "spec.network.serviceCIDR: 10.0.0.0/20 overlaps podCIDR 10.0.0.0/16 of the same tenant \
         cluster: choose ranges that do not meet"
    );
}

#[test]
fn pools_that_cannot_work_are_named() {
    let settings = NetworkSettings {
        pods: pool("10.128.0.1/9", 8),
        services: pool("10.200.0.0/16", 29),
        reserved: vec![],
        reserved_unknown: None,
    };
    let problems: Vec<String> = check_pools(&settings)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        problems,
        [
            "network.pods.cidr: 10.128.0.1/9 starts in the middle of a range: write 10.128.0.0/9",
            "network.pods.prefix: a /8 does not fit into 10.128.0.1/9: use a prefix from /9 to /32",
            "network.services.cidr: 10.200.0.0/16 overlaps network.pods.cidr 10.128.0.1/9: keep \
             the pools apart",
        ]
    );
    let settings = NetworkSettings {
        pods: pool("fd00::/40", 56),
        services: pool("100.64.0.0/16", 30),
        reserved: vec![],
        reserved_unknown: None,
    };
    let problems: Vec<String> = check_pools(&settings)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        problems,
        [
            "network.services.prefix: 100.64.0.0/30 is too small: use a prefix from /12 (largest) \
             to /28 (smallest)",
            "network.services.cidr: network.pods.cidr and network.services.cidr must both be IPv4 \
             or both IPv6",
        ]
    );
}

#[test]
fn of_several_that_allocate_at_once_each_has_its_own_ranges_while_there_are_any() {
    let settings = small();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let is_even = |range: &IpNet| match range {
        IpNet::V4(range) => range.network().octets()[2] % 2 == 0,
        IpNet::V6(_) => false,
    };
    let pool = pool("10.0.0.0/22", 24);
    for _ in 0..2 {
        ours.extend(allocate_ours(&pool, &ours, &settings.reserved, &is_even));
        let is_odd = |range: &IpNet| !is_even(range);
        theirs.extend(allocate_ours(&pool, &theirs, &settings.reserved, &is_odd));
    }
    assert_eq!(ours, [net("10.0.0.0/24"), net("10.0.2.0/24")]);
    assert_eq!(theirs, [net("10.0.1.0/24"), net("10.0.3.0/24")]);
    let others = allocate_ours(&pool, &ours, &settings.reserved, &is_even);
    assert_eq!(others, Some(net("10.0.1.0/24")), "any, where none is ours");
}
