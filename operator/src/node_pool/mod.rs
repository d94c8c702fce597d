//! Node pools: what follows from one observation. Nothing carries it out yet.
//!
//! Invariant: it does not matter why a plan was asked for, nor where the last one was cut off; the
//! tenant's API is never asked: how nodes do is read from the Machines.

pub mod observed;
pub mod plan;
#[cfg(test)]
mod tests;

/// More steps than any change needs; reaching it is a bug in a plan.
#[cfg(test)]
const MAX_STEPS: usize = 8;
