//! Which addresses the operator may dial for a user.
//!
//! Invariant: what counts is the address that is dialled, after its name was resolved, so a name that moves to
//! a refused address is refused as well.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Networks that are nobody's machines.
#[derive(Clone, Debug, Default)]
pub struct AddressRules {
    refused: Vec<IpNet>,
}

impl AddressRules {
    /// What is never a user's machine: this process's own machine, link-local addresses (there clouds have their
    /// metadata), unspecified and multicast; and `others`, such as pods and Services of the management cluster.
    #[must_use]
    pub fn outside(others: impl IntoIterator<Item = IpNet>) -> Self {
        let v4 = |a, b, c, d, prefix| Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix).into();
        let v6 = |start, last, prefix| {
            Ipv6Net::new_assert(Ipv6Addr::new(start, 0, 0, 0, 0, 0, 0, last), prefix).into()
        };
        let mut refused: Vec<IpNet> = vec![
            v4(0, 0, 0, 0, 8),
            v4(127, 0, 0, 0, 8),
            v4(169, 254, 0, 0, 16),
            v4(224, 0, 0, 0, 3),
            // Azure's metadata beside the link-local one, and Alibaba's.
            v4(168, 63, 129, 16, 32),
            v4(100, 100, 100, 200, 32),
            v6(0, 0, 128),
            v6(0, 1, 128),
            v6(0xfe80, 0, 10),
            v6(0xff00, 0, 8),
            // AWS's metadata.
            Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128).into(),
        ];
        refused.extend(others);
        Self { refused }
    }

    /// Everything, for tests on one machine.
    #[must_use]
    pub fn everywhere() -> Self {
        Self::default()
    }

    /// Whether this address may be dialled. IPv4 in IPv6 counts as IPv4.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        !self.refused.iter().any(|net| net.contains(&address))
    }

    /// The first address that may be dialled.
    #[must_use]
    pub fn pick<T: Copy + Into<IpAddr>>(&self, addresses: &[T]) -> Option<T> {
        let mut found = addresses.iter().copied();
        found.find(|address| self.allows((*address).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(rules: &AddressRules, address: &str) -> bool {
        rules.allows(address.parse().unwrap())
    }

    #[test]
    fn addresses_of_the_operator_and_of_metadata_are_refused_in_every_form() {
        let rules = AddressRules::outside(["10.96.0.0/12".parse().unwrap()]);
        for refused in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "168.63.129.16",
            "::1",
            "::ffff:127.0.0.1",
            "fe80::1",
            "fd00:ec2::254",
            "ff02::1",
            "255.255.255.255",
            "10.100.0.1",
        ] {
            assert!(!allows(&rules, refused), "{refused}");
        }
        for good in ["10.0.0.1", "192.168.1.1", "203.0.113.9", "2001:db8::1"] {
            assert!(allows(&rules, good), "{good}");
        }
    }
}
