//! Control planes on the lab: what must hold for every commit. One file per behaviour.
//!
//! `cargo test --workspace --test control_plane -- --test-threads=2` with the lab up and the operator in it.
//! Invariant: every test makes what it needs and removes it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod addresses;
mod admission;
mod answers;
mod audit;
mod authority;
mod cis;
mod columns;
mod deletion;
mod encryption;
mod honest;
mod isolation;
mod losses;
mod network;
mod rights;
mod round_trip;
mod version;
