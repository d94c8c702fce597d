//! From a TenantCluster to the objects of its control plane.
//!
//! Read in this order: [`settings`] (what the operator is configured with), [`validate`] (raw
//! object to [`Validated`]), [`network`] (address ranges), [`certificates`] (what PKI is wanted),
//! [`desired`] (the objects, stage by stage). For workers: [`join`] (how a machine becomes a node)
//! and [`csr`] (whether its kubelet gets a serving certificate).
//!
//! Invariant: no I/O, no clock, no randomness, no environment. Same input, same output.

pub mod certificates;
pub mod csr;
pub mod desired;
pub mod join;
pub mod network;
pub mod object;
pub mod settings;
pub mod validate;
pub mod version;

pub use object::Object;
pub use settings::Settings;
pub use validate::Validated;

use std::net::IpAddr;

/// Addresses that the management cluster gave, known once the Services exist.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Addresses {
    /// ClusterIP of the Service `control-plane`; the tenant's `kubernetes` Service leads there.
    pub cluster_ip: IpAddr,
    /// ClusterIP of the Service `konnectivity`; none while there is none.
    pub konnectivity_ip: Option<IpAddr>,
    /// Host and port for clients; none while a load balancer has no address yet.
    pub endpoint: Option<api::tenant_cluster::EndpointStatus>,
}
