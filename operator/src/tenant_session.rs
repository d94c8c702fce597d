//! Sessions with tenants' APIs and their etcd: the only way from the operator to them.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`budget`] | what one reconcile may take of a tenant: time, requests, bytes, items |
//! | [`session`] | who we are there and where that is; clients with deadlines |
//! | [`probe`] | whether an API serves, writes, and which version it is |
//! | [`etcd`] | what the members of etcd say of themselves |
//! | [`largest`] | which resources fill it |
//! | [`preflight`] | what speaks against an upgrade |
//! | [`usage`] | whether anybody uses one |
//! | [`api_probes`] | wait, outside of reconciles, for the answer of one that starts or fell silent |
//! | [`requests`] | the objects that Covey keeps inside: list, read, apply |
//! | [`bulkhead`] | how many places of a controller tenants hold together that are slow or silent |
//! | [`breaker`] | how often a tenant that does not answer is asked again |
//! | [`registry`] | clients of tenants that answer, and the watches there |
//!
//! Invariant: a tenant that is silent, slow or hostile costs the operator bounded time; what it answers
//! is untrusted.

pub mod aggregated;
pub mod api_probes;
pub mod breaker;
pub mod budget;
pub mod bulkhead;
pub mod etcd;
pub mod held_tokens;
pub mod largest;
pub mod nodes;
pub mod preflight;
pub mod probe;
pub mod registry;
pub mod requests;
pub mod rewriting;
pub mod roots;
pub mod session;
pub mod usage;
mod watches;
