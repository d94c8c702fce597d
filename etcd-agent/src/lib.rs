//! Program beside each member of a tenant cluster's etcd: the start gate (docs/etcd.md), and backups
//! (docs/backup-format.md).
//!
//! Invariant: the gate speaks to no API and to no etcd; it reads one volume and one file, and of the
//! volume it changes its own marker, and which data directory is in use where a restore built another. A backup speaks to etcd and to its store, and to no API.

pub mod args;
pub mod backup;
pub mod built;
pub mod gate;
mod ids;
mod termination_log;
mod volume;
pub mod wal;

pub use ids::{Id, MemberIds};
