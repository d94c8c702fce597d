//! What speaks against an upgrade of a tenant cluster before it begins, and what ends one that has.
//!
//! Invariant: all checks are made every time ([`checks`]) and everything is told at once; what could not be asked
//! ([`answers`](crate::tenant_session::preflight::answers)) is not known to be well. No I/O.

pub mod checks;
pub mod failure;
pub mod finding;
pub mod nodes;
pub mod snapshot;
pub mod surge;
pub mod versions;

use std::time::Duration;

/// A tenant cluster has to be Ready for so long before an upgrade begins (`operations.md` §2.2, C2).
pub const CALM: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests;
