//! Controller of attachments: who has which volume.
//!
//! | Module | What it decides or does |
//! |---|---|
//! | [`holders`] | pure: who may have a volume, before anything happens and after |
//! | [`plan`] | pure: the next write to one virtual machine |
//! | [`hotplug`] | carries such a write out, in the way that this KubeVirt knows |
//! | [`step`] | pure: what has to be done now, given what is seen and remembered |
//! | [`reconcile`] | looks whenever something changed, and does what the step says |
//!
//! Invariant: the annotations of the claim are the truth; they are written before a machine can have
//! a volume, and taken back when the machine has been seen without it.

pub mod holders;
pub mod hotplug;
pub mod plan;
pub mod reconcile;
pub mod step;

#[cfg(test)]
mod tests;
