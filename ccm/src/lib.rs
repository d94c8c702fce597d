//! The cloud controller manager of one tenant cluster. It runs in the tenant namespace of the
//! management cluster and makes the tenant cluster believe in a cloud: nodes follow virtual
//! machines, and Services of type LoadBalancer are mirrored into the management cluster.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`node`] | one node: its initialisation, its taints, its end |
//! | [`service`] | one Service: its mirror, EndpointSlices, status, finalizer, and orphans |
//! | [`model`] | what is remembered of nodes, virtual machines and instances |
//! | [`world`] | everything that the watches told, and who has to be looked at when it changes |
//! | [`watch`] | the watches on both APIs |
//! | [`queue`] | who is next; one place for nodes and Services |
//! | [`names`], [`settings`], [`cloud_config`], [`args`] | names, and what can be configured |
//! | [`error`] | why a look at one of them failed |
//! | [`rights`] | the rights that all of this needs |
//! | [`run`] | the wiring |
//!
//! Invariant: only the leader writes, each write is fenced by the Lease, and nothing is concluded
//! from an API that did not answer.

pub mod args;
pub mod cloud_config;
pub mod error;
pub mod model;
pub mod names;
pub mod node;
pub mod queue;
pub mod rights;
pub mod run;
pub mod service;
pub mod settings;
pub mod watch;
pub mod world;

/// Field manager of everything that is applied in the management cluster.
pub const FIELD_MANAGER: &str = "covey-ccm";
