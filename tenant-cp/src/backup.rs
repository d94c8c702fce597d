//! Backups: what a pod is given of a [`BackupTarget`](api::BackupTarget), the Job that checks one, and the process that
//! backs a tenant cluster up.
//!
//! Invariant: no secret is in an argument or a variable; what is not secret is.

pub mod check_job;
mod place;
pub mod process;
