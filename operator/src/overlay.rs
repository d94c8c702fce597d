//! The overlay among a tenant cluster's nodes: who is in it, where, and with which address and key.
//!
//! Addresses are given to Machines ([`allotments`]) and stand in their status before anything is told of them;
//! who is a member follows from the Machines alone ([`members`]). A Host's node is known to its tenant cluster by that
//! address from its first moment on: its claim has it, and the machine is given it before the kubelet starts.
//! Invariant: what a node says of itself is no member's address, site or endpoint; its key counts once, the first
//! time.

pub mod allotments;
pub mod members;
