//! Shares of a tenant cluster's pod addresses that its kube-controller-manager gives to nodes.
//!
//! Invariant: one node has one share, as the allocator's (`pkg/controller/nodeipam/ipam/cidrset`); a
//! node that gets none never becomes ready.

use ipnet::IpNet;

/// The flag by which a user says how long a share's prefix is.
pub(crate) const MASK_FLAG: &str = "node-cidr-mask-size";

/// Prefix length of one node's share of the pod addresses: 254 addresses (a kubelet runs at most
/// 110 pods) as long as that leaves room for 64 nodes, 62 for smaller ranges. IPv6: a /64, at most
/// 65536 of them (a limit of the allocator).
pub(crate) fn node_mask(pods: &IpNet) -> u8 {
    let prefix = pods.prefix_len();
    match pods {
        IpNet::V4(_) => prefix.saturating_add(6).clamp(24, 26).max(prefix),
        IpNet::V6(_) => prefix.saturating_add(16).min(64).max(prefix),
    }
}

/// How many nodes get a share of this prefix length.
pub(crate) fn node_count(pods: &IpNet, mask: u8) -> u64 {
    let bits = mask.saturating_sub(pods.prefix_len());
    1_u64.checked_shl(bits.into()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_gets_room_for_its_pods() {
        let mask = |text: &str| node_mask(&text.parse().unwrap());
        assert_eq!(mask("10.0.0.0/8"), 24);
        assert_eq!(mask("10.128.0.0/18"), 24);
        assert_eq!(mask("10.128.0.0/19"), 25);
        assert_eq!(mask("10.128.0.0/22"), 26);
        assert_eq!(mask("10.128.0.0/28"), 28);
        assert_eq!(mask("fd00::/48"), 64);
        assert_eq!(mask("fd00::/40"), 56);
        assert_eq!(mask("fd00::/112"), 112);
    }

    #[test]
    fn as_many_nodes_as_shares() {
        let count = |text: &str, mask| node_count(&text.parse().unwrap(), mask);
        assert_eq!(count("10.128.0.0/18", 24), 64);
        assert_eq!(count("10.128.0.0/18", 26), 256);
        assert_eq!(count("10.0.0.0/8", 24), 65_536);
        assert_eq!(count("10.128.0.0/24", 24), 1);
        assert_eq!(count("10.128.0.0/24", 16), 1);
        assert_eq!(count("fd00::/8", 128), u64::MAX);
    }
}
