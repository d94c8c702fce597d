//! Lives of machines in a fake of EC2, with everything that can go wrong.
//!
//! Invariant: what is asserted of machines is read from the fake's journal, and never from what the client believes.

// Helpers of tests, not only the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod behaviour;
mod credentials;
mod faults;
mod life;
mod policy;
mod sweeping;
