//! The operator in this process, on an API in memory: it dies at every write, in seconds, and needs no
//! programs. docs/testing.md, "The API in memory", says how far that API can be believed.
//!
//! Invariant: each life has an API of its own, and asks it nothing that no recording of a real server
//! has; the model answers each recording as the real server did.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

mod creation;
mod operator;
mod real;
mod site;
#[path = "../t1/support/state.rs"]
#[allow(dead_code, reason = "shared with t1, which asks it more")]
mod state;

pub(crate) use site::Site;
