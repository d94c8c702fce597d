//! How long what is done with members of etcd waits.
//!
//! Invariant: what is not so for long enough is not acted on.

use std::time::Duration;

/// How long something has to be so before it is acted on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Patience {
    /// A member does not serve.
    pub absent: Duration,
    /// The others serve.
    pub steady: Duration,
    /// After the last replacement.
    pub between: Duration,
    /// Until people are told that a member that was begun to be replaced is not whole.
    pub overdue: Duration,
    /// All others serve, and none was taken away, before one is taken away that is not wanted.
    pub shrinking: Duration,
    /// All members serve, before the next one's pod is ended.
    pub serving: Duration,
    /// Age of a pod that is ended only so that its member writes its database anew.
    pub fragments: Duration,
    /// The disk of one member of three is slow, before it is replaced (operations.md §4.2).
    pub slow: Duration,
    /// After the last replacement, before one is replaced for its slow disk: where the next volume is as slow, the
    /// tenant cluster is not to be busy with that for ever.
    pub between_slow: Duration,
    /// Between two moves of the lead away from a slow disk.
    pub lead: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            absent: Duration::from_mins(1),
            steady: Duration::from_mins(1),
            between: Duration::from_mins(10),
            overdue: Duration::from_mins(15),
            shrinking: Duration::from_secs(10),
            serving: Duration::from_secs(5),
            fragments: Duration::from_hours(1),
            slow: Duration::from_mins(30),
            between_slow: Duration::from_hours(24),
            lead: Duration::from_mins(30),
        }
    }
}
