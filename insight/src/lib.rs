//! From objects that were read to findings and descriptions: what is wrong, why, and what mends it.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`facts`] | what was read, or why it was not |
//! | [`here`] | what was seen from where somebody asks |
//! | [`inside`] | what was read inside a tenant cluster |
//! | [`before`] | what was read before an installation |
//! | [`check`] | every check: its number, its name, and what it presupposes |
//! | [`finding`] | the result of a check |
//! | [`diagnosis`] | all checks over all facts, the cause first |
//! | [`description`] | one tenant cluster as a tree |
//! | [`meaning`] | what types of conditions mean |
//! | [`age`] | how long ago something was |
//! | [`text`] | texts of others, made fit to be shown: one line, bounded, no secrets |
//!
//! Invariant: no I/O, no clock, no client. What is not known is never told as absent, and whatever stands in a
//! finding went through [`text`].

pub mod age;
pub mod before;
pub mod check;
mod checks;
pub mod description;
pub mod diagnosis;
pub mod facts;
pub mod finding;
pub mod here;
pub mod inside;
pub mod meaning;
pub mod text;
