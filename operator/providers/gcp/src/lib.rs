//! Machines of Google's Compute Engine, by the contract of `docs/providers.md`: the client, and what is decided on its
//! answers.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`settings`] | what a project and a Machine ask for |
//! | [`labels`] | labels as Google spells them |
//! | [`schema`] | what is sent and what comes back |
//! | [`plan`] | the next call of a creation; pure |
//! | [`describe`] | what an instance says of a machine; pure |
//! | [`offerings`] | what there is to be had; pure |
//! | [`leaks`] | what nobody has any more; pure |
//! | [`refusal`] | what the API says when it does not do something; pure |
//! | [`key`] | the key of a service account, and what it signs |
//! | [`access`] | tokens, which are had for what was signed |
//! | [`calls`] | the calls, and their pages |
//! | [`capabilities`] | what Google can do |
//! | [`cloud`] | carries out what the plans say |
//! | [`sweep`] | finds and deletes what nobody has |
//! | [`provider`] | what makes it a cloud of the contract |
//!
//! Invariant: each instance and its disk bear the UID of their Machine from the call on that makes them, and its name and
//! the `requestId` follow from that UID, so whatever a crash or a lost answer cuts off is found, and nothing is made a
//! second time. A name proves nothing.

#![allow(
    clippy::result_large_err,
    reason = "what a cloud says is moved once for each request over the network, which takes a million times longer"
)]

pub mod access;
pub mod calls;
pub mod capabilities;
pub mod cloud;
pub mod describe;
pub mod key;
pub mod labels;
pub mod leaks;
pub mod offerings;
pub mod plan;
pub mod provider;
pub mod refusal;
pub mod schema;
pub mod settings;
pub mod sweep;
