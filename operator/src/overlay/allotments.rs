//! Addresses that Machines were given and that their status may not show yet.
//!
//! Invariant: of two reconciles at once no two give the same address; asked again for the same Machine, the answer is
//! the same. A new leader starts with none, because it lists all Machines anew before it decides anything; of two
//! that have the same address all the same the older one keeps it.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::{Host, Machine};
use ipnet::IpNet;
use kube::ResourceExt;
use provider_static::life::choose;
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
    /// What a Machine may have. `all` has every Machine; those that are gone from it are forgotten. `known`: by which
    /// address its node is known already ([`known_address`]); it gets that where nobody has it.
    pub fn decide<T: Borrow<Machine>>(
        &mut self,
        machine: &Machine,
        all: &[T],
        range: &IpNet,
        known: Option<IpAddr>,
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
            let shown = by_uid.get(uid.as_str());
            shown.is_some_and(|shown| address_of(shown) != Some(*given))
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
        let keeps = keeps.or_else(|| known.filter(|known| !taken.contains(known)));
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

/// By which address a Machine's node is known already, by the word of the Host that it has or takes over: one that a
/// status has lost, and that of a node that was in an overlay before its management cluster was lost.
#[must_use]
pub fn known_address<H: Borrow<Host>>(machine: &Machine, hosts: &[H]) -> Option<IpAddr> {
    let uid = machine.uid()?;
    let mut all = hosts.iter().map(Borrow::borrow);
    if let Some(own) = all.find(|host| choose::is_of(host, &uid)) {
        return own.node_address();
    }
    let (wanted, _) = machine.adopts()?;
    let mut all = hosts.iter().map(Borrow::borrow);
    let host = all.find(|host| host.uid().as_deref() == Some(wanted))?;
    host.spec.node_address()
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
        let a = allotments.decide(&all[0], &all, &range(), None).address;
        let b = allotments.decide(&all[1], &all, &range(), None).address;
        assert!(a.is_some() && b.is_some() && a != b);
        assert_eq!(allotments.decide(&all[0], &all, &range(), None).address, a);
        // Who is gone has none any more.
        allotments.decide(&all[1], &all[1..], &range(), None);
        assert_eq!(allotments.pending.len(), 1);
    }

    #[test]
    fn of_two_with_the_same_address_the_older_one_keeps_it() {
        let all = [
            with_address(machine("young", 2), "198.18.0.3"),
            with_address(machine("old", 1), "198.18.0.3"),
        ];
        let mut allotments = Allotments::default();
        let old = allotments.decide(&all[1], &all, &range(), None).address;
        assert_eq!(old, Some("198.18.0.3".parse().unwrap()));
        let young = allotments
            .decide(&all[0], &all, &range(), None)
            .address
            .unwrap();
        assert_ne!(Some(young), old);
        assert!(range().contains(&young));
    }

    fn host(value: serde_json::Value) -> Host {
        let mut host = serde_json::json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
            "metadata": { "name": "h", "namespace": "team-a", "uid": "uid-h" },
            "spec": { "address": "192.0.2.10", "user": "root", "sshKeySecretName": "ssh", "hostKeys": ["x"] },
        });
        for (key, part) in value.as_object().into_iter().flatten() {
            for (name, part) in part.as_object().into_iter().flatten() {
                host[key][name] = part.clone();
            }
        }
        serde_json::from_value(host).unwrap()
    }

    #[test]
    fn node_that_is_known_already_keeps_its_address_where_it_is_free_and_of_the_range() {
        let claim = serde_json::json!({ "machineName": "a", "machineUID": "uid-a", "tenantClusterUID": "tc",
            "nodeAddress": "198.18.0.9", "inOverlay": true });
        let has = host(serde_json::json!({ "status": { "claim": claim } }));
        let mut adopter = machine("b", 2);
        let annotations = adopter.metadata.annotations.get_or_insert_default();
        annotations.insert(
            api::names::ANNOTATION_ADOPTS.to_owned(),
            format!("uid-h/{}", "ab".repeat(32)),
        );
        let listed = host(serde_json::json!({ "spec": { "nodeAddress": "198.18.0.9" } }));
        let of =
            |machine: &Machine, host: &Host| known_address(machine, std::slice::from_ref(host));
        let wanted = "198.18.0.9".parse().ok();
        assert_eq!(of(&machine("a", 1), &has), wanted, "its status was lost");
        assert_eq!(of(&adopter, &listed), wanted);
        assert_eq!(of(&machine("c", 3), &has), None);
        assert_eq!(of(&machine("c", 3), &listed), None);

        let all = [machine("a", 1), adopter.clone()];
        let mut allotments = Allotments::default();
        let given = |allotments: &mut Allotments, machine: &Machine, known| {
            allotments.decide(machine, &all, &range(), known).address
        };
        assert_eq!(given(&mut allotments, &all[0], wanted), wanted);
        // Nobody else has it then, whatever is said; nor is one taken that is of another range.
        let other = given(&mut allotments, &all[1], wanted);
        assert!(other.is_some() && other != wanted);
        let outside = "192.0.2.10".parse().ok();
        let kept = given(&mut Allotments::default(), &all[0], outside);
        assert!(kept.is_some() && kept != outside);
    }

    #[test]
    fn machines_of_other_tenant_clusters_have_addresses_of_their_own() {
        let mut other = with_address(machine("other", 1), "198.18.0.3");
        other.spec.cluster_uid = "other".to_owned();
        let mine = with_address(machine("mine", 2), "198.18.0.3");
        let all = [other, mine.clone()];
        let given = Allotments::default().decide(&mine, &all, &range(), None);
        assert_eq!(given.address, Some("198.18.0.3".parse().unwrap()));
    }

    #[test]
    fn full_range_gives_nothing_and_takes_nothing_away() {
        let all: Vec<_> = (0..15).map(|n| machine(&format!("m{n:02}"), n)).collect();
        let mut allotments = Allotments::default();
        let given: Vec<_> = all
            .iter()
            .map(|one| allotments.decide(one, &all, &range(), None).address)
            .collect();
        assert_eq!(given.iter().flatten().collect::<BTreeSet<_>>().len(), 14);
        assert_eq!(given[14], None);
        for (one, given) in all.iter().zip(given) {
            assert_eq!(allotments.decide(one, &all, &range(), None).address, given);
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
                let given = allotments.decide(&live[at], &shown, &range(), None).address;
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
