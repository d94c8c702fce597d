//! Addresses of one tenant cluster: those that the management cluster gave, and those that follow from
//! its ranges.
//!
//! Invariant: the same range and number give the same address, whoever asks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::tenant_cluster::EndpointStatus;
use ipnet::IpNet;

/// Addresses that the management cluster gave, known once the Services exist.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Addresses {
    /// ClusterIP of the Service `control-plane`; the tenant's `kubernetes` Service leads there.
    pub cluster_ip: IpAddr,
    /// ClusterIP of the Service `konnectivity`; none while there is none.
    pub konnectivity_ip: Option<IpAddr>,
    /// Host and port for clients; none while a load balancer has no address yet.
    pub endpoint: Option<EndpointStatus>,
}

/// The `n`th address of a range: 1 is the `kubernetes` Service, 10 the DNS Service.
pub(crate) fn network_address(range: &IpNet, n: u8) -> IpAddr {
    match range.network() {
        IpAddr::V4(first) => {
            Ipv4Addr::from_bits(first.to_bits().saturating_add(u32::from(n))).into()
        }
        IpAddr::V6(first) => {
            Ipv6Addr::from_bits(first.to_bits().saturating_add(u128::from(n))).into()
        }
    }
}

/// How a program listens on all addresses of its pod, in the family of the management cluster.
pub(crate) fn any_address(addresses: &Addresses) -> &'static str {
    if addresses.cluster_ip.is_ipv6() {
        "[::]"
    } else {
        "0.0.0.0"
    }
}

/// Host and port as in a URL.
pub(crate) fn host_and_port(host: &str, port: i32) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
