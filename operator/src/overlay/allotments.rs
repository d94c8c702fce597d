//! Addresses that Machines were given and that their status may not show yet.
//!
//! Invariant: of two reconciles at once no two give the same address; asked again for the same Machine, the answer is
//! the same. A new leader starts with none, because it lists all Machines anew before it decides anything; of two
//! that have the same address all the same the older one keeps it.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::Machine;
use ipnet::IpNet;
use kube::ResourceExt;
use tenant_cp::network::overlay;

use super::members::{address_of, is_of, order};

/// What one Machine may have in the overlay.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Allotment {
    /// Its address; none where the range has none left.
    pub address: Option<IpAddr>,
    /// Public keys of other Machines of the tenant cluster.
    pub keys: BTreeSet<String>,
    /// Those of them that older ones have.
    pub older_keys: BTreeSet<String>,
}

/// What was given and is in no status yet, by UID of the Machine.
#[derive(Clone, Debug, Default)]
pub struct Allotments {
    pending: BTreeMap<String, IpAddr>,
}

impl Allotments {
    /// What a Machine may have. `all` has every Machine; those that are gone from it are forgotten.
    pub fn decide<T: Borrow<Machine>>(
        &mut self,
        machine: &Machine,
        all: &[T],
        range: &IpNet,
    ) -> Allotment {
        let uid = machine.uid().unwrap_or_default();
        let all = all.iter().map(Borrow::borrow);
        let all: Vec<&Machine> = all.collect();
        let by_uid: BTreeMap<&str, &Machine> = all
            .iter()
            .filter_map(|other| Some((other.metadata.uid.as_deref()?, *other)))
            .collect();
        // Once the store shows an address it goes by that.
        self.pending.retain(|uid, given| {
            let known = by_uid.get(uid.as_str());
            known.is_some_and(|known| address_of(known) != Some(*given))
        });
        let others = all.iter().copied().filter(|other| {
            is_of(other, &machine.spec.cluster_uid) && other.metadata.uid.as_deref() != Some(&*uid)
        });
        let others: Vec<&Machine> = others.collect();
        let is_older = |other: &Machine| order(other) < order(machine);
        let mut taken = BTreeSet::new();
        let mut older = BTreeSet::new();
        let (mut keys, mut older_keys) = (BTreeSet::new(), BTreeSet::new());
        for other in others {
            let given = self
                .pending
                .get(other.metadata.uid.as_deref().unwrap_or_default());
            let has = given.copied().or_else(|| address_of(other));
            taken.extend(has);
            older.extend(has.filter(|_| is_older(other)));
            let status = other.status.as_ref().and_then(|s| s.overlay.as_ref());
            let key = status.and_then(|member| member.public_key.clone());
            older_keys.extend(key.clone().filter(|_| is_older(other)));
            keys.extend(key);
        }
        let has = self
            .pending
            .get(&uid)
            .copied()
            .or_else(|| address_of(machine));
        // What it has it gives up to an older one alone.
        let keeps = has.filter(|has| !older.contains(has));
        taken.retain(|address| Some(*address) != keeps);
        let address = overlay::address(range, &uid, keeps, &taken);
        if let Some(address) = address.filter(|address| address_of(machine) != Some(*address)) {
            self.pending.insert(uid, address);
        }
        Allotment {
            address,
            keys,
            older_keys,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::overlay::members::tests::{machine, with_address};

    fn range() -> IpNet {
        "198.18.0.0/28".parse().unwrap()
    }

    #[test]
    fn what_was_given_is_nobody_elses_before_a_status_shows_it() {
        let all = [machine("a", 1), machine("b", 2)];
        let mut allotments = Allotments::default();
        let a = allotments.decide(&all[0], &all, &range()).address;
        let b = allotments.decide(&all[1], &all, &range()).address;
        assert!(a.is_some() && b.is_some() && a != b);
        assert_eq!(allotments.decide(&all[0], &all, &range()).address, a);
        // Who is gone has none any more.
        allotments.decide(&all[1], &all[1..], &range());
        assert_eq!(allotments.pending.len(), 1);
    }

    #[test]
    fn of_two_with_the_same_address_the_older_one_keeps_it() {
        let all = [
            with_address(machine("young", 2), "198.18.0.3"),
            with_address(machine("old", 1), "198.18.0.3"),
        ];
        let mut allotments = Allotments::default();
        let old = allotments.decide(&all[1], &all, &range()).address;
        assert_eq!(old, Some("198.18.0.3".parse().unwrap()));
        let young = allotments.decide(&all[0], &all, &range()).address.unwrap();
        assert_ne!(Some(young), old);
        assert!(range().contains(&young));
    }

    #[test]
    fn machines_of_other_tenant_clusters_have_addresses_of_their_own() {
        let mut other = with_address(machine("other", 1), "198.18.0.3");
        other.spec.cluster_uid = "other".to_owned();
        let mine = with_address(machine("mine", 2), "198.18.0.3");
        let all = [other, mine.clone()];
        let given = Allotments::default().decide(&mine, &all, &range());
        assert_eq!(given.address, Some("198.18.0.3".parse().unwrap()));
    }

    #[test]
    fn full_range_gives_nothing_and_takes_nothing_away() {
        let all: Vec<_> = (0..15).map(|n| machine(&format!("m{n:02}"), n)).collect();
        let mut allotments = Allotments::default();
        let given: Vec<_> = all
            .iter()
            .map(|one| allotments.decide(one, &all, &range()).address)
            .collect();
        assert_eq!(given.iter().flatten().collect::<BTreeSet<_>>().len(), 14);
        assert_eq!(given[14], None);
        for (one, given) in all.iter().zip(given) {
            assert_eq!(allotments.decide(one, &all, &range()).address, given);
        }
    }

    proptest! {
        /// Reconciles in any order over a store that shows statuses late, or never.
        #[test]
        fn no_two_machines_have_one_address_whatever_the_store_shows(
            steps in proptest::collection::vec((0_usize..10, any::<bool>()), 1..60),
        ) {
            let mut shown: Vec<Machine> = (0_i64..10).map(|n| machine(&format!("m{n}"), n)).collect();
            let mut live = shown.clone();
            let mut allotments = Allotments::default();
            for (at, seen) in steps {
                let given = allotments.decide(&live[at], &shown, &range()).address;
                if let Some(given) = given {
                    if let Some(before) = address_of(&live[at]) {
                        prop_assert_eq!(before, given, "it keeps what it has");
                    }
                    live[at] = with_address(live[at].clone(), &given.to_string());
                }
                if seen {
                    shown[at] = live[at].clone();
                }
                let all: Vec<_> = live.iter().filter_map(address_of).collect();
                let distinct: BTreeSet<_> = all.iter().collect();
                prop_assert_eq!(distinct.len(), all.len());
            }
        }
    }
}
