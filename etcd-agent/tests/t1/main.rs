//! T1: the program itself, on directories of the real etcd and on some that no etcd made.
//!
//! Each test has folders and servers of its own. Invariant: whatever is refused is the same afterwards,
//! name by name and byte by byte.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

mod backup;
mod bootstrap;
mod damage;
mod directories;
mod golden;
mod identifiers;
mod segments;
mod set_back;
mod support;
mod versions;
