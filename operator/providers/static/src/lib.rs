//! Machines that are there already and are reached by SSH.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`session`] | connections: pinned host keys, jump hosts, bounds, commands and files |
//! | [`scripts`] | what runs on a machine, and what it is told |
//! | [`secrets`] | what must not be kept |
//! | [`answer`] | what it says back |
//! | [`plan`] | what that means: pure |
//! | [`errands`] | what is done in one session |
//! | [`life`] | what follows for the Host and who has it: pure |
//! | [`programs`] | programs of a node that are sent: which archive for which machine; pure |
//! | [`join`] | what a machine is told to become a node: pure |
//! | [`provider`] | the contract of `docs/providers.md` over the inventory of Hosts |
//!
//! Invariant: a machine is told nothing but fixed scripts, and what it answers is data within bounds.

pub mod answer;
pub mod errands;
pub mod join;
pub mod life;
pub mod plan;
pub mod programs;
pub mod provider;
pub mod scripts;
pub mod secrets;
pub mod session;
