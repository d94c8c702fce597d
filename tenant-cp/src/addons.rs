//! Addons: what Covey installs for the nodes and pods of a tenant cluster, a file or folder each.
//!
//! [`addon`] is what an addon can be asked, [`registry`] the list of them; [`manifest`] and [`adapter`] are
//! the pieces that they are made of. What is inside the tenant cluster is written as
//! manifests, because that is what their authors publish and what an administrator of the tenant cluster
//! will compare them with.
//! Invariant: an addon that runs on every node needs neither the pod network nor kube-proxy to reach
//! the API, so nodes get ready without waiting for back-offs; nothing here names the management
//! cluster but by the addresses that nodes reach it at.

mod adapter;
pub mod addon;
pub mod autoscaler;
pub mod cloud_controller;
pub mod coredns;
pub mod csi;
pub mod flannel;
pub mod konnectivity;
pub mod kube_proxy;
mod manifest;
pub mod overlay;
pub mod registry;

/// Name of the driver of volumes inside tenant clusters: what their PersistentVolumes name.
pub use csi::names::DRIVER as VOLUME_DRIVER;
