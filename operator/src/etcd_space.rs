//! The space that etcd's database has: how much of it is left, and how a full one takes writes again.
//!
//! Invariant: it is decided from what members say of themselves ([`plan`]), one step at a time, without I/O; only
//! [`looks`] asks them, outside of reconciles.

pub mod level;
pub mod looks;
pub mod plan;

#[cfg(test)]
mod tests;
