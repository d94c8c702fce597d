//! Program that runs on nodes of the tenant cluster: the half of the driver that the kubelet calls.
//!
//! | Module | What it decides or does |
//! |---|---|
//! | [`plan`] | pure: the next step of a call |
//! | [`superblock`] | pure: what is on a disk |
//! | [`mounts`] | pure: what is mounted, and options |
//! | [`host`] | does what a step says |
//! | [`server`] | the service: observes, plans and acts until a call is done |
//! | [`registration`] | tells the kubelet of the driver |
//! | [`zone`] | reads where the node is |
//!
//! Invariant: it knows neither the management cluster nor what the other half remembers.

pub mod host;
pub mod mounts;
pub mod plan;
pub mod registration;
pub mod server;
pub mod superblock;
pub mod zone;
