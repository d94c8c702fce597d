//! Instances of Amazon EC2, by the contract of `docs/providers.md`: the client, and what is decided on its answers.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`settings`] | what a subnet and a Machine ask for |
//! | [`parameters`] | what is sent; pure |
//! | [`schema`] | what comes back; pure |
//! | [`plan`] | what an instance means for its Machine; pure |
//! | [`describe`] | what an instance says of a machine; pure |
//! | [`offerings`] | what there is to be had; pure |
//! | [`leaks`] | what nobody has any more; pure |
//! | [`refusal`] | what the API says when it does not do something; pure |
//! | [`credentials`] | keys, and roles that are taken on |
//! | [`signature`] | what a request is signed with; pure |
//! | [`access`] | sessions, which are had for credentials |
//! | [`calls`] | the calls, and their pages |
//! | [`capabilities`] | what EC2 can do |
//! | [`cloud`] | carries out what the plans say |
//! | [`check`] | proves that machines can be made |
//! | [`sweep`] | finds and deletes what nobody has |
//! | [`provider`] | what makes it a cloud of the contract |
//!
//! Invariant: each instance is asked for under its Machine's UID as the client token, with the same bytes each time, and
//! bears that UID from that call on, as its disk and its interface do; so whatever a crash or a lost answer cuts off is
//! found, and nothing is made a second time.

#![allow(
    clippy::result_large_err,
    reason = "what a cloud says is moved once for each request over the network, which takes a million times longer"
)]

pub mod access;
pub mod calls;
pub mod capabilities;
pub mod check;
pub mod cloud;
pub mod credentials;
pub mod describe;
pub mod leaks;
pub mod offerings;
pub mod parameters;
pub mod plan;
pub mod provider;
pub mod refusal;
pub mod schema;
pub mod settings;
pub mod signature;
pub mod sweep;
