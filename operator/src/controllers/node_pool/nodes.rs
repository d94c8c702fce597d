//! Nodes that run already on Hosts, and that the pool may take over as they run: of each location its own.
//!
//! Invariant: a node is the pool's only where its kubelet believes an authority that the tenant cluster still trusts,
//! and where a location asks for its Host; what nobody has looked at yet, or cannot be compared, is awaited, and is
//! neither there nor absent.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use api::{Host, NodePool};
use kube::ResourceExt;
use provider_static::life::{adoption, choose};
use provider_static::programs::Archives;

/// A node.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Node {
    /// Its name, and its Machine's.
    pub name: String,
    /// UID of its Host.
    pub host: String,
    /// Of an authority that both its kubelet and the tenant cluster believe.
    pub fingerprint: String,
    /// Version of its kubelet.
    pub version: String,
}

/// All of them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Nodes {
    /// By location, as the status calls it; in the order of their names. One that two locations ask for is in both.
    pub of: BTreeMap<String, Vec<Node>>,
    /// Locations of which it is not known yet whether there are more.
    pub awaited: BTreeSet<String>,
}

/// Those of these Hosts. `trusted`: fingerprints of the tenant cluster's authorities; none: not known.
#[must_use]
pub fn of<H: Borrow<Host>>(pool: &NodePool, hosts: &[H], trusted: Option<&[String]>) -> Nodes {
    let mut nodes = Nodes::default();
    for place in pool.spec.places() {
        let Some(wanted) = &place.provider.static_ else {
            continue;
        };
        let (selector, shown) = (&wanted.selector, place.shown());
        let hosts = hosts.iter().map(Borrow::borrow);
        let hosts = hosts.filter(|host| host.namespace() == pool.namespace());
        for host in hosts.filter(|host| choose::has_labels(selector, host)) {
            let found = adoption::adoptable(host);
            if adoption::is_awaited(host) || found.is_some() && trusted.is_none() {
                nodes.awaited.insert(shown.to_owned());
                continue;
            }
            let facts = host
                .status
                .as_ref()
                .and_then(|status| status.facts.as_ref());
            let version = facts.and_then(|facts| facts.kubelet.clone());
            let (Some(found), Some(trusted), Some(version)) = (found, trusted, version) else {
                continue;
            };
            if !choose::matches(selector, (&version, &Archives::default()), host) {
                continue;
            }
            let mut known = found.ca_fingerprints.iter();
            if let Some(fingerprint) = known.find(|known| trusted.contains(known)) {
                nodes.of.entry(shown.to_owned()).or_default().push(Node {
                    name: found.name.clone(),
                    host: host.uid().unwrap_or_default(),
                    fingerprint: fingerprint.clone(),
                    version,
                });
            }
        }
    }
    nodes.of.values_mut().for_each(|nodes| nodes.sort());
    nodes
}
