//! How the servers of tenants behave, and what they were asked.
//!
//! Invariant: a call is written down after its answer, so its code is what the caller was told.

use std::time::Duration;

/// How the servers behave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Answers.
    Up,
    /// Accepts no connection and breaks those that are open.
    Down,
    /// Answers after so long.
    Slow(Duration),
    /// Answers everything with 500.
    Failing,
    /// Approves and denies certificates after so long; everything else is as it should be.
    SlowApprovals(Duration),
    /// Answers everything but watches with a body that has no end.
    EndlessBody,
    /// Answers watches with a line that has no end.
    EndlessLine,
    /// Has so many ConfigMaps with Covey's label, of so many bytes each, besides what is stored.
    Flood {
        /// How many.
        objects: usize,
        /// How large.
        bytes: usize,
    },
    /// Sends what it answers byte by byte, with such a pause before each.
    Drip(Duration),
    /// Answers everything with a page for people, as a proxy in front of it would.
    Page,
    /// Says that it is of this version, with the `v`; everything else is as it should be.
    Claims(&'static str),
    /// Answers, and ends each connection after its first request: GOAWAY of HTTP/2.
    OneEach,
    /// Misbehaves below HTTP.
    Wire(Wire),
}

/// What frames of HTTP/2 can do to a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wire {
    /// Each connection is told to go away before anything was asked on it.
    GoAway,
    /// Each request is refused (RST_STREAM, REFUSED_STREAM), which says that it may be sent again.
    Refuses,
    /// The header of each answer has no end.
    EndlessHeader,
}

/// One request that a tenant's server got.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Call {
    /// Common name of the client certificate; empty without one.
    pub user: String,
    /// Its organisations.
    pub groups: Vec<String>,
    /// As in the audit log.
    pub verb: String,
    /// Without the query.
    pub path: String,
    /// Status of the answer.
    pub code: u16,
}
