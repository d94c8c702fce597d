//! The rest of the suites on the lab: what takes long or disturbs others. One file per behaviour.
//!
//! `cargo test --workspace --test operations -- --test-threads=2` with the lab up and the operator in it
//! (`cargo xtask test --all`). `COVEY_LONG=1` makes outages as long as they are in earnest.
//! Invariant: every test makes what it needs and removes it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod change;
mod controllers;
mod deletion_orders;
mod endpoints;
mod etcd_members;
mod etcd_volumes;
mod hostile;
mod mirrors;
mod operator_away;
mod paused;
mod quiescence;
mod renewal;
mod replicas;
mod restore;
mod sleep;
mod storage;
mod upgrade;
mod writer;
