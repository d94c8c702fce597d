//! Where the Machines of a pool may be, as crate `placement` wants to be told.
//!
//! Invariant: it follows from the spec alone: nothing is judged here, so every location is healthy, and what is
//! not known of one is no limit.

use api::NodePoolSpec;
use api::node_pool::Rebalance;
use jiff::Timestamp;
use placement::next;
use placement::place::State;
use placement::targets::{Headroom, Location, Zone};

use super::sizing::Spread;
use super::template::Template;

/// What the pool says of it.
pub(super) fn spread(
    spec: &NodePoolSpec,
    template: &Template,
    is_still: bool,
    now: Timestamp,
) -> Spread {
    let locations = template.locations.iter();
    let locations = locations.map(|at| location(at.shown.clone(), at.weight, at.max));
    Spread {
        locations: locations.collect(),
        rebalance: match spec.placement.rebalance {
            Rebalance::Never => next::Rebalance::Never,
            Rebalance::Gradual => next::Rebalance::Gradual,
        },
        is_still,
        now,
    }
}

/// One location: of one zone, healthy for ever.
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
