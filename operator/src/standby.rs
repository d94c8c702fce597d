//! Control planes that run before anybody asks for them, and who takes one over (docs/adr/0023).
//!
//! A TenantCluster in a namespace of the operator's own, as any other, until one that a user made takes its identity over
//! ([`fit`], [`takeover`]); then it is only an object, and goes ([`pool`]).
//!
//! Invariant: an identity is taken over once, by one guarded write on its tenant namespace, and never given back. Where
//! nothing waits, or it cannot be known, a TenantCluster is made as if there were no standby.

pub mod fit;
pub mod pool;
pub mod run;
pub mod takeover;

#[cfg(test)]
mod tests;
