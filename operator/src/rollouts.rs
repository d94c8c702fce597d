//! Rollouts: who may change now.
//!
//! Invariant: decided from facts alone; nothing is written here.

pub mod queue;
