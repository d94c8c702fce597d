//! Pools over several locations: how many machines where, what a refused create means, what an outage is,
//! how it ends and what it costs. No I/O, no clock, no chance.
//!
//! | Module | Decides |
//! |---|---|
//! | [`apportion`] | how seats are divided by weights (Webster), under caps |
//! | [`targets`] | the caps of each location, and how many machines it is to have |
//! | [`next`] | where the next machine is made and who goes |
//! | [`offerings`] | which type in which zone is tried next after a refusal |
//! | [`circuit`] | whether the API of a provider may be called |
//! | [`window`] | whether silence can be believed at all |
//! | [`endpoint`] | whether the published endpoint is why nodes are silent |
//! | [`sites`] | what sessions with machines that are reached by SSH say of their location |
//! | [`verdict`] | what silence and errors together mean |
//! | [`recovery`] | how a place goes from one state to the next; what of it is stored |
//! | [`budget`] | what may still be spent |
//!
//! Invariant: nothing here deletes a machine that the pool wants, and what is not known is never taken for
//! absent, silent or free of charge. All state that must outlive a restart is a value with wall-clock times
//! of the caller ([`recovery::Record`], [`offerings::Offerings`], [`circuit::Circuit`]).

pub mod apportion;
pub mod budget;
pub mod circuit;
pub mod endpoint;
pub mod next;
pub mod offerings;
pub mod place;
pub mod recovery;
pub mod sites;
pub mod targets;
mod time;
pub mod verdict;
pub mod window;
