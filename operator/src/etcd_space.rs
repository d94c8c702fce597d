//! The space that etcd's database has: how much of it is left, and how a full one takes writes again.
//!
//! Invariant: pure: it decides from what members say of themselves ([`plan`]), and says one step at a time.

pub mod level;
pub mod plan;

#[cfg(test)]
mod tests;
