//! The cloud controller manager of one tenant cluster. It runs in the tenant namespace of the
//! management cluster and makes the tenant cluster believe in a cloud: nodes follow virtual
//! machines, and Services of type LoadBalancer are mirrored into the management cluster.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`run`], [`manager`] | the process; what runs in it |
//! | [`controllers::node`] | one node: its initialisation, its taints, its end |
//! | [`controllers::service`] | one Service: its mirror, EndpointSlices, status, finalizer, and orphans |
//! | [`context`] | the handles that all reconciles share |
//! | [`cache`] | everything that the watches told, and who is reconciled when it changes |
//! | [`client`] | requests to both APIs |
//! | [`limits`] | which Services get a load balancer where not all may have one |
//! | [`args`], [`settings`], [`names`] | what can be configured, and names |
//! | [`error`] | why a reconcile failed |
//! | [`metrics`], [`pending`] | what is shown: how much there is, and how far it lags |
//! | [`rbac`] | the rights that all of this needs |
//!
//! Invariant: only the leader writes, each write is fenced by the Lease, and nothing is concluded
//! from an API that did not answer.

pub mod args;
pub mod cache;
pub mod client;
pub mod context;
pub mod controllers;
pub mod error;
pub mod limits;
pub mod manager;
pub mod metrics;
pub mod names;
pub mod pending;
pub mod rbac;
pub mod run;
pub mod settings;
