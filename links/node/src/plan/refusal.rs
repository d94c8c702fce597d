//! Why a node, or a part of what it says, is left out of the overlay.
//!
//! Invariant: each says what to do about it.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

/// A reason.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, thiserror::Error)]
pub enum Refusal {
    /// Its entry among the members cannot be read.
    #[error(
        "its entry in ConfigMap covey-overlay cannot be read: the operator has to write it anew"
    )]
    MemberUnreadable,
    /// It says a key, and no machine is known for it.
    #[error("it is not in ConfigMap covey-overlay: there is no Machine for it, delete the Node")]
    NoMember,
    /// A field of it.
    #[error("{0} cannot be read, and is left out: restart the overlay's pod on that node")]
    Unreadable(String),
    /// Its address is not one of the overlay's.
    #[error("its address {0} is none for a node in {1}: give it another one")]
    AddressOutside(IpAddr, IpNet),
    /// Its address is another's.
    #[error("its address {0} is that of node {1}: give it another one")]
    AddressTaken(IpAddr, String),
    /// It says another key than the one that is accepted for it.
    #[error(
        "it says another key than the one in ConfigMap covey-overlay: replace its machine if it lost its key"
    )]
    KeyNotAccepted,
    /// Its key is another's.
    #[error(
        "its key is that of node {0}: remove the key file on that machine, or the machine if it is a copy"
    )]
    KeyTaken(String),
    /// Pods that are not for one node.
    #[error(
        "its pods' range {0} is not one node's share of {1}: delete the Node, it is made again with another one"
    )]
    PodsOutside(IpNet, IpNet),
    /// Pods of another node.
    #[error(
        "its pods' range {0} overlaps with that of node {1}: delete the Node, it is made again with another one"
    )]
    PodsTaken(IpNet, String),
    /// Nobody sends there.
    #[error(
        "its endpoint {0} is loopback, link-local, multicast or inside the tenant cluster: give one of the network outside"
    )]
    Endpoint(SocketAddr),
    /// There are peers enough.
    #[error("there are {0} peers already: more nodes need a second tenant cluster")]
    TooMany(usize),
}

impl Refusal {
    /// One word for metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::MemberUnreadable => "member_unreadable",
            Self::NoMember => "no_member",
            Self::Unreadable(_) => "unreadable",
            Self::AddressOutside(..) => "address_outside",
            Self::AddressTaken(..) => "address_taken",
            Self::KeyNotAccepted => "key_not_accepted",
            Self::KeyTaken(_) => "key_taken",
            Self::PodsOutside(..) => "pods_outside",
            Self::PodsTaken(..) => "pods_taken",
            Self::Endpoint(_) => "endpoint",
            Self::TooMany(_) => "too_many",
        }
    }
}
