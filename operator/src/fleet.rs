//! A fleet of tenant clusters that follows another operator in waves (docs/fleet.md): who may begin now.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`plan`] | who may begin, and what a FleetPolicy says of it |
//! | [`tenant`] | how far one tenant cluster is |
//!
//! Invariant: no I/O, no clock, no chance. Laws (`tests`): never more are under way than the policy allows; a failure keeps
//! others from beginning and touches nobody; a wave begins only when all before it are whole; what is not known is not
//! done; what the status says is computed again when it is erased; a policy that is broken or gone leaves all where they
//! are; one that was broken before, sleeps or is paused delays nobody.

pub mod plan;
pub mod tenant;
#[cfg(test)]
mod tests;
