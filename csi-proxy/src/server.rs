//! gRPC services that the sidecars call.
//!
//! | Module | Service |
//! |---|---|
//! | [`controller`] | Controller: volumes, snapshots, and who has them |
//! | [`identity`] | Identity, which the half on nodes serves, too |
//!
//! Invariant: a call decides by [`crate::mapping`] and the plans of [`crate::controllers`]; what goes on
//! without a caller is theirs.

pub mod controller;
pub mod identity;
