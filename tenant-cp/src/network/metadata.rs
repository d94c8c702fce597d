//! Addresses at which clouds give machines what is secret, and those that are never a tenant cluster's.

use std::net::IpAddr;

use ipnet::IpNet;

/// Credentials of the management cluster's nodes are had there by whoever asks. Link-local, where
/// nearly all clouds have it, and with it the agents for identities of pods (169.254.170.2 and .23);
/// Alibaba's and Azure's addresses outside of it.
pub(crate) const METADATA_V4: [&str; 3] =
    ["100.100.100.200/32", "168.63.129.16/32", "169.254.0.0/16"];
/// The same by IPv6: both of AWS, and Google's.
pub(crate) const METADATA_V6: [&str; 3] =
    ["fd00:ec2::23/128", "fd00:ec2::254/128", "fd20:ce::254/128"];

/// Whether no host has this address as others see it: the loopback's, the unspecified one, one of many.
#[must_use]
pub fn is_no_hosts(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified() || address.is_multicast()
}

/// Whether nobody's API is at this address: no host's, or of a cloud's metadata, which the link-local ones
/// are. Who names it as his endpoint wants to know what is
/// there.
#[must_use]
pub fn is_nobodys(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let mut metadata = METADATA_V4.into_iter().chain(METADATA_V6);
    is_no_hosts(address)
        || is_link_local
        || metadata.any(|range| {
            let range = range.parse::<IpNet>();
            range.is_ok_and(|range| range.contains(&address))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_nobodys_are_told_from_others() {
        for address in [
            "127.0.0.1",
            "::1",
            "0.0.0.0",
            "::",
            "169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "ff02::1",
            "::ffff:169.254.169.254",
        ] {
            assert!(is_nobodys(address.parse().unwrap()), "{address}");
        }
        for address in ["10.96.0.1", "203.0.113.7", "2001:db8::1", "100.64.0.1"] {
            assert!(!is_nobodys(address.parse().unwrap()), "{address}");
        }
    }
}
