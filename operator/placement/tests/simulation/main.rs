//! Whole lives of pools over several locations, on a virtual clock: the scenarios of clouds.md 13.3 that need no
//! cloud, and random ones.
//!
//! Invariant: after every second the laws hold that [`cluster::Cluster::obey`] checks.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

mod cluster;
mod fake;
mod laws;
mod scenarios;
