//! The names and addresses of a slot. Pure.
//!
//! Invariant: no two slots share a network, and one slot's networks do not overlap each other.

use std::{fmt, net::Ipv4Addr};

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// So many labs fit on one machine.
pub const COUNT: u8 = 6;

/// Port of the local registry, at every address of the management host.
pub const REGISTRY_PORT: u16 = 5000;

/// One of the [`COUNT`] places for a lab on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(u8);

impl Slot {
    /// All of them, in the order in which they are taken.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..COUNT).map(Slot)
    }

    /// Its number, below [`COUNT`].
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// Network of the simulated hosts: 172.28.n.0/24.
    #[must_use]
    pub fn node_network(self) -> Ipv4Net {
        network([172, 28, self.0, 0], 24)
    }

    /// Network of all pods: 172.(16+n).0.0/16.
    #[must_use]
    pub fn pod_network(self) -> Ipv4Net {
        network([172, 16 + self.0, 0, 0], 16)
    }

    /// Network of the Services: 172.(22+n).0.0/20.
    #[must_use]
    pub fn service_network(self) -> Ipv4Net {
        network([172, 22 + self.0, 0, 0], 20)
    }

    /// Addresses of Services of type LoadBalancer: 172.(22+n).16.0/24.
    #[must_use]
    pub fn load_balancer_network(self) -> Ipv4Net {
        network([172, 22 + self.0, 16, 0], 24)
    }

    /// The pods of one host: the host's number is the third octet.
    #[must_use]
    pub fn host_pod_network(self, host: u8) -> Ipv4Net {
        network([172, 16 + self.0, host, 0], 24)
    }

    /// The machine's own address in the node network.
    #[must_use]
    pub fn machine_address(self) -> Ipv4Addr {
        Ipv4Addr::new(172, 28, self.0, 1)
    }

    /// Address of a simulated host; the management host is number 0.
    #[must_use]
    pub fn host_address(self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(172, 28, self.0, 10 + host)
    }

    /// ClusterIP of the Service `kubernetes`: the first address, as the apiserver takes it.
    #[must_use]
    pub fn api_service_address(self) -> Ipv4Addr {
        Ipv4Addr::new(172, 22 + self.0, 0, 1)
    }

    /// ClusterIP of cluster DNS: the tenth address by convention.
    #[must_use]
    pub fn dns_address(self) -> Ipv4Addr {
        Ipv4Addr::new(172, 22 + self.0, 0, 10)
    }

    /// Host and port of the local registry.
    #[must_use]
    pub fn registry(self) -> String {
        format!("{}:{REGISTRY_PORT}", self.host_address(0))
    }

    /// URL of the management cluster's API.
    #[must_use]
    pub fn api_url(self) -> String {
        format!("https://{}:6443", self.host_address(0))
    }

    /// The machine's bridge to which every simulated host is connected.
    #[must_use]
    pub fn bridge(self) -> String {
        format!("cvy{}", self.0)
    }

    /// The machine's end of a host's cable.
    #[must_use]
    pub fn cable(self, host: u8) -> String {
        format!("cvy{}-{host}", self.0)
    }

    /// Whether an interface of the machine belongs to this slot.
    #[must_use]
    pub fn owns_interface(self, name: &str) -> bool {
        name == self.bridge() || name.starts_with(&format!("{}-", self.bridge()))
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

fn network(octets: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::from(octets), prefix)
}
