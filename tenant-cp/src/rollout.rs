//! Rollouts as values: from what is seen of a tenant cluster to the change that is allowed next.
//!
//! [`template`] says what a workload runs from, [`order`] what comes before what, [`revision`] whether the
//! operator has other templates than before.
//! Invariant: nothing here remembers how far a rollout is; whoever asks twice with the same facts is told
//! the same.

pub mod order;
pub mod revision;
pub mod template;
