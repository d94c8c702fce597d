//! The suites of workers on the lab: virtual machines that join, work, are replaced and go. One
//! file per behaviour.
//!
//! `cargo test --workspace --test workers -- --test-threads=1` with the lab up and the operator in it;
//! `cargo xtask test` runs the file `worker`, with `--all` the rest too. One at a time, because each
//! has up to two virtual machines, whose processors are emulated.
//! Invariant: every test makes what it needs and removes it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod autoscaler;
mod deletion;
mod drain;
mod evacuation;
mod guest_agent;
mod hostile;
mod join;
mod load_balancer;
mod lost;
mod rolling;
mod sizes;
mod traffic;
mod volumes;
mod worker;
