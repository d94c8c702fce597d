//! The overlay among a tenant cluster's nodes: who is in it, where, and with which address and key.
//!
//! Addresses are given to Machines ([`allotments`]) and stand in their status before anything is told of them;
//! who is a member follows from the Machines alone ([`members`]).
//! Invariant: what a node says of itself is no member's address, site or endpoint; its key counts once, the first
//! time.

pub mod allotments;
pub mod members;
