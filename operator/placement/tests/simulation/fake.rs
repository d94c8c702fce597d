//! A provider's location that is played: machines, their nodes, an API that may fail, capacity that may be out.
//!
//! Invariant: it does what a provider does, and decides nothing of Covey's.

use std::collections::BTreeSet;
use std::time::Duration;

use placement::budget::{Micros, Price};
use placement::circuit::Circuit;
use placement::offerings::{Catalog, Market, Offering, Offerings, Type};
use placement::recovery::Record;

use crate::cluster::at;

/// From an accepted create to a Ready node, in seconds.
pub(crate) const BOOT: i64 = 60;
/// From a deletion to nothing, in seconds.
pub(crate) const DRAIN: i64 = 20;
/// A kubelet renews its Lease so often, in seconds.
pub(crate) const RENEW: i64 = 10;

pub(crate) struct Location {
    pub(crate) name: String,
    pub(crate) weight: u32,
    pub(crate) endpoint: &'static str,
    pub(crate) catalog: Catalog,
    pub(crate) sold_out: BTreeSet<String>,
    pub(crate) price: Option<Price>,
    pub(crate) is_api_down: bool,
    pub(crate) is_cut: bool,
    pub(crate) never_joins: bool,
    pub(crate) calls: u32,
    // What Covey remembers of it.
    pub(crate) circuit: Circuit,
    pub(crate) offerings: Offerings,
    pub(crate) record: Record,
    pub(crate) fresh_since: Option<i64>,
}

impl Location {
    pub(crate) fn new(name: &str, weight: u32) -> Self {
        let type_ = |name: &str| Type {
            name: name.to_owned(),
            family: name.to_owned(),
        };
        Self {
            name: name.to_owned(),
            weight,
            endpoint: "public",
            catalog: Catalog {
                types: ["large", "medium", "small"].map(type_).into(),
                zones: vec![String::new()],
                market: Market::OnDemand,
            },
            sold_out: BTreeSet::new(),
            price: Some(Price {
                hourly: Micros(100_000),
                currency: "EUR".to_owned(),
            }),
            is_api_down: false,
            is_cut: false,
            never_joins: false,
            calls: 0,
            circuit: Circuit::new(at(0)),
            offerings: Offerings::default(),
            record: Record::new(at(0)),
            fresh_since: None,
        }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// The create has no answer yet.
    Asked,
    /// Accepted then.
    Made(i64),
}

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) location: usize,
    pub(crate) offering: Offering,
    pub(crate) made: i64,
    pub(crate) phase: Phase,
    pub(crate) is_replacement: bool,
    pub(crate) is_canary: bool,
    pub(crate) is_dead: bool,
    pub(crate) has_joined: bool,
    pub(crate) going: Option<i64>,
    /// When its Lease was last renewed.
    pub(crate) renewed: i64,
    /// When Covey last saw it change, or began to listen.
    pub(crate) seen: i64,
    /// Since when it is not ready, by the wall clock.
    pub(crate) silent_since: Option<i64>,
}

impl Machine {
    pub(crate) fn unchanged_for(&self, now: i64) -> Duration {
        Duration::from_secs(u64::try_from(now - self.seen).unwrap_or_default())
    }
}
