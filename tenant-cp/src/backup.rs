//! Backups: what a pod is given of a [`BackupTarget`](api::BackupTarget), the Job that checks one, the process that
//! backs a tenant cluster up, the identity that it keeps, and the Jobs that restore one in place or test that it can be.
//!
//! Invariant: no secret is in an argument or a variable; what is not secret is.

pub mod check_job;
pub mod identity;
mod place;
pub mod process;
pub mod restore_jobs;
pub mod restore_test;
pub mod source;
