//! Between the Cluster Autoscaler of one tenant cluster and its NodePools. It runs in the tenant
//! namespace of the management cluster, is asked over gRPC (externalgrpc, mutual TLS), and changes
//! `spec.replicas` of NodePools.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`args`], [`settings`] | what can be configured |
//! | [`run`], [`manager`] | the process; and all of it but the process, which tests start |
//! | [`context`] | handles that calls and controllers share |
//! | [`server`] | the gRPC port: its calls, its certificates |
//! | [`controllers`] | what is kept right without being asked |
//! | [`client`] | the writes to NodePools |
//! | [`node_group`] | pure: what a NodePool is as a node group, and what a request makes of it |
//! | [`cache`] | what the watches told of pools, machines and nodes, and whether to believe it |
//! | [`metrics`] | what is shown of calls, refusals, and what is known |
//! | [`names`], [`error`], [`rbac`] | names, why a pool was not changed, the rights that this needs |
//!
//! Invariant: of a NodePool nothing is written but `spec.replicas` and the names of the machines that
//! go, both in one write that states the version it was decided on, and what was refused.

pub mod args;
pub mod cache;
pub mod client;
pub mod context;
pub mod controllers;
pub mod error;
pub mod manager;
pub mod metrics;
pub mod names;
pub mod node_group;
pub mod rbac;
pub mod run;
pub mod server;
pub mod settings;

#[cfg(test)]
mod testing;
