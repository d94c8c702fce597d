//! How fast the disks of members of etcd are: seen from their metrics, told, and, of three, the lead given to a member
//! whose disk is fast.
//!
//! Invariant: pure: it decides from what it is given; what was not read, or not for long enough, is unknown, and
//! neither slow nor fast.

pub mod plan;
pub mod speed;
