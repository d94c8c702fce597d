//! From what is seen of nodes: who is a peer, with which ranges, where, and which routes lead there.
//!
//! Invariants: nobody gets more than its own address and its own pods; of two that claim the same the one has
//! it whose key the operator has accepted, else the one whose Node is older; what is not known takes nothing
//! away; the order of what is seen does not matter.

pub mod change;
pub mod refusal;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use self::refusal::Refusal;
use crate::entries::{Member, Node, Observed};
use crate::key::PublicKey;
use crate::settings::{FLOOR, KEEPALIVE, Pods, Settings, This, overlaps};

/// Another node that this one has a tunnel to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Peer {
    /// Name of its Node.
    pub name: String,
    /// What it may send from, and what is sent to it: its address, its pods.
    pub ranges: BTreeSet<IpNet>,
    /// Where it is reached; none: it begins, and is answered where it was heard.
    pub endpoint: Option<SocketAddr>,
    /// Seconds between packets to it that keep an address translation open.
    pub keepalive: Option<u16>,
}

/// What the overlay of this node should be.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    /// This node's address; none where it is no member.
    pub address: Option<IpAddr>,
    /// Ranges of this node's own pods.
    pub pods: BTreeSet<IpNet>,
    /// MTU of the device, in bytes.
    pub mtu: u16,
    /// Peers by key.
    pub peers: BTreeMap<PublicKey, Peer>,
    /// What leads through the device, each with the MTU of the way, in bytes.
    pub routes: BTreeMap<IpNet, u16>,
    /// What was refused of whom; the node itself, or only that part, is left out.
    pub refused: BTreeMap<String, BTreeSet<Refusal>>,
    /// Peers that no packet finds: neither end has an endpoint that the other reaches.
    pub unreachable: BTreeSet<String>,
    /// Members that have not said their key yet.
    pub waiting: BTreeSet<String>,
}

/// The plan; none while not everything is known, and then everything stays as it is.
#[must_use]
pub fn plan(this: &This, settings: &Settings, seen: &Observed) -> Option<Plan> {
    let (members, nodes) = (seen.members.as_ref()?, seen.nodes.as_ref()?);
    let mut plan = Plan {
        mtu: settings.mtu_over(this.mtu),
        ..Plan::default()
    };
    for name in &members.unreadable {
        plan.refuse(name, Refusal::MemberUnreadable);
    }
    // Whoever is no member has no tunnels, and nobody has one to it.
    let Some(own) = members.by_name.get(&this.name) else {
        return Some(plan);
    };
    let nothing = Node::default();
    let me = nodes.get(&this.name).unwrap_or(&nothing);
    let mut taken = Taken::default();
    // First, because of what is its own a node needs nobody's word.
    let me = Node {
        key: Some(this.key),
        ..me.clone()
    };
    let Some(claims) = taken.claim(&this.name, own, &me, settings, &mut plan) else {
        return Some(plan);
    };
    plan.address = Some(own.address);
    plan.pods = claims.pods;
    // The whole range leads into the device, where what is nobody's ends: by the default route it would leave
    // the machine as it is.
    plan.routes.insert(settings.range, plan.mtu);
    if settings.pod_traffic == Pods::Direct {
        plan.routes.insert(settings.pods, plan.mtu);
    }
    let others = nodes.iter().filter(|(name, _)| **name != this.name);
    let mut others: Vec<_> = others.collect();
    // Whoever has another's key only because it copied it comes after the one that it is accepted for.
    let unaccepted = |name: &String| {
        let member = members.by_name.get(name);
        member.is_none_or(|member| member.public_key.is_none())
    };
    others.sort_unstable_by_key(|(name, node)| (unaccepted(name), node.created, *name));
    for (name, node) in others {
        let Some(member) = members.by_name.get(name) else {
            if node.key.is_some() {
                plan.refuse(name, Refusal::NoMember);
            }
            continue;
        };
        for field in &node.unreadable {
            plan.refuse(name, Refusal::Unreadable(field.clone()));
        }
        if node.key.is_none() {
            plan.waiting.insert(name.clone());
            continue;
        }
        if let Some(claims) = taken.claim(name, member, node, settings, &mut plan) {
            if plan.peers.len() < settings.max_peers {
                plan.add(this, settings, own, (name, member, node), claims);
            } else {
                plan.refuse(name, Refusal::TooMany(settings.max_peers));
            }
        }
    }
    let mut missing: Vec<_> = members.by_name.keys().collect();
    missing.retain(|name| !nodes.contains_key(*name) && **name != this.name);
    plan.waiting.extend(missing.into_iter().cloned());
    Some(plan)
}

impl Plan {
    fn refuse(&mut self, name: &str, refusal: Refusal) {
        let refused = self.refused.entry(name.to_owned()).or_default();
        refused.insert(refusal);
    }

    fn add(
        &mut self,
        this: &This,
        settings: &Settings,
        own: &Member,
        (name, member, node): (&String, &Member, &Node),
        claims: Claims,
    ) {
        let near = !own.site.is_empty() && own.site == member.site;
        let mut dialable = |address: Option<SocketAddr>| {
            let address = address?;
            let good = is_dialable(address, settings);
            if !good {
                self.refuse(name, Refusal::Endpoint(address));
            }
            good.then_some(address)
        };
        let public = dialable(member.endpoint);
        // What a node says of itself counts only where it is near: elsewhere another machine may have that
        // address.
        let local = near
            .then(|| dialable(member.local_endpoint.or(node.endpoint)))
            .flatten();
        let endpoint = local.or(public);
        let reaches_this = own.endpoint.is_some() || near;
        if endpoint.is_none() && !reaches_this {
            self.unreachable.insert(name.clone());
        }
        // Below a smaller network at either end packets would be lost.
        let below = node.mtu.map_or(this.mtu, |mtu| mtu.min(this.mtu));
        let mtu = settings.mtu_over(below).max(FLOOR);
        self.routes.insert(claims.address, mtu);
        if settings.pod_traffic == Pods::Direct {
            let pods = claims.pods.iter().map(|range| (*range, mtu));
            self.routes.extend(pods);
        }
        let mut ranges = claims.pods;
        ranges.insert(claims.address);
        let peer = Peer {
            name: name.clone(),
            ranges,
            endpoint,
            // Nobody reaches this node at an address of its own, so what it opened has to stay open.
            keepalive: (!reaches_this && endpoint.is_some()).then_some(KEEPALIVE),
        };
        self.peers.insert(claims.key, peer);
    }
}

/// What one node has.
struct Claims {
    key: PublicKey,
    address: IpNet,
    pods: BTreeSet<IpNet>,
}

/// What nodes have, each by whom.
#[derive(Default)]
struct Taken {
    keys: BTreeMap<PublicKey, String>,
    addresses: BTreeMap<IpAddr, String>,
    pods: Vec<(IpNet, String)>,
}

impl Taken {
    /// What this node gets; nothing where its key or address is another's, or is none of the overlay's. Pods
    /// that it may not have it goes without.
    fn claim(
        &mut self,
        name: &str,
        member: &Member,
        node: &Node,
        settings: &Settings,
        plan: &mut Plan,
    ) -> Option<Claims> {
        let key = node.key?;
        let address = member.address;
        let accepted = member.public_key.is_none_or(|accepted| accepted == key);
        let wrong = if !accepted {
            Some(Refusal::KeyNotAccepted)
        } else if !settings.range.contains(&address) || is_edge(address, settings.range) {
            Some(Refusal::AddressOutside(address, settings.range))
        } else if let Some(other) = self.addresses.get(&address) {
            Some(Refusal::AddressTaken(address, other.clone()))
        } else {
            let other = self.keys.get(&key);
            other.map(|other| Refusal::KeyTaken(other.clone()))
        };
        if let Some(wrong) = wrong {
            plan.refuse(name, wrong);
            return None;
        }
        let mut pods = BTreeSet::new();
        for range in &node.pods {
            let own_family = matches!(
                (range, settings.pods),
                (IpNet::V4(_), IpNet::V4(_)) | (IpNet::V6(_), IpNet::V6(_))
            );
            // A second family of pods has no way through the overlay yet.
            if !own_family {
                continue;
            }
            let inside = settings.pods.contains(range);
            let taken = self.pods.iter().find(|(other, _)| overlaps(other, range));
            match taken {
                // One of a family: Kubernetes gives no more.
                _ if !inside || range.prefix_len() < settings.pods_prefix || !pods.is_empty() => {
                    plan.refuse(name, Refusal::PodsOutside(*range, settings.pods));
                }
                Some((_, other)) => {
                    plan.refuse(name, Refusal::PodsTaken(*range, other.clone()));
                }
                None => {
                    pods.insert(*range);
                }
            }
        }
        self.keys.insert(key, name.to_owned());
        self.addresses.insert(address, name.to_owned());
        let own = pods.iter().map(|range| (*range, name.to_owned()));
        self.pods.extend(own);
        Some(Claims {
            key,
            address: IpNet::from(address),
            pods,
        })
    }
}

/// The range's own address and, with IPv4, its broadcast address: no node has them.
fn is_edge(address: IpAddr, range: IpNet) -> bool {
    address == range.network() || (address.is_ipv4() && address == range.broadcast())
}

/// Whether something can listen there that is outside of the overlay: what is sent there is sent by this
/// machine, so no node may point it at the machine itself or at whoever listens nearby.
fn is_dialable(address: SocketAddr, settings: &Settings) -> bool {
    let ip = address.ip();
    let odd = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast() || ip.octets()[0] == 0,
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let inside = settings.range.contains(&ip) || settings.pods.contains(&ip);
    address.port() != 0
        && !odd
        && !inside
        && !ip.is_unspecified()
        && !ip.is_loopback()
        && !ip.is_multicast()
}

#[cfg(test)]
mod tests;
