//! A host of the lab that is reached by SSH, as `.lab/state.json` remembers it. Pure.
//!
//! Such a host is a machine that nobody has made a node. Invariant: its place alone decides its address, so
//! two of one network never share one.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::{host::Host, slot::addresses::Slot};

/// Port of every host's SSH server.
pub const PORT: u16 = 22;
/// Who logs in.
pub const USER: &str = "root";
/// The gateway's address at its site. Every site has the same private range, 192.168.77.0/24.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 1);
/// Prefix of that range.
pub const SITE_PREFIX: u8 = 24;

/// What a host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A machine that may become a node.
    Machine,
    /// It leads to others, and has nothing of a node.
    Jump,
    /// The same, and router of its site: whoever is behind it has its address outside.
    Gateway,
}

/// Where a host is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// What it is for.
    pub role: Role,
    /// Its site; none: the lab's own network.
    pub site: Option<String>,
    /// The jump host through which alone its SSH server is reached; none: directly.
    pub via: Option<String>,
    /// Its number among those of its network, from 1.
    pub number: u8,
}

impl Place {
    /// Whether it has an address of its site alone; the site's gateway has one of the lab's network, too.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.site.is_some() && self.role == Role::Machine
    }

    /// Its address, as whoever comes through `via` sees it.
    #[must_use]
    pub fn address(&self, slot: Slot) -> Ipv4Addr {
        match self.is_private() {
            true => Ipv4Addr::new(192, 168, 77, 10 + self.number),
            false => slot.host_address(self.number),
        }
    }
}

/// A host that runs, or did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshHost {
    /// Its namespaces.
    pub host: Host,
    /// Where it is.
    pub place: Place,
    /// Its `/etc/machine-id`.
    pub machine_id: String,
    /// The public half of its host key, as `ssh_host_ed25519_key.pub` has it.
    pub host_key: String,
    /// Version of its kubelet and kubeadm, as `1.35.4`; none: it has no programs of a node.
    pub version: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(role: Role, site: Option<&str>) -> Place {
        Place {
            role,
            site: site.map(str::to_owned),
            via: None,
            number: 3,
        }
    }

    #[test]
    fn machines_of_two_sites_have_the_same_addresses_and_their_gateways_have_not() {
        let slot = Slot::all().next().unwrap();
        let address = |role, site| place(role, site).address(slot).to_string();
        assert_eq!(address(Role::Machine, Some("a")), "192.168.77.13");
        assert_eq!(address(Role::Machine, Some("b")), "192.168.77.13");
        assert_eq!(address(Role::Gateway, Some("a")), "172.28.0.13");
        assert_eq!(address(Role::Machine, None), "172.28.0.13");
    }
}
