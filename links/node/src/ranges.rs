//! Which peer an address belongs to: the one with the longest range that has it.
//!
//! Invariant: a range has one peer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;

/// Ranges, each with the number of its peer.
#[derive(Debug, Default)]
pub struct Ranges {
    owners: HashMap<IpNet, u32>,
    /// How many ranges there are of each length, the longest first.
    lengths: BTreeMap<Reverse<u8>, usize>,
}

impl Ranges {
    /// Gives a range to a peer, whoever had it.
    pub fn insert(&mut self, range: IpNet, peer: u32) {
        if self.owners.insert(range.trunc(), peer).is_none() {
            *self.lengths.entry(Reverse(range.prefix_len())).or_default() += 1;
        }
    }

    /// Takes everything from a peer.
    pub fn remove(&mut self, peer: u32) {
        self.owners.retain(|_, owner| *owner != peer);
        self.lengths.clear();
        for range in self.owners.keys() {
            *self.lengths.entry(Reverse(range.prefix_len())).or_default() += 1;
        }
    }

    /// Whose an address is.
    #[must_use]
    pub fn find(&self, address: IpAddr) -> Option<u32> {
        let lengths = self.lengths.keys();
        lengths
            .filter_map(|Reverse(length)| IpNet::new(address, *length).ok())
            .find_map(|range| self.owners.get(&range.trunc()).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_range_has_the_address() {
        let mut ranges = Ranges::default();
        ranges.insert("10.128.1.0/24".parse().unwrap(), 1);
        ranges.insert("10.128.1.7/32".parse().unwrap(), 2);
        ranges.insert("fd00:1::/64".parse().unwrap(), 3);
        let find = |ranges: &Ranges, address: &str| ranges.find(address.parse().unwrap());
        assert_eq!(find(&ranges, "10.128.1.6"), Some(1));
        assert_eq!(find(&ranges, "10.128.1.7"), Some(2));
        assert_eq!(find(&ranges, "10.128.2.7"), None);
        assert_eq!(find(&ranges, "fd00:1::9"), Some(3));
        ranges.remove(2);
        assert_eq!(find(&ranges, "10.128.1.7"), Some(1));
        ranges.insert("10.128.1.0/24".parse().unwrap(), 3);
        ranges.remove(1);
        assert_eq!(find(&ranges, "10.128.1.7"), Some(3));
    }
}
