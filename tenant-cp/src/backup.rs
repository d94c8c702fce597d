//! Backups: what a pod is given of a [`BackupTarget`](api::BackupTarget), and the Job that checks one.
//!
//! Invariant: no secret is in an argument or a variable; what is not secret is.

pub mod check_job;
mod place;
