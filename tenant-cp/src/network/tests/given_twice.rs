//! Ranges that two leaders gave away: who keeps them, and who is told.

use api::TenantCluster;
use api::tenant_cluster::NetworkStatus;
use proptest::prelude::*;

use super::{ranges_of, small, stored, with_status};
use crate::network::ranges::overlap;
use crate::network::reservations::Reservations;
use crate::network::{DEFAULT_DNS_DOMAIN, claims};

proptest! {
    /// Two leaders gave the same ranges away: what the statuses say is anything.
    #[test]
    fn ranges_that_were_given_twice_stay_with_the_older_and_others_are_given_free_ones(
        given in prop::collection::vec((0_u8..6, 0_u8..6, any::<bool>()), 1..7),
        order in Just((0..7_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let settings = small();
        let network = |(pods, services): (u8, u8)| NetworkStatus {
            pod_cidr: format!("10.{}.0.0/16", 128 + pods),
            service_cidr: format!("100.{}.0.0/16", 64 + services),
            dns_domain: DEFAULT_DNS_DOMAIN.to_owned(),
        };
        let fresh: Vec<bool> = given.iter().map(|(_, _, fresh)| *fresh).collect();
        let mut all: Vec<TenantCluster> = given
            .iter()
            .enumerate()
            .map(|(at, (pods, services, _))| with_status(stored(at as i64), network((*pods, *services))))
            .collect();
        let before = all.clone();
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                let meet = ranges_of(one).iter().any(|a| ranges_of(other).iter().any(|b| overlap(a, b)));
                prop_assert_eq!(claims::contested(other, &[one]).is_some(), meet);
                prop_assert_eq!(claims::contested(one, &[other]), None, "it is the older");
            }
        }

        let mut reservations = Reservations::default();
        let asked = order.into_iter().filter(|at| *at < all.len());
        let mut decided = Vec::new();
        for at in asked.chain(0..all.len()) {
            decided.push((at, reservations.decide(&all[at], &all, &settings, fresh[at]).unwrap()));
        }
        // Asked twice, before any status shows it, it answers the same.
        for (at, network) in &decided {
            prop_assert!(decided.iter().all(|(other, n)| other != at || n == network));
        }
        for (at, network) in decided {
            all[at] = with_status(all[at].clone(), network);
        }
        for (at, one) in all.iter().enumerate() {
            let was = &before[at];
            let stays = !fresh[at] || claims::contested(was, &before[..at]).is_none();
            prop_assert!(!stays || ranges_of(one) == ranges_of(was), "{at} is given others");
            // Whoever may move meets nobody any more.
            let told = claims::contested(one, &all);
            prop_assert!(told.is_none() || !fresh[at], "{told:?}");
        }
        for (at, one) in all.iter().enumerate() {
            let mut later = Reservations::default();
            let again = later.decide(one, &all, &settings, fresh[at]).unwrap();
            prop_assert_eq!(Some(&again), one.status.as_ref().and_then(|s| s.network.as_ref()));
        }
    }
}

#[test]
fn younger_of_two_with_one_range_is_told_whose_it_is() {
    let network = NetworkStatus {
        pod_cidr: "10.128.0.0/16".to_owned(),
        service_cidr: "100.64.0.0/16".to_owned(),
        dns_domain: DEFAULT_DNS_DOMAIN.to_owned(),
    };
    let older = with_status(stored(1), network.clone());
    let younger = with_status(stored(2), network);
    let all = [younger.clone(), older.clone()];
    assert_eq!(claims::contested(&older, &all), None);
    assert_eq!(
        claims::contested(&younger, &all).unwrap().to_string(),
        "spec.network.podCIDR: 10.128.0.0/16 was given twice: it overlaps podCIDR 10.128.0.0/16 of \
         tenant cluster team/t1, which is older and keeps it; nothing of this tenant cluster is \
         stopped, delete it and create it anew to be given free ranges"
    );
}
