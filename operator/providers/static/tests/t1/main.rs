//! Sessions with a real sshd, and scripts in namespaces of their own.
//!
//! Invariant: everything is on loopback or in a namespace, with keys of its own, and ends with its test.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

mod adoption;
mod commands;
mod hosts;
mod keys;
#[allow(dead_code, reason = "shared with the operator's tests")]
mod machine;
mod programs;
mod services;
#[allow(dead_code, reason = "as above")]
mod sshd;
