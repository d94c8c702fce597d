//! Backups of a real etcd, in a directory and on a real S3 endpoint, with everything going wrong on
//! the way.
//!
//! Invariant: every write that etcd acknowledged is looked for afterwards.

mod asked;
mod bucket;
mod compared;
mod faults;
mod holes;
mod identity;
mod in_place;
mod killed;
mod restored;
mod support;
mod survivors;
mod writers;
