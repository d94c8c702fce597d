//! `cargo xtask test --changed`: which tests a change reaches.
//!
//! A changed file reaches what `changed/table.rs` says, or its crate and every crate that is made of
//! it or tested with it; a suite of the lab is reached through what it declares. What nobody can
//! answer reaches everything. Invariant: the decision (`changed/selection.rs`) is a pure function of
//! facts; only `changed/git.rs` asks git and cargo.

mod facts;
mod git;
mod report;
mod selection;
pub(crate) mod suites;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod touched;

pub(crate) use facts::{Facts, LastRun, TestName};
pub(crate) use git::read;
pub(crate) use selection::{Selection, missed, select};
