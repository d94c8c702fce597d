//! What a plan depends on besides what is seen: ranges, sizes and bounds of the overlay.
//!
//! Invariant: the same on all nodes of a tenant cluster, this node's own network aside.

use std::fmt;

use ipnet::IpNet;

use crate::key::PublicKey;

/// What WireGuard adds to a packet over IPv4, in bytes: IP 20, UDP 8, message 32.
const OVER_V4: u16 = 60;
/// The same over IPv6.
const OVER_V6: u16 = 80;
/// What VXLAN adds to a packet inside, in bytes: IP 20, UDP 8, VXLAN 8, Ethernet 14.
const VXLAN: u16 = 50;
/// The smallest MTU of the overlay, in bytes: IPv6 asks for it (RFC 8200 section 5). Over a smaller network
/// packets of the tunnel are fragmented.
pub const FLOOR: u16 = 1280;
/// Peers of one node at most: each has a session with every other.
pub const MAX_PEERS: usize = 500;
/// Seconds between packets that keep an address translation open.
pub const KEEPALIVE: u16 = 25;

/// Which addresses endpoints have.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Family {
    /// IPv4 alone.
    V4,
    /// IPv4 and IPv6, so packets are sized for IPv6.
    Any,
}

/// How packets of pods travel.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Pods {
    /// In the VXLAN of the tenant cluster's network plugin, from node to node through the overlay: no routes.
    Vxlan,
    /// Through the overlay itself: a route to the pods of each node.
    Direct,
}

/// This node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct This {
    /// Its name.
    pub name: String,
    /// Its public key.
    pub key: PublicKey,
    /// MTU of the network below, in bytes.
    pub mtu: u16,
}

/// The overlay.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Addresses of nodes in the overlay.
    pub range: IpNet,
    /// Addresses of all pods.
    pub pods: IpNet,
    /// Prefix length of one node's pods at least: nobody has more of them than the control plane gives.
    pub pods_prefix: u8,
    /// How packets of pods travel.
    pub pod_traffic: Pods,
    /// Which addresses endpoints have.
    pub endpoints: Family,
    /// Peers at most.
    pub max_peers: usize,
}

impl Settings {
    /// MTU of the overlay over a network of this MTU, in bytes, at least [`FLOOR`].
    #[must_use]
    pub fn mtu_over(&self, mtu: u16) -> u16 {
        let overhead = match self.endpoints {
            Family::V4 => OVER_V4,
            Family::Any => OVER_V6,
        };
        mtu.saturating_sub(overhead).max(FLOOR)
    }

    /// MTU of pods in an overlay of this MTU, in bytes.
    #[must_use]
    pub fn pods_mtu(&self, mtu: u16) -> u16 {
        match self.pod_traffic {
            Pods::Vxlan => mtu.saturating_sub(VXLAN),
            Pods::Direct => mtu,
        }
    }

    /// What is wrong with them, for people.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let Self {
            range,
            pods,
            pods_prefix,
            ..
        } = self;
        let overlap = |a: &dyn fmt::Display, b: &dyn fmt::Display| {
            format!("the overlay's range {a} and the pods' range {b} overlap: give disjoint ones")
        };
        if overlaps(range, pods) {
            return Some(overlap(range, pods));
        }
        (*pods_prefix < pods.prefix_len()).then(|| {
            format!("one node's pods (/{pods_prefix}) are more than all pods ({pods}): give a longer prefix")
        })
    }
}

/// Whether two ranges have an address in common.
#[must_use]
pub fn overlaps(a: &IpNet, b: &IpNet) -> bool {
    a.contains(b) || b.contains(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(endpoints: Family, pod_traffic: Pods) -> Settings {
        Settings {
            range: "10.200.0.0/16".parse().unwrap(),
            pods: "10.128.0.0/18".parse().unwrap(),
            pods_prefix: 24,
            pod_traffic,
            endpoints,
            max_peers: MAX_PEERS,
        }
    }

    /// reference: 1500 → 1420 → 1370; a cloud of 1460 → 1380 → 1330.
    #[test]
    fn sizes_leave_room_for_wireguard_and_vxlan() {
        let any = settings(Family::Any, Pods::Vxlan);
        for (below, overlay, pods) in [(1500, 1420, 1370), (1460, 1380, 1330), (9001, 8921, 8871)] {
            assert_eq!(any.mtu_over(below), overlay);
            assert_eq!(any.pods_mtu(overlay), pods);
        }
        let four = settings(Family::V4, Pods::Direct);
        assert_eq!(four.mtu_over(1500), 1440);
        assert_eq!(four.pods_mtu(1440), 1440);
        assert_eq!(four.mtu_over(0), FLOOR);
    }

    #[test]
    fn ranges_that_cannot_be_told_apart_are_refused() {
        let good = settings(Family::Any, Pods::Vxlan);
        assert_eq!(good.problem(), None);
        let inside = "10.128.3.0/24".parse().unwrap();
        let bad = Settings {
            range: inside,
            ..good
        };
        assert!(bad.problem().unwrap().contains("overlap"));
        let bad = Settings {
            pods_prefix: 17,
            ..good
        };
        assert!(bad.problem().unwrap().contains("longer prefix"));
    }
}
