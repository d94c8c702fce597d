//! Machines of the Hetzner Cloud, by the contract of `docs/providers.md`.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`settings`] | what a project, a pool and a Machine ask for |
//! | [`schema`] | what is sent and what comes back |
//! | [`plan`] | the next call of a creation and of a deletion; pure |
//! | [`describe`] | what a server says of a machine; pure |
//! | [`offerings`] | what there is to be had, and for how much; pure |
//! | [`leaks`] | what nobody has any more; pure |
//! | [`refusal`] | what the API says when it does not do something; pure |
//! | [`http_client`] | one request and its answer |
//! | [`calls`] | the calls, and their pages |
//! | [`capabilities`] | what Hetzner can do |
//! | [`cloud`] | carries out what the plans say |
//! | [`sweep`] | finds and deletes what nobody has |
//! | [`provider`] | what makes it a cloud of the contract |
//!
//! Invariant: each server and each address bears the UID of its Machine from the call on that makes it, so whatever a
//! crash or a lost answer cuts off is found by that, and nothing is made a second time. A name proves nothing.

#![allow(
    clippy::result_large_err,
    reason = "what a cloud says is moved once for each request over the network, which takes a million times longer"
)]

pub mod calls;
pub mod capabilities;
pub mod cloud;
pub mod describe;
pub mod http_client;
pub mod leaks;
pub mod offerings;
pub mod plan;
pub mod provider;
pub mod refusal;
pub mod schema;
pub mod settings;
pub mod sweep;
