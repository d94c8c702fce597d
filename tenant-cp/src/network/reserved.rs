//! Reserved ranges: the management cluster's own, which no tenant cluster may use and no worker
//! reaches: what the configuration names, and what was found of nodes and Services.
//!
//! Invariant: every address that was found or configured is in what is reserved; the same addresses
//! give the same ranges in the same order, and no more than [`MOST`] of each kind and family are
//! found. What is not known never counts as nothing.

use std::collections::BTreeMap;

use api::Reason;
use ipnet::IpNet;

use crate::problem::Problem;
use crate::settings::NetworkSettings;

/// Ranges of one kind and family at most: each stands in a NetworkPolicy of every tenant namespace.
/// More are made wider until they are as few, and then one node more or less is seldom news.
const MOST: usize = 32;
/// Bits by which the cluster's range for pods is wider than a node's at most: installers give nodes a
/// /24 of a /16, or a /64 of a /56 (kubeadm's `--pod-network-cidr`, kube-controller-manager's
/// `--node-cidr-mask-size`).
const NODE_BITS: u8 = 8;

/// What was found of the management cluster; none of what could not be listed yet.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Found {
    /// Of its nodes.
    pub nodes: Option<Nodes>,
    /// Its Services' ranges (ServiceCIDR, Kubernetes 1.33 and newer).
    pub services: Option<Vec<IpNet>>,
}

/// What was found of nodes, in any order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Nodes {
    /// Their own addresses (`status.addresses`).
    pub addresses: Vec<IpNet>,
    /// Their pods' ranges (`spec.podCIDRs`).
    pub pods: Vec<IpNet>,
}

/// The settings with the ranges that were found besides those configured, and with what is not known.
#[must_use]
pub fn in_force(configured: &NetworkSettings, found: &Found) -> NetworkSettings {
    NetworkSettings {
        reserved: ranges(&configured.reserved, found),
        reserved_unknown: unknown(&configured.reserved, found),
        ..configured.clone()
    }
}

fn ranges(configured: &[IpNet], found: &Found) -> Vec<IpNet> {
    let nodes = found.nodes.as_ref();
    let pods = nodes.map(|nodes| nodes.pods.as_slice());
    let addresses = nodes.map(|nodes| nodes.addresses.as_slice());
    let services = found.services.as_deref();
    let kinds = [
        cover(usable(pods)),
        usable(addresses).collect(),
        usable(services).collect(),
    ];
    let few: Vec<IpNet> = kinds.iter().flat_map(|nets| bounded(nets)).collect();
    let few = IpNet::aggregate(&few);
    let mut few: Vec<IpNet> = few.into_iter().flat_map(halves).collect();
    few.retain(|range| !configured.iter().any(|net| net.contains(range)));
    few.sort_unstable();
    configured.iter().copied().chain(few).collect()
}

/// Everything is no range of anybody's.
fn usable(nets: Option<&[IpNet]>) -> impl Iterator<Item = IpNet> {
    let nets = nets.unwrap_or_default().iter();
    nets.filter(|net| net.prefix_len() > 0).map(IpNet::trunc)
}

/// A NetworkPolicy cannot leave everything out of everything.
fn halves(net: IpNet) -> Vec<IpNet> {
    let halves = (net.prefix_len() == 0).then(|| net.subnets(1).ok());
    halves.flatten().map_or(vec![net], Iterator::collect)
}

/// For the ranges of nodes' pods the smallest that hold those of one cluster's range: it grows a few
/// times while nodes are added, and not with each.
fn cover(nets: impl Iterator<Item = IpNet>) -> Vec<IpNet> {
    let mut covers: BTreeMap<IpNet, IpNet> = BTreeMap::new();
    for net in nets {
        let cover = covers.entry(wider(net, NODE_BITS)).or_insert(net);
        while !cover.contains(&net) {
            *cover = wider(*cover, 1);
        }
    }
    covers.into_values().collect()
}

/// The range around `net` that is wider by so many bits.
fn wider(net: IpNet, bits: u8) -> IpNet {
    // One bit is left: everything is no range of anybody's. A shorter prefix is always one.
    let length = net.prefix_len().saturating_sub(bits).max(1);
    IpNet::new(net.addr(), length).map_or(net, |net| net.trunc())
}

/// No more than [`MOST`] of each family that hold all of `nets`.
fn bounded(nets: &[IpNet]) -> Vec<IpNet> {
    let of = |v4: bool| {
        let family = nets.iter().filter(|net| net.addr().is_ipv4() == v4);
        let family: Vec<IpNet> = family.copied().collect();
        let widened = |bits| -> Vec<IpNet> {
            let nets = family.iter();
            nets.map(|net| wider(*net, bits)).collect()
        };
        (0..=u8::MAX)
            .map(|bits| IpNet::aggregate(&widened(bits)))
            .find(|few| few.len() <= MOST)
            .unwrap_or_else(|| family.clone())
    };
    [of(true), of(false)].concat()
}

/// What is not known of the ranges, and how to mend it.
fn unknown(configured: &[IpNet], found: &Found) -> Option<Problem> {
    let problem =
        |message| Problem::new("network.reserved", Reason::ReservedRangesUnknown, message);
    let unlisted = match (&found.nodes, &found.services) {
        (None, _) => Some("nodes"),
        (_, None) => Some("ServiceCIDRs"),
        _ => None,
    };
    if let Some(kind) = unlisted {
        return Some(problem(format!(
            "the {kind} of the management cluster could not be listed yet, so it is not known what \
             workers must not reach; the operator goes on trying, and its log says what is in the way"
        )));
    }
    let empty = |nets: Option<&[IpNet]>| usable(nets).next().is_none();
    let nodes = found.nodes.as_ref();
    let missing: Vec<&str> = [
        (
            empty(nodes.map(|nodes| nodes.pods.as_slice())),
            "pods (no node has spec.podCIDRs)",
        ),
        (
            empty(nodes.map(|nodes| nodes.addresses.as_slice())),
            "nodes (no node has status.addresses)",
        ),
        (
            empty(found.services.as_deref()),
            "Services (there is no ServiceCIDR; Kubernetes has them from 1.33 on)",
        ),
    ]
    .into_iter()
    .filter_map(|(missing, what)| missing.then_some(what))
    .collect();
    if missing.is_empty() || !configured.is_empty() {
        return None;
    }
    Some(problem(format!(
        "the operator did not find the ranges of the management cluster's {}, which workers must not \
         reach: name them in network.reserved of its configuration (the chart's value \
         config.network.reserved)",
        missing.join(", ")
    )))
}

#[cfg(test)]
mod tests;
