//! Addresses of nodes in the overlay: the range, and which of them a Machine gets.
//!
//! Invariant: no two Machines of a tenant cluster get the same address, and one that has one keeps it for as long as it
//! is of the range; the first and the last address of the range are nobody's.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::tenant_cluster::{Addons, CniType};
use ipnet::IpNet;
use kit_objects::object::hash;
use serde_json::json;

/// Name of the addon.
pub const ADDON: &str = "overlay";
/// The network device of the overlay on each node.
pub(crate) const DEVICE: &str = "covey0";

/// Whether the overlay is asked for, and can be had.
#[must_use]
pub fn is_enabled(addons: &Addons) -> bool {
    addons.overlay.enabled && addons.cni.type_ == CniType::Flannel
}

/// Addresses of nodes in the overlay; none where there is none, and where its range cannot be read.
#[must_use]
pub fn range(addons: &Addons) -> Option<IpNet> {
    let range = addons.overlay.cidr.as_deref()?.parse::<IpNet>().ok()?;
    is_enabled(addons).then(|| range.trunc())
}

/// How many Machines get an address.
#[must_use]
pub fn capacity(range: &IpNet) -> u128 {
    let bits = u32::from(range.max_prefix_len().saturating_sub(range.prefix_len()));
    let all = 1_u128.checked_shl(bits).unwrap_or(u128::MAX);
    all.saturating_sub(2)
}

/// The address of a Machine: the one that it has, else one of those that nobody has; none where there is none left.
/// Which one follows from its UID, so that a Machine whose status was lost gets its own again in all
/// likelihood, and what one had that went is not the next one's at once.
#[must_use]
pub fn address(
    range: &IpNet,
    uid: &str,
    has: Option<IpAddr>,
    taken: &BTreeSet<IpAddr>,
) -> Option<IpAddr> {
    let may = |address: &IpAddr| number(range, *address).is_some() && !taken.contains(address);
    if let Some(has) = has.filter(may) {
        return Some(has);
    }
    let capacity = capacity(range);
    let first = u128::from_str_radix(&hash(&json!(uid)), 16).unwrap_or_default();
    let first = first.checked_rem(capacity)?;
    // Of one more than are taken one is free, if there are so many.
    let tries = u128::try_from(taken.len())
        .unwrap_or(u128::MAX)
        .saturating_add(1);
    let all = (0..tries.min(capacity)).map(|step| first.saturating_add(step) % capacity);
    let mut all = all.filter_map(|number| nth(range, number.saturating_add(1)));
    all.find(may)
}

/// The address at a place of the range.
fn nth(range: &IpNet, number: u128) -> Option<IpAddr> {
    match range.network() {
        IpAddr::V4(first) => {
            let bits = first.to_bits().checked_add(u32::try_from(number).ok()?)?;
            Some(Ipv4Addr::from_bits(bits).into())
        }
        IpAddr::V6(first) => {
            let bits = first.to_bits().checked_add(number)?;
            Some(Ipv6Addr::from_bits(bits).into())
        }
    }
}

/// The place of an address that a Machine may have; none of any other.
fn number(range: &IpNet, address: IpAddr) -> Option<u128> {
    if !range.contains(&address) {
        return None;
    }
    let number = match (range.network(), address) {
        (IpAddr::V4(first), IpAddr::V4(address)) => {
            u128::from(address.to_bits().checked_sub(first.to_bits())?)
        }
        (IpAddr::V6(first), IpAddr::V6(address)) => {
            address.to_bits().checked_sub(first.to_bits())?
        }
        _ => return None,
    };
    (1..=capacity(range)).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn small_range_is_given_out_whole_but_for_its_ends_and_then_no_more() {
        let range = net("198.18.0.16/28");
        let mut taken = BTreeSet::new();
        for number in 0..14 {
            let given = address(&range, &format!("machine-{number}"), None, &taken).unwrap();
            assert!(taken.insert(given), "{given} twice");
        }
        assert_eq!(address(&range, "one-more", None, &taken), None);
        assert_eq!(taken.first(), Some(&"198.18.0.17".parse().unwrap()));
        assert_eq!(taken.last(), Some(&"198.18.0.30".parse().unwrap()));
    }

    #[test]
    fn address_of_another_range_and_ends_of_the_range_are_given_up() {
        let range = net("198.18.0.0/16");
        for has in ["198.19.0.7", "198.18.0.0", "198.18.255.255", "fd00::1"] {
            let has = has.parse().unwrap();
            let given = address(&range, "a", Some(has), &BTreeSet::new()).unwrap();
            assert_ne!(given, has);
            assert!(range.contains(&given));
        }
    }

    proptest! {
        #[test]
        fn machine_keeps_its_address_and_gets_it_again_where_its_status_was_lost(
            uid in "[0-9a-f]{8}", others in proptest::collection::btree_set(0_u32..65536, 0..200),
        ) {
            let range = net("198.18.0.0/16");
            let of = |number: &u32| IpAddr::from(Ipv4Addr::from_bits(0xc612_0000 + number));
            let taken: BTreeSet<IpAddr> = others.iter().map(of).collect();
            let given = address(&range, &uid, None, &taken).unwrap();
            prop_assert!(!taken.contains(&given));
            prop_assert_eq!(address(&range, &uid, Some(given), &taken), Some(given));
            prop_assert_eq!(address(&range, &uid, None, &taken), Some(given));
            let mut with_it = taken;
            with_it.insert(given);
            let other = address(&range, &uid, Some(given), &with_it).unwrap();
            prop_assert!(!with_it.contains(&other));
        }

        #[test]
        fn no_two_machines_get_the_same_address(prefix in 20_u8..=28, count in 1_usize..300) {
            let range: IpNet = format!("198.18.16.0/{prefix}").parse().unwrap();
            let mut taken = BTreeSet::new();
            for number in 0..count {
                match address(&range.trunc(), &number.to_string(), None, &taken) {
                    Some(given) => prop_assert!(taken.insert(given)),
                    None => prop_assert_eq!(taken.len() as u128, capacity(&range)),
                }
            }
        }
    }
}
