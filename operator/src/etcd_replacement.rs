//! The replacement of a member of etcd that lost its data, and members that are added or taken away because another
//! number is wanted: the same steps.
//!
//! Invariant: pure: it decides from what it is given ([`facts`]), and says one step at a time ([`plan`]).

pub mod comparison;
mod due;
pub mod facts;
pub mod number;
pub mod patience;
pub mod plan;
mod record;
pub mod step;
mod steps;
pub mod wait;

#[cfg(test)]
mod tests;
