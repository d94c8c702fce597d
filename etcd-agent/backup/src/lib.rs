//! Backs a tenant cluster's etcd up into a store, follows it there, and restores it
//! (docs/backup-format.md).
//!
//! Invariant: where a backup stands is in the store alone. What was not read back is not durable, and
//! what is there already is never written over.

pub mod append;
pub mod check;
mod clock;
pub mod engine;
pub mod etcd;
pub mod plan;
pub mod questions;
pub mod reader;
pub mod restore;
pub mod scopes;
pub mod store;
mod writer;
