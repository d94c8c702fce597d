//! What backups of a tenant cluster's etcd are made of (docs/backup-format.md): the names of objects,
//! their headers, the keys that they are sealed with, what a delta records, the chain that deltas
//! make, and the tenant cluster's identity.
//!
//! Invariant: no I/O and no clock. Whatever is read here may come from an enemy: it is bounded, and what
//! is wrong with it is named. Only [`keys`] draws random numbers.

pub mod chain;
pub mod damage;
mod digest;
pub mod header;
pub mod identity;
pub mod keys;
pub mod names;
pub mod object;
pub mod records;

pub use damage::Damage;
pub use digest::{Digest, Hasher};
pub use header::{Header, Kind};
pub use identity::SealedIdentity;
pub use names::{FullName, IdentityName, Name, Scope};
