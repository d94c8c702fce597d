//! Suites that run against the lab, from outside
//!
//! Invariant: what is tested is reached only as its users reach it.

pub mod agent;
#[cfg(feature = "suites")]
pub mod bench;
#[cfg(feature = "suites")]
pub mod cluster;
#[cfg(feature = "suites")]
pub mod suite;
