//! The ranges of each node and ServiceCIDR that the watches told of.
//!
//! Invariant: the same objects make the same cache, in whatever order they came and however often; an
//! object holds [`MOST`] ranges of a kind at most, whatever it says.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use kube::ResourceExt;
use tenant_cp::network::metadata;
use tenant_cp::network::reserved::{Found, Nodes};

use super::kinds;

/// A node has one range of each family, and few addresses.
const MOST: usize = 16;

/// What is watched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Nodes.
    Node,
    /// ServiceCIDRs.
    ServiceCidr,
}

/// An object as a watch tells it.
#[derive(Clone, Debug)]
pub enum WatchedObject {
    /// A node.
    Node(kinds::Node),
    /// A ServiceCIDR.
    ServiceCidr(kinds::ServiceCidr),
}

/// Ranges of one object.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Ranges {
    /// A node's addresses, or a ServiceCIDR's ranges.
    own: Vec<IpNet>,
    /// A node's pods.
    pods: Vec<IpNet>,
}

/// All objects of one kind by name.
#[derive(Clone, Debug, Default)]
struct Objects {
    /// None before all have been listed once.
    known: Option<BTreeMap<String, Ranges>>,
    /// What a list that is not over told so far.
    listing: Option<BTreeMap<String, Ranges>>,
}

/// What there is.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    nodes: Objects,
    services: Objects,
}

impl Cache {
    /// Whether everything has been listed once.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.nodes.known.is_some() && self.services.known.is_some()
    }

    /// What was found.
    #[must_use]
    pub fn found(&self) -> Found {
        fn all(
            objects: &BTreeMap<String, Ranges>,
            of: impl Fn(&Ranges) -> &Vec<IpNet>,
        ) -> Vec<IpNet> {
            objects.values().flat_map(of).copied().collect()
        }
        let nodes = self.nodes.known.as_ref();
        Found {
            nodes: nodes.map(|nodes| Nodes {
                addresses: all(nodes, |ranges| &ranges.own),
                pods: all(nodes, |ranges| &ranges.pods),
            }),
            services: self
                .services
                .known
                .as_ref()
                .map(|services| all(services, |ranges| &ranges.own)),
        }
    }

    /// A list begins.
    pub fn begin(&mut self, kind: Kind) {
        self.of(kind).listing = Some(BTreeMap::new());
    }

    /// A list is over: what it did not name is gone. True when that matters.
    pub fn end(&mut self, kind: Kind) -> bool {
        let objects = self.of(kind);
        let listed = objects.listing.take();
        let changed = listed.is_some() && listed != objects.known;
        if changed {
            objects.known = listed;
        }
        changed
    }

    /// An object is there or changed. True when that matters.
    pub fn apply(&mut self, seen: &WatchedObject) -> bool {
        let (kind, name, ranges) = read(seen);
        let objects = self.of(kind);
        match (&mut objects.listing, &mut objects.known) {
            (Some(listing), _) => {
                listing.insert(name, ranges);
                false
            }
            (None, Some(known)) => known.insert(name, ranges.clone()) != Some(ranges),
            (None, None) => false,
        }
    }

    /// An object is gone. True when that matters.
    pub fn delete(&mut self, seen: &WatchedObject) -> bool {
        let (kind, name, _) = read(seen);
        let known = self.of(kind).known.as_mut();
        known.is_some_and(|known| known.remove(&name).is_some())
    }

    fn of(&mut self, kind: Kind) -> &mut Objects {
        match kind {
            Kind::Node => &mut self.nodes,
            Kind::ServiceCidr => &mut self.services,
        }
    }
}

fn read(seen: &WatchedObject) -> (Kind, String, Ranges) {
    match seen {
        WatchedObject::Node(node) => {
            let addresses = node.status.addresses.iter();
            let own = addresses.filter_map(|address| address.address.parse::<IpAddr>().ok());
            let own = own.filter(|address| !metadata::is_no_hosts(*address));
            let ranges = Ranges {
                own: own.map(IpNet::from).take(MOST).collect(),
                pods: nets(&node.spec.pod_cidrs),
            };
            (Kind::Node, node.name_any(), ranges)
        }
        WatchedObject::ServiceCidr(service) => {
            let ranges = Ranges {
                own: nets(&service.spec.cidrs),
                pods: Vec::new(),
            };
            (Kind::ServiceCidr, service.name_any(), ranges)
        }
    }
}

fn nets(texts: &[String]) -> Vec<IpNet> {
    let nets = texts.iter().filter_map(|text| text.parse::<IpNet>().ok());
    nets.map(|net| net.trunc()).take(MOST).collect()
}
