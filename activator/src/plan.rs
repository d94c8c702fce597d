//! What is decided, without a socket, an API or a clock: which ports are open, who is let in, and whether to wake.
//!
//! Invariant: a wake is asked for once for each sleep, however many ask, and at most [`WAKES_AN_HOUR`] times in an hour;
//! what was asked before is read from the Lease, so that a restart and a second activator count the same.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};

use crate::sleepers::Waited;

/// So many wakes by request a tenant cluster has in an hour.
pub const WAKES_AN_HOUR: usize = 4;
const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Ports to change.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Ports {
    /// Nobody is waited for there any more, or somebody else.
    pub close: BTreeSet<u16>,
    /// Not open yet, or to be opened anew.
    pub open: BTreeSet<u16>,
}

/// What to do about ports, of which those are open, each for a UID.
#[must_use]
pub fn ports(open: &BTreeMap<u16, String>, wanted: &BTreeMap<u16, Waited>) -> Ports {
    let is_same =
        |port: &u16, uid: &String| wanted.get(port).is_some_and(|waited| waited.uid == *uid);
    let stays = |port: &u16| open.get(port).is_some_and(|uid| is_same(port, uid));
    Ports {
        close: open.keys().copied().filter(|port| !stays(port)).collect(),
        open: wanted.keys().copied().filter(|port| !stays(port)).collect(),
    }
}

/// Whether a client of this address may ask. An address of IPv4 that comes as one of IPv6 is what it is.
#[must_use]
pub fn is_allowed(ranges: &[IpNet], client: IpAddr) -> bool {
    let client = client.to_canonical();
    ranges.is_empty() || ranges.iter().any(|range| range.contains(&client))
}

/// What the Lease says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Asked {
    /// When it was renewed last.
    pub renewed: Option<Timestamp>,
    /// When requests woke the tenant cluster, as far as it is remembered.
    pub wakes: Vec<Timestamp>,
}

/// What to do about a client that wants in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Wake {
    /// Nothing: it was asked for since it was sent to sleep.
    Asked,
    /// Renew the Lease, and remember these.
    Ask {
        /// In order of time, this one last.
        wakes: Vec<Timestamp>,
    },
    /// Requests woke it too often; from then on they may again.
    TooOften {
        /// When the oldest of those is an hour ago.
        until: Timestamp,
    },
}

/// Whether to ask that it wakes, which sleeps since then.
#[must_use]
pub fn wake(asked: &Asked, since: Timestamp, now: Timestamp) -> Wake {
    if asked.renewed.is_some_and(|renewed| renewed > since) {
        return Wake::Asked;
    }
    let mut wakes = asked.wakes.clone();
    // What a clock that ran ahead wrote counts for an hour from now at most.
    wakes.retain(|time| now.duration_since(*time) < HOUR);
    wakes.sort_unstable();
    if let Some(oldest) = wakes
        .len()
        .checked_sub(WAKES_AN_HOUR)
        .and_then(|at| wakes.get(at))
    {
        let until = oldest.min(&now).checked_add(HOUR).unwrap_or(Timestamp::MAX);
        return Wake::TooOften { until };
    }
    wakes.push(now);
    Wake::Ask { wakes }
}

#[cfg(test)]
mod tests;
