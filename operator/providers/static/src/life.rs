//! The life of a Host: what is seen of a machine and who has it, and what follows. Pure: no connection, no clock.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`observed`] | what a decision is made from: the Host, its Machine, other Hosts, the last look |
//! | [`plan`] | the status that follows, what is to be done on the machine next, and when |
//! | [`choose`] | which Host a Machine takes, and how its claim is written |
//! | [`identity`] | whether it is the machine that it was, and listed once |
//! | [`adoption`] | whether the node that runs on it may be taken over |
//! | `free` | what follows where nobody has it |
//! | [`failure`] | why a look failed, as a reason |
//!
//! Unverified and Available turn into each other by what is seen; a claim leads from Available by Claimed and
//! Joining to Joined (one from Adoptable, too, whose node is there already), each of which leads to Resetting, and that
//! to Available again; whatever is not proven leads to Quarantined, and that back by a proof.
//!
//! Invariant: a Host has a claim from before anything is done for a Machine until the machine said that nothing of
//! it is left; who did not answer, and who did not say, is not clean; what another machine says than the one
//! that was known changes nothing.

pub mod adoption;
pub mod choose;
pub mod failure;
mod free;
pub mod identity;
pub mod observed;
pub mod plan;
mod status;
#[cfg(test)]
mod tests;

pub use failure::Failure;
pub use observed::{Errand, Finding, MachineState, Observed, Outcome, Twin};
pub use plan::{Action, Plan, Told, plan};
