//! Configuration of an election: which Lease, who we are, which spans.
//!
//! Invariant: a value; what it means is decided in [`super::plan`].

use std::collections::BTreeMap;

use super::plan::Timing;

/// What is to be elected, and who we are.
#[derive(Clone, Debug)]
pub struct LeaseConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are: the pod's name. Must be unique among processes alive at the same time; a
    /// container that restarts in the same pod may use it again, and then leads at once.
    pub identity: String,
    /// Spans, see [`Timing`].
    pub timing: Timing,
}

/// What a holder says in its Lease.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Notes {
    /// Labels of the Lease.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Lease.
    pub annotations: BTreeMap<String, String>,
}
