//! Virtual machines of Azure, by the contract of `docs/providers.md`: the client, and what is decided on its answers.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`settings`] | what a resource group and a Machine ask for |
//! | [`schema`] | what comes back |
//! | [`body`] | what is put; pure |
//! | [`plan`] | the next call of a creation; pure |
//! | [`describe`] | what a virtual machine says of a machine; pure |
//! | [`offerings`] | what there is to be had, and how much of it; pure |
//! | [`leaks`] | what nobody has any more; pure |
//! | [`refusal`] | what the API says when it does not do something; pure |
//! | [`credentials`] | the secret of a principal, or where another's token is |
//! | [`memory`] | what is remembered of Machines; pure |
//! | [`access`] | tokens, which are had for that |
//! | [`calls`] | the calls, and their pages |
//! | [`capabilities`] | what Azure can do |
//! | [`cloud`] | carries out what the plans say |
//! | [`sweep`] | finds and deletes what nobody has |
//! | [`provider`] | what makes it a cloud of the contract |
//!
//! Invariant: each virtual machine, interface and address bears the UID of its Machine from the call on that makes it, and
//! its name follows from that UID, so whatever a crash or a lost answer cuts off is found, and nothing is made a second
//! time. A name proves nothing.

#![allow(
    clippy::result_large_err,
    reason = "what a cloud says is moved once for each request over the network, which takes a million times longer"
)]

pub mod access;
pub mod body;
pub mod calls;
pub mod capabilities;
pub mod cloud;
pub mod credentials;
pub mod describe;
pub mod leaks;
pub mod memory;
pub mod offerings;
pub mod plan;
pub mod provider;
pub mod refusal;
pub mod schema;
pub mod settings;
pub mod sweep;
