//! What the NetworkPolicies amount to on one node, and the verdict over a single flow.
//!
//! Invariant: `render` puts into nftables what is in a [`Ruleset`] and nothing else, so what the
//! evaluator here answers is what the node does with the first packet of a connection.

use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
};

use ipnet::IpNet;

/// A transport protocol that a NetworkPolicy can name (networking.k8s.io/v1 `NetworkPolicyPort`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// The default of a port without a protocol.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// All of them, in the order in which they are rendered.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// Reads the name the Kubernetes API uses; nothing said means TCP.
    pub fn parse(name: Option<&str>) -> Option<Self> {
        match name {
            None | Some("TCP") => Some(Self::Tcp),
            Some("UDP") => Some(Self::Udp),
            Some("SCTP") => Some(Self::Sctp),
            Some(_) => None,
        }
    }
}

impl fmt::Display for Protocol {
    /// The name nftables uses.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        })
    }
}

/// Everything the node must enforce: a pod address in no gate of a direction is open that way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// Gates for packets sent by pods of this node.
    pub egress: Vec<Gate>,
    /// Gates for packets sent to pods of this node.
    pub ingress: Vec<Gate>,
}

/// The pods isolated in one direction by the same policies, and what these let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Addresses of the isolated pods; no address is in two gates of one direction.
    pub addresses: BTreeSet<IpAddr>,
    /// `namespace/name` of the policies that isolate them, for people who read the ruleset.
    pub policies: Vec<String>,
    /// A flow passes when any of these matches it.
    pub rules: Vec<Rule>,
}

/// One ingress or egress rule: both halves must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The other end: sources for ingress, destinations for egress.
    pub peers: Peers,
    /// The destination's port.
    pub ports: Ports,
}

/// The other end of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Anybody.
    Any,
    /// Addresses in one of these networks, which do not overlap.
    Within(Vec<IpNet>),
}

/// The ports of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// Any port of any protocol, also protocols without ports.
    Any,
    /// One of these.
    Only(Vec<Port>),
}

/// One port of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    /// Every port of the protocol.
    Every(Protocol),
    /// The ports from the first to the last, both included.
    Range(Protocol, RangeInclusive<u16>),
    /// A named port, looked up in the pods that can be the destination.
    Named(BTreeSet<(IpAddr, Protocol, u16)>),
}

/// The first packet of a connection, after any Service address was replaced by a pod's.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// The sender.
    pub source: IpAddr,
    /// The receiver and its port.
    pub destination: SocketAddr,
    /// The protocol.
    pub protocol: Protocol,
}

impl Ruleset {
    /// Whether the node forwards the flow: both directions must allow it.
    pub fn allows(&self, flow: &Flow) -> bool {
        let destination = flow.destination.ip();
        // A pod cannot shut itself off from itself (NetworkPolicy documentation, "prerequisites").
        flow.source == destination
            || passes(&self.egress, flow.source, destination, flow)
                && passes(&self.ingress, destination, flow.source, flow)
    }
}

fn passes(gates: &[Gate], subject: IpAddr, peer: IpAddr, flow: &Flow) -> bool {
    gates
        .iter()
        .find(|gate| gate.addresses.contains(&subject))
        .is_none_or(|gate| {
            gate.rules
                .iter()
                .any(|rule| rule.peers.has(peer) && rule.ports.have(flow))
        })
}

impl Peers {
    /// Whether the address is one of these peers.
    pub fn has(&self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Within(networks) => networks.iter().any(|network| network.contains(&address)),
        }
    }
}

impl Ports {
    fn have(&self, flow: &Flow) -> bool {
        match self {
            Self::Any => true,
            Self::Only(ports) => ports.iter().any(|port| port.is_of(flow)),
        }
    }
}

impl Port {
    fn is_of(&self, flow: &Flow) -> bool {
        let number = flow.destination.port();
        match self {
            Self::Every(protocol) => *protocol == flow.protocol,
            Self::Range(protocol, range) => *protocol == flow.protocol && range.contains(&number),
            Self::Named(endpoints) => {
                endpoints.contains(&(flow.destination.ip(), flow.protocol, number))
            }
        }
    }
}
