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
pub const BOOT: i64 = 60;
/// From a deletion to nothing, in seconds.
pub const DRAIN: i64 = 20;
/// A kubelet renews its Lease so often, in seconds.
pub const RENEW: i64 = 10;

pub struct Location {
    pub name: String,
    pub weight: u32,
    pub endpoint: &'static str,
    pub catalog: Catalog,
    pub sold_out: BTreeSet<String>,
    pub price: Option<Price>,
    pub is_api_down: bool,
    pub is_cut: bool,
    pub never_joins: bool,
    pub calls: u32,
    // What Covey remembers of it.
    pub circuit: Circuit,
    pub offerings: Offerings,
    pub record: Record,
    pub fresh_since: Option<i64>,
}

impl Location {
    pub fn new(name: &str, weight: u32) -> Self {
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
pub enum Phase {
    /// The create has no answer yet.
    Asked,
    /// Accepted then.
    Made(i64),
}

#[derive(Clone, Debug)]
pub struct Machine {
    pub name: String,
    pub location: usize,
    pub offering: Offering,
    pub made: i64,
    pub phase: Phase,
    pub is_replacement: bool,
    pub is_canary: bool,
    pub is_dead: bool,
    pub has_joined: bool,
    pub going: Option<i64>,
    /// When its Lease was last renewed.
    pub renewed: i64,
    /// When Covey last saw it change, or began to listen.
    pub seen: i64,
    /// Since when it is not ready, by the wall clock.
    pub silent_since: Option<i64>,
}

impl Machine {
    pub fn unchanged_for(&self, now: i64) -> Duration {
        Duration::from_secs(u64::try_from(now - self.seen).unwrap_or_default())
    }
}
