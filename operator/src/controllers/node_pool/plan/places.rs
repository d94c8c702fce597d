//! Where the Machines of a pool may be, as crate `placement` wants to be told.
//!
//! Invariant: it follows from the spec, and from how each location stands ([`outage`](super::outage)); what is not known
//! of one is no limit.

use std::collections::BTreeMap;

use api::node_pool::Rebalance;
use api::{Machine, NodePoolSpec};
use jiff::Timestamp;
use placement::budget::{Micros, Price};
use placement::next;
use placement::place::State;
use placement::targets::{Headroom, Location, Zone};

use super::outage::Outlook;
use super::sizing::{Spread, place_of};
use super::template::Template;

/// What the pool says of it, while these outdated Machines go.
pub(super) fn spread(
    spec: &NodePoolSpec,
    template: &Template,
    (outdated, outlook, prices): (&[&Machine], &Outlook, &BTreeMap<String, u64>),
    now: Timestamp,
) -> Spread {
    let mut going = BTreeMap::new();
    for machine in outdated {
        let location = template.location_of(machine);
        let place = place_of(location.map(|at| at.shown.as_str()));
        *going.entry(place).or_default() += 1;
    }
    let locations = template.locations.iter();
    let locations = locations.map(|at| {
        let mut location = location(at.shown.clone(), at.weight, at.max);
        // Between equals it decides; nobody is moved by it, and no currency is told from another.
        location.price = prices.get(&at.shown).map(|hourly| Price {
            hourly: Micros(*hourly),
            currency: String::new(),
        });
        for zone in &mut location.zones {
            (zone.state, zone.since) = outlook.state(&at.shown);
            zone.is_creatable = outlook.is_creatable(&at.shown);
        }
        location
    });
    outlook.spread(Spread {
        locations: locations.collect(),
        rebalance: match spec.placement.rebalance {
            Rebalance::Never => next::Rebalance::Never,
            Rebalance::Gradual => next::Rebalance::Gradual,
        },
        going,
        stranded: 0,
        max_extra: 0,
        canaries: Vec::new(),
        now,
    })
}

/// One location: of one zone, healthy for ever as far as anybody knows.
pub(super) fn location(name: String, weight: u32, max: Option<u32>) -> Location {
    Location {
        name,
        weight,
        max,
        price: None,
        headroom: Headroom::default(),
        slots: u32::MAX,
        zones: vec![Zone {
            name: String::new(),
            state: State::Healthy,
            since: Timestamp::UNIX_EPOCH,
            is_creatable: true,
        }],
    }
}
