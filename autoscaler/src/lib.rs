//! Between the Cluster Autoscaler of one tenant cluster and its NodePools. It runs in the tenant
//! namespace of the management cluster, is asked over gRPC (externalgrpc, mutual TLS), and changes
//! `spec.replicas` of NodePools.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`service`] | the 15 calls; thin |
//! | [`node_group`] | pure: what a NodePool is as a node group, and what a wish makes of it |
//! | [`template`] | pure: the node that a pool would get, for growing from zero |
//! | [`model`], [`world`] | what is remembered of pools, machines and nodes |
//! | [`watch`], [`reach`] | the watches on both APIs, and whether they can be believed |
//! | [`store`] | the writes to NodePools |
//! | [`bounds`], [`rollout`], [`priorities`] | what is kept right without being asked |
//! | [`refusals`] | says on a NodePool what of it cannot be carried out |
//! | [`serve`] | the port: certificates, and whose may connect |
//! | [`rights`] | the rights that all of this needs |
//! | [`args`], [`settings`], [`run`] | what can be configured, and the wiring |
//!
//! Invariant: of a NodePool nothing is written but `spec.replicas` and the names of the machines that
//! go, both in one write that states the version it was decided on, and what was refused.

pub mod args;
pub mod bounds;
pub mod model;
pub mod node_group;
pub mod priorities;
pub mod reach;
pub mod refusals;
pub mod rights;
pub mod rollout;
pub mod run;
pub mod serve;
pub mod service;
pub mod settings;
pub mod store;
pub mod template;
pub mod watch;
pub mod world;

#[cfg(test)]
mod testing;

/// Field manager of everything that is written.
pub const FIELD_MANAGER: &str = "covey-autoscaler";
