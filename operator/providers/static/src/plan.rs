//! What the answers of scripts mean. Pure: no connection, no clock.
//!
//! Invariant: what an answer does not say for certain is never taken for the better: a machine is usable, ours,
//! joined or clean only when it says so.

pub mod claim;
pub mod cleanliness;
pub mod facts;
pub mod preflight;
pub mod progress;
