//! What has to be done to a device whose peers are known to make them the planned ones.
//!
//! Invariant: what goes, goes first, since one range never has two peers; where a peer was heard is not
//! changed unless its endpoint was.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::Peer;
use crate::key::PublicKey;

/// One step.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Forget a peer, its session and its ranges.
    Remove(PublicKey),
    /// Add a peer, or give one that is there these ranges and this keepalive.
    Set {
        /// Who.
        key: PublicKey,
        /// What it should be.
        peer: Peer,
        /// Where it is from now on; none: where it was heard.
        endpoint: Option<SocketAddr>,
    },
}

/// From the peers that were set last to those that are wanted.
#[must_use]
pub fn steps(old: &BTreeMap<PublicKey, Peer>, new: &BTreeMap<PublicKey, Peer>) -> Vec<Step> {
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let gone = gone.map(|key| Step::Remove(*key));
    // A range that moves from one peer to another must leave the first before it comes to the second.
    let loses = |key: &&PublicKey| match (old.get(*key), new.get(*key)) {
        (Some(old), Some(new)) => !old.ranges.is_subset(&new.ranges),
        _ => false,
    };
    let changed = new.keys().filter(|key| old.get(*key) != new.get(*key));
    let (first, then): (Vec<_>, Vec<_>) = changed.partition(loses);
    let set = first.into_iter().chain(then).filter_map(|key| {
        let (before, peer) = (old.get(key), new.get(key)?);
        let moved = before.is_none_or(|before| before.endpoint != peer.endpoint);
        Some(Step::Set {
            key: *key,
            peer: peer.clone(),
            endpoint: peer.endpoint.filter(|_| moved),
        })
    });
    gone.chain(set).collect()
}
