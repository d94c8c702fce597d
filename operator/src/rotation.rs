//! The rotation of something that signs: an authority, which verifiers believe and holders show certificates of.
//!
//! Invariant: pure: it decides from what is given ([`facts`]) and says one step at a time ([`plan`]); how far it is
//! follows from what is seen and is never remembered. At no moment does a holder that Covey looks after show what a
//! verifier that runs does not believe.

pub mod facts;
pub mod kubelets;
pub mod plan;
pub mod told;

#[cfg(test)]
mod tests;
