//! Whether it is the published endpoint that keeps a tenant cluster's nodes silent: what their silence says of it, and what
//! the operator's own try.
//!
//! Invariant: nothing is said against an endpoint by which some node is heard; and that the operator comes in by it takes
//! nothing out, because it may come there from within (clouds.md 11.3: "a probe that hairpins proves only our load
//! balancer"): whoever comes from outside is [`crate::verdict::EndpointProbe`].

use std::time::Duration;

use crate::verdict::{Observation, Verdict};

/// A try is made so often at most.
pub const PROBE_EVERY: Duration = Duration::from_secs(30);
/// Connection and handshake of one take no longer.
pub const PROBE_TAKES: Duration = Duration::from_secs(5);
/// What came of one is known for so long.
pub const KNOWN_FOR: Duration = Duration::from_secs(90);

/// What came of the operator's last try to shake hands by TLS at the published address.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Probe {
    /// Nobody tried, or that was long ago.
    #[default]
    Unknown,
    /// The tenant cluster's own certificate was shown.
    Answers,
    /// No connection, no handshake, or somebody else's certificate.
    Fails,
}

/// How an endpoint stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// Nothing speaks against it.
    Fine,
    /// All nodes that come by it are silent, while others are heard; or everybody is, and it does not let the operator in
    /// either.
    Unreachable,
    /// What was said of it is as true as before.
    Unknown,
}

/// Judges one. `serves`: the API of the tenant cluster answers where it is not published.
#[must_use]
pub fn judge(
    observation: &Observation,
    verdict: &Verdict,
    endpoint: &str,
    probe: Probe,
    serves: bool,
) -> Standing {
    let here = observation
        .locations
        .iter()
        .filter(|at| at.endpoint == endpoint);
    let nodes = here.map(|at| at.machines.len()).sum::<usize>();
    if verdict.unreachable.contains_key(endpoint) {
        return Standing::Unreachable;
    }
    match (verdict.is_all_silent, observation.is_trusted) {
        (true, _) if nodes > 0 && serves && probe == Probe::Fails => Standing::Unreachable,
        (true, _) | (false, false) => Standing::Unknown,
        (false, true) => Standing::Fine,
    }
}

/// Whether it is tried now. `quiet`: of each node that comes by it, since when it says nothing; none where nobody knows.
/// `tried`: how long ago the last try was.
#[must_use]
pub fn is_probe_due(quiet: &[Option<Duration>], after: Duration, tried: Option<Duration>) -> bool {
    let silent = quiet.iter().flatten().filter(|quiet| **quiet >= after);
    let is_fresh = |quiet: &Duration| *quiet < after;
    silent.count() >= 2
        && !quiet.iter().flatten().any(is_fresh)
        && tried.is_none_or(|ago| ago >= PROBE_EVERY)
}

#[cfg(test)]
mod tests;
