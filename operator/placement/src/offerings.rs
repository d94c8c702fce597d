//! Which offering of a location is tried next, and which are left alone for a while.
//!
//! Invariant: an offering that nobody knows to be good has one try at a time: so of a location that is sold
//! out each offering is asked once, not once per machine. Types come in the order they are listed, in the
//! zone that is wanted; then the next zone; then (the caller's part) the next location. Source: clouds.md 11.2.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::time::later;

/// Creates in flight in one location.
pub const MOST_IN_FLIGHT: u32 = 10;
/// Machines in a row that run and never join, after which nothing is made there but canaries.
const NEVER_JOINED: u32 = 2;

const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n * 60)
}

/// How a machine is bought.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub enum Market {
    /// Until it is given back.
    #[default]
    OnDemand,
    /// Until somebody pays more.
    Spot,
}

/// A type that a location lists.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Type {
    /// As the provider calls it.
    pub name: String,
    /// What a quota counts together; the name of the type itself where the provider has no families.
    pub family: String,
}

/// What a location may be made of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Catalog {
    /// The preferred one first.
    pub types: Vec<Type>,
    /// Those that may be used now; one with an empty name where there are none.
    pub zones: Vec<String>,
    /// Of all of them.
    pub market: Market,
}

/// What one create asks for.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Offering {
    /// As the provider calls it.
    pub type_: String,
    /// What a quota counts together.
    pub family: String,
    /// Zone; empty where there are none.
    pub zone: String,
    /// How it is bought.
    pub market: Market,
}

/// Why a create was refused, with how long it is not asked again.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Refusal {
    /// Sold out: of this type in this zone. 3 min, doubling to 30 min.
    Capacity,
    /// The account's limit is reached: of this family. 10 min.
    Quota,
    /// The account's limit is 0: of this family. 1 h.
    ZeroQuota,
    /// The account may not have this type in this zone at all. 23 h.
    Forbidden,
}

impl Refusal {
    /// How long, after it was refused so for the `times`th time in a row.
    fn ttl(self, times: u32) -> Duration {
        match self {
            Self::Capacity => doubled(minutes(3), times, minutes(30)),
            Self::Quota => minutes(10),
            Self::ZeroQuota => minutes(60),
            Self::Forbidden => minutes(23 * 60),
        }
    }
}

fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    let factor = 1_u32
        .checked_shl(times.saturating_sub(1))
        .unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(most)
}

/// What is known of the offerings of one location. Stored, so that a restart asks nobody twice.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Offerings {
    #[serde(default)]
    entries: Vec<Entry>,
    /// Machines in a row that ran and never joined.
    #[serde(default)]
    never_joined: u32,
    /// Until when nothing is made because of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    join_until: Option<Timestamp>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    scope: Scope,
    answer: Answer,
}

/// What an answer is about.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
enum Scope {
    /// One type in one zone.
    Type {
        #[serde(rename = "type")]
        type_: String,
        zone: String,
        market: Market,
    },
    /// All types that a quota counts together, in all zones.
    Family { family: String, market: Market },
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
enum Answer {
    Made,
    Refused {
        refusal: Refusal,
        times: u32,
        until: Timestamp,
    },
}

/// What to do about one machine that is wanted in a location.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Choice {
    /// Ask for this.
    Take(Offering),
    /// Wait for an answer: another try of the offering whose turn it is has none yet, or as many creates as
    /// may be are in flight.
    Wait,
    /// Nothing here before then: the location's cap is what it has, and the next location's turn has come.
    Exhausted {
        /// When the first refusal ends; none where the location lists nothing at all.
        until: Option<Timestamp>,
        /// Why: the refusal that ends first, or machines that never joined.
        why: Exhaustion,
    },
}

/// Why nothing can be made in a location.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exhaustion {
    /// Everything is refused; the one that ends first is this.
    Refused(Refusal),
    /// So many machines in a row ran and never joined: network, image or endpoint is wrong there.
    NeverJoined(u32),
    /// It lists no type, or no zone may be used.
    Nothing,
}

impl Offerings {
    /// What the next machine of this location asks for. `zone` is the one that is to have it
    /// ([`crate::next::places`]); `in_flight` are the offerings of creates that have no answer yet, as the
    /// requests of Machines say, so that a restart forgets none.
    #[must_use]
    pub fn choose(
        &self,
        catalog: &Catalog,
        zone: &str,
        in_flight: &[Offering],
        now: Timestamp,
    ) -> Choice {
        if let Some(until) = self.join_until {
            if now < until {
                return Choice::Exhausted {
                    until: Some(until),
                    why: Exhaustion::NeverJoined(self.never_joined),
                };
            }
            // A single canary: whether it joins is only known after a while, so the caller counts those
            // that have not joined yet as in flight.
            if !in_flight.is_empty() {
                return Choice::Wait;
            }
        }
        if in_flight.len() >= MOST_IN_FLIGHT as usize {
            return Choice::Wait;
        }
        let entries = self.index();
        let mut first: Option<(Timestamp, Refusal)> = None;
        for offering in ordered(catalog, zone) {
            match judge(&entries, &offering, in_flight, now) {
                Turn::Free => return Choice::Take(offering),
                Turn::Asked => return Choice::Wait,
                Turn::Refused(refusal, until) => {
                    let sooner = first.is_none_or(|(known, _)| until < known);
                    first = if sooner {
                        Some((until, refusal))
                    } else {
                        first
                    };
                }
            }
        }
        Choice::Exhausted {
            until: first.map(|(until, _)| until),
            why: first.map_or(Exhaustion::Nothing, |(_, why)| Exhaustion::Refused(why)),
        }
    }

    /// How many creates may begin here now: for [`crate::targets::Location::slots`]. As many as are not in
    /// flight once something is known to be good; one for a first try or a canary; none while that has no
    /// answer.
    #[must_use]
    pub fn slots(&self, catalog: &Catalog, in_flight: &[Offering], now: Timestamp) -> u32 {
        let entries = self.index();
        let free =
            MOST_IN_FLIGHT.saturating_sub(u32::try_from(in_flight.len()).unwrap_or(u32::MAX));
        let of_zone = |zone: &String| match self.choose(catalog, zone, in_flight, now) {
            Choice::Take(offering) => {
                let is_good = entries.get(&type_scope(&offering)) == Some(&&Answer::Made);
                let is_limited = entries.contains_key(&family_scope(&offering));
                let is_canary = is_limited || self.join_until.is_some();
                if is_good && !is_canary { free } else { 1 }
            }
            Choice::Wait | Choice::Exhausted { .. } => 0,
        };
        catalog.zones.iter().map(of_zone).max().unwrap_or_default()
    }

    /// A create was accepted, by a provider that knows then that there is capacity; by another, the machine
    /// runs. One that went together with others that were refused does not end their refusal.
    pub fn on_made(&mut self, offering: &Offering, now: Timestamp) {
        let holds =
            |entry: &Entry| matches!(&entry.answer, Answer::Refused { until, .. } if now < *until);
        let (type_, family) = (type_scope(offering), family_scope(offering));
        // The canary of a quota: there is nothing more to be said about it.
        self.entries
            .retain(|entry| entry.scope != family || holds(entry));
        if !self.entries.iter().any(|e| e.scope == type_ && holds(e)) {
            self.set(type_, Answer::Made);
        }
    }

    /// A create was refused. Its Machine goes (nothing was made), and the next one asks for something else.
    pub fn on_refused(&mut self, offering: &Offering, refusal: Refusal, now: Timestamp) {
        let scope = match refusal {
            Refusal::Capacity | Refusal::Forbidden => type_scope(offering),
            Refusal::Quota | Refusal::ZeroQuota => family_scope(offering),
        };
        let before = self.entries.iter().find(|entry| entry.scope == scope);
        let times = match before.map(|entry| &entry.answer) {
            // Answers to creates that went together are one refusal.
            Some(Answer::Refused { times, until, .. }) if now < *until => *times,
            Some(Answer::Refused { times, .. }) => times.saturating_add(1),
            Some(Answer::Made) | None => 1,
        };
        let answer = Answer::Refused {
            refusal,
            times,
            until: later(now, refusal.ttl(times)),
        };
        self.set(scope, answer);
    }

    /// A machine that ran became a node.
    pub fn on_joined(&mut self) {
        (self.never_joined, self.join_until) = (0, None);
    }

    /// A machine that ran did not become a node in time. The second in a row makes the location suspect:
    /// nothing but one canary is made there, after 30 min, then 1 h, then every 2 h, until one joins.
    pub fn on_never_joined(&mut self, now: Timestamp) {
        self.never_joined = self.never_joined.saturating_add(1);
        if let Some(times) = self
            .never_joined
            .checked_sub(NEVER_JOINED - 1)
            .filter(|n| *n > 0)
        {
            let after = doubled(minutes(30), times, minutes(120));
            self.join_until = Some(later(now, after));
        }
    }

    /// Forgets what the location does not list any more: bounded by what it lists.
    pub fn prune(&mut self, catalog: &Catalog) {
        self.entries.retain(|entry| match &entry.scope {
            Scope::Type {
                type_,
                zone,
                market,
            } => {
                *market == catalog.market
                    && catalog.types.iter().any(|t| t.name == *type_)
                    && catalog.zones.contains(zone)
            }
            Scope::Family { family, market } => {
                *market == catalog.market && catalog.types.iter().any(|t| t.family == *family)
            }
        });
    }

    fn index(&self) -> BTreeMap<&Scope, &Answer> {
        self.entries
            .iter()
            .map(|entry| (&entry.scope, &entry.answer))
            .collect()
    }

    fn set(&mut self, scope: Scope, answer: Answer) {
        match self.entries.iter_mut().find(|entry| entry.scope == scope) {
            Some(entry) => entry.answer = answer,
            None => self.entries.push(Entry { scope, answer }),
        }
    }
}

/// Types in the order they are listed, in the zone that is wanted, then in each other zone.
fn ordered(catalog: &Catalog, zone: &str) -> impl Iterator<Item = Offering> {
    let wanted = catalog.zones.iter().filter(move |z| *z == zone);
    let others = catalog.zones.iter().filter(move |z| *z != zone);
    wanted.chain(others).flat_map(|zone| {
        catalog.types.iter().map(|type_| Offering {
            type_: type_.name.clone(),
            family: type_.family.clone(),
            zone: zone.clone(),
            market: catalog.market,
        })
    })
}

enum Turn {
    Free,
    Asked,
    Refused(Refusal, Timestamp),
}

fn judge(
    entries: &BTreeMap<&Scope, &Answer>,
    offering: &Offering,
    in_flight: &[Offering],
    now: Timestamp,
) -> Turn {
    let scopes = [family_scope(offering), type_scope(offering)];
    let mut asked = false;
    for scope in &scopes {
        let is_in_flight = || {
            let mut others = in_flight.iter();
            others.any(|o| *scope == type_scope(o) || *scope == family_scope(o))
        };
        match (entries.get(scope), scope) {
            (Some(Answer::Refused { refusal, until, .. }), _) if now < *until => {
                return Turn::Refused(*refusal, *until);
            }
            // The canary, or the first try.
            (Some(Answer::Refused { .. }), _) | (None, Scope::Type { .. }) => {
                asked |= is_in_flight();
            }
            (Some(Answer::Made), _) | (None, Scope::Family { .. }) => {}
        }
    }
    if asked { Turn::Asked } else { Turn::Free }
}

fn type_scope(offering: &Offering) -> Scope {
    Scope::Type {
        type_: offering.type_.clone(),
        zone: offering.zone.clone(),
        market: offering.market,
    }
}

fn family_scope(offering: &Offering) -> Scope {
    Scope::Family {
        family: offering.family.clone(),
        market: offering.market,
    }
}

#[cfg(test)]
mod tests;
