//! Program beside each member of a tenant cluster's etcd. Today it has one job: the start gate
//! (docs/etcd.md).
//!
//! Invariant: it speaks to no API and to no etcd; it reads one volume and one file, and of the volume
//! it changes its own marker only.

pub mod args;
pub mod gate;
mod ids;
mod volume;
pub mod wal;

pub use ids::{Id, MemberIds};
