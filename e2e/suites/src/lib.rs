//! Suites that run against the lab, from outside.
//!
//! Invariant: what is tested is reached only as its users reach it.

pub mod cluster;
pub mod drill;
pub mod refusals;
pub mod scenario;
