//! How many machines each location and zone is to have.
//!
//! Replicas are divided by weight among locations, and what a location gets evenly among its zones, both by
//! [`apportion`] under caps. Invariant: targets say where the next machine is made and who goes when one has to;
//! they move nothing by themselves, and what a location lacks beyond all caps is a number, no error.
//! Source: clouds.md 11.1.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::apportion::{Apportioned, ByPrice, Share, apportion};
use crate::budget::{Micros, Price};
use crate::place::{Place, State};

/// One location of a pool.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Location {
    /// Its name.
    pub name: String,
    /// 0 to 1000; 0: nothing new.
    pub weight: u32,
    /// `spec.locations[].max`.
    pub max: Option<u32>,
    /// Price of the next machine there; in the division it decides ties alone.
    pub price: Option<Price>,
    /// What else limits it.
    pub headroom: Headroom,
    /// Creates that may begin there now: 10 less those in flight; 1 for a canary or a first try, 0 while
    /// that has no answer ([`crate::offerings`]).
    pub slots: u32,
    /// Its zones that are in use; one with an empty name where there are none.
    pub zones: Vec<Zone>,
}

impl Location {
    /// Price of the next machine there, where it is known. Currencies are not compared.
    #[must_use]
    pub fn hourly(&self) -> Option<Micros> {
        self.price.as_ref().map(|price| price.hourly)
    }
}

/// So many machines more than there are now; none where that is no limit. What is not known is no reason
/// to make one: pass `Some(0)`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Headroom {
    /// Free Hosts.
    pub hosts: Option<u32>,
    /// What the provider's quota leaves.
    pub quota: Option<u32>,
    /// What the budget leaves, in machines of this price ([`crate::budget::Budget::affordable`]).
    pub budget: Option<u32>,
}

/// One zone of a location.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Zone {
    /// Its name; empty where the provider has none.
    pub name: String,
    /// How it stands.
    pub state: State,
    /// Since when.
    pub since: Timestamp,
    /// A machine can be made there now: no refusal of all its offerings holds, and the circuit for creates
    /// is closed.
    pub is_creatable: bool,
}

impl Zone {
    /// Whether a new machine may be asked for.
    #[must_use]
    pub fn takes_new(&self) -> bool {
        self.state == State::Healthy && self.is_creatable
    }

    fn cap(&self, have: u32) -> u32 {
        match self.state {
            State::Out => 0,
            State::Healthy if self.is_creatable => u32::MAX,
            State::Healthy | State::Suspect | State::Recovering | State::Excluded => have,
        }
    }
}

/// What keeps a location from having more.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Cap {
    /// `max`.
    Max,
    /// No free Host.
    Hosts,
    /// The provider's quota.
    Quota,
    /// The pool's budget.
    Budget,
    /// None of its zones takes new machines.
    Zones,
}

/// Who is to have how many.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Targets {
    /// Of each location, by its name.
    pub locations: BTreeMap<String, u32>,
    /// Of each zone.
    pub places: BTreeMap<Place, u32>,
    /// What limits those that have as many as they may, and so could have got more.
    pub capped: BTreeMap<String, Cap>,
    /// Machines that are to be nowhere: all caps are reached.
    pub missing: u32,
}

/// Divides. `have`: machines that count now, in each place.
#[must_use]
pub fn targets(replicas: u32, locations: &[Location], have: &BTreeMap<Place, u32>) -> Targets {
    let caps: Vec<_> = locations.iter().map(|l| cap(l, have)).collect();
    let shares: Vec<_> = locations
        .iter()
        .zip(&caps)
        .map(|(location, (cap, _))| Share {
            weight: location.weight,
            cap: *cap,
            held: there(location, have),
            tie: ByPrice {
                hourly: location.hourly(),
                name: &location.name,
            },
        })
        .collect();
    let Apportioned { seats, missing } = apportion(replicas, &shares);
    let mut targets = Targets {
        missing,
        ..Targets::default()
    };
    for ((location, seats), (cap, why)) in locations.iter().zip(seats).zip(caps) {
        if let (true, Some(why)) = (location.weight > 0 && seats >= cap, why) {
            targets.capped.insert(location.name.clone(), why);
        }
        let shares: Vec<_> = location
            .zones
            .iter()
            .map(|zone| Share {
                weight: 1,
                cap: zone.cap(count(location, zone, have)),
                held: count(location, zone, have),
                tie: zone.name.as_str(),
            })
            .collect();
        let of_zones = apportion(seats, &shares).seats;
        for (zone, seats) in location.zones.iter().zip(of_zones) {
            targets.places.insert(place(location, zone), seats);
        }
        targets.locations.insert(location.name.clone(), seats);
    }
    targets
}

/// The place of a zone.
#[must_use]
pub fn place(location: &Location, zone: &Zone) -> Place {
    Place::new(location.name.clone(), zone.name.clone())
}

/// How many there are in a zone.
#[must_use]
pub fn count(location: &Location, zone: &Zone, have: &BTreeMap<Place, u32>) -> u32 {
    have.get(&place(location, zone))
        .copied()
        .unwrap_or_default()
}

/// How many there are in a location, those in zones that it does not list any more included.
#[must_use]
pub fn there(location: &Location, have: &BTreeMap<Place, u32>) -> u32 {
    let here = have.iter().filter(|(p, _)| p.location == location.name);
    here.fold(0, |sum, (_, n)| sum.saturating_add(*n))
}

fn cap(location: &Location, have: &BTreeMap<Place, u32>) -> (u32, Option<Cap>) {
    let here = there(location, have);
    let zones = location.zones.iter().fold(0_u32, |sum, zone| {
        sum.saturating_add(zone.cap(count(location, zone, have)))
    });
    let Headroom {
        hosts,
        quota,
        budget,
    } = location.headroom;
    let more = |limit: Option<u32>| limit.map(|n| here.saturating_add(n));
    let limits = [
        (location.max, Cap::Max),
        (more(hosts), Cap::Hosts),
        (more(quota), Cap::Quota),
        (more(budget), Cap::Budget),
        (Some(zones).filter(|n| *n < u32::MAX), Cap::Zones),
    ];
    let limits = limits.into_iter().filter_map(|(n, why)| Some((n?, why)));
    let least = limits.min();
    least.map_or((u32::MAX, None), |(n, why)| (n, Some(why)))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn zone(name: &str, state: State) -> Zone {
        Zone {
            name: name.to_owned(),
            state,
            since: Timestamp::UNIX_EPOCH,
            is_creatable: true,
        }
    }

    pub(crate) fn location(name: &str, weight: u32, zones: Vec<Zone>) -> Location {
        Location {
            name: name.to_owned(),
            weight,
            max: None,
            price: None,
            headroom: Headroom::default(),
            slots: 10,
            zones,
        }
    }

    fn have(counts: &[(&str, &str, u32)]) -> BTreeMap<Place, u32> {
        let one = |(l, z, n): &(&str, &str, u32)| (Place::new(*l, *z), *n);
        counts.iter().map(one).collect()
    }

    fn show(targets: &Targets) -> Vec<String> {
        let one = |(p, n): (&Place, &u32)| format!("{}{}{n}", p.location, p.zone);
        targets.places.iter().map(one).collect()
    }

    #[test]
    fn a_zone_that_is_out_gives_its_share_to_its_sisters() {
        use State::{Healthy, Out};
        let zones = |state| vec![zone("x", state), zone("y", Healthy)];
        let mut all = [
            location("a", 1, zones(Healthy)),
            location("b", 1, zones(Healthy)),
        ];
        let now = have(&[("a", "x", 2), ("a", "y", 2), ("b", "x", 2), ("b", "y", 2)]);
        assert_eq!(show(&targets(8, &all, &now)), ["ax2", "ay2", "bx2", "by2"]);
        all[0] = location("a", 1, zones(Out));
        assert_eq!(show(&targets(8, &all, &now)), ["ax0", "ay4", "bx2", "by2"]);
    }

    #[test]
    fn who_may_not_grow_keeps_what_it_has() {
        for state in [
            State::Suspect,
            State::Recovering,
            State::Excluded,
            State::Healthy,
        ] {
            let mut slow = zone("", state);
            slow.is_creatable = false;
            let all = [
                location("a", 1, vec![slow]),
                location("b", 1, vec![zone("", State::Healthy)]),
            ];
            let now = have(&[("a", "", 1), ("b", "", 2)]);
            let targets = targets(6, &all, &now);
            assert_eq!(show(&targets), ["a1", "b5"]);
            assert_eq!(targets.capped["a"], Cap::Zones);
        }
    }

    #[test]
    fn the_least_headroom_is_the_cap_and_what_is_missing_is_said() {
        let mut all = [location("a", 1, vec![zone("", State::Healthy)])];
        all[0].max = Some(9);
        all[0].headroom = Headroom {
            hosts: Some(4),
            quota: Some(2),
            budget: Some(3),
        };
        let targets = targets(10, &all, &have(&[("a", "", 3)]));
        assert_eq!((targets.locations["a"], targets.missing), (5, 5));
        assert_eq!(targets.capped["a"], Cap::Quota);
    }

    #[test]
    fn a_change_of_prices_changes_no_target() {
        let mut all = ["a", "b"].map(|name| location(name, 1, vec![zone("", State::Healthy)]));
        let price = |n| {
            let currency = "EUR".to_owned();
            let hourly = Micros(n);
            Some(Price { hourly, currency })
        };
        (all[0].price, all[1].price) = (price(2), price(1));
        assert_eq!(show(&targets(3, &all, &have(&[]))), ["a1", "b2"]);
        all[0].price = price(0);
        let now = have(&[("a", "", 1), ("b", "", 2)]);
        assert_eq!(show(&targets(3, &all, &now)), ["a1", "b2"]);
    }

    proptest! {
        #[test]
        fn zones_add_up_to_their_location(
            replicas in 0..200_u32,
            worlds in prop::collection::vec((0..5_u32, prop::collection::vec((0..5_u8, 0..9_u32), 1..4)), 1..5),
        ) {
            use State::{Excluded, Healthy, Out, Recovering, Suspect};
            let states = [Healthy, Suspect, Out, Recovering, Excluded];
            let mut now = BTreeMap::new();
            let mut all = Vec::new();
            for (n, (weight, zones)) in worlds.into_iter().enumerate() {
                let name = format!("l{n}");
                let mut of = Vec::new();
                for (z, (state, count)) in zones.into_iter().enumerate() {
                    now.insert(Place::new(name.clone(), format!("z{z}")), count);
                    of.push(zone(&format!("z{z}"), states[usize::from(state)]));
                }
                all.push(location(&name, weight, of));
            }
            let targets = targets(replicas, &all, &now);
            for location in &all {
                let zones = targets.places.iter().filter(|(p, _)| p.location == location.name);
                prop_assert_eq!(zones.map(|(_, n)| *n).sum::<u32>(), targets.locations[&location.name]);
            }
            let sum: u32 = targets.locations.values().sum();
            prop_assert_eq!(sum + targets.missing, replicas);
        }
    }
}
