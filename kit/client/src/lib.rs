//! The way to a Kubernetes API: a client whose every request is bounded, and what is written through it.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`args`] | clap struct to flatten: kubeconfig, rate |
//! | [`connect`] | builds the client from the layers below |
//! | [`retry`], [`rate`], [`count`], [`deadline`], [`fence`], [`meter`], [`body_limit`] | its layers |
//! | [`transport`] | credentials and connections |
//! | [`crypto`] | the one TLS library of the process |
//! | [`untyped`] | requests for objects of a [`kit_objects::kinds::Kind`] |
//! | [`write`] | server-side apply and guarded deletes |
//! | [`errors`] | [`errors::Class`], which alone decides requeue, reason, Event and label; `chain` |
//! | [`backoff`] | how long to wait after the n-th failure of one object |
//!
//! Invariant: no request without an end in time, and none that repeats a write whose fate is unknown.

pub mod args;
pub mod backoff;
pub mod body_limit;
pub mod connect;
pub mod count;
pub mod crypto;
pub mod deadline;
pub mod error;
pub mod errors;
pub mod fence;
pub mod meter;
pub mod rate;
pub mod retry;
pub mod transport;
pub mod untyped;
pub mod write;
