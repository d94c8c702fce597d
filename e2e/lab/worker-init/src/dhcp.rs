//! What busybox's DHCP client calls: turns a lease into addresses, routes and name servers.
//!
//! Invariant: what a lease gave before is replaced, not added to. [`Lease::commands`] is pure; one
//! `ip` carries out all of it, because every start of a program is dear under emulation.

use std::{
    env, fs,
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// `/etc/resolv.conf` leads here.
const RESOLVER: &str = "/run/resolv.conf";

/// The client's environment (busybox, `udhcpc`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lease {
    interface: String,
    ip: String,
    /// Length of the network's prefix.
    mask: String,
    /// Default routes.
    router: String,
    /// Pairs of network and gateway (RFC 3442); where there are some, `router` does not count.
    staticroutes: String,
    mtu: String,
    dns: String,
}

/// Acts on one event of the client.
pub(crate) fn on(event: &str) -> Result<()> {
    let value = |name: &str| env::var(name).unwrap_or_default();
    let lease = Lease {
        interface: value("interface"),
        ip: value("ip"),
        mask: value("mask"),
        router: value("router"),
        staticroutes: value("staticroutes"),
        mtu: value("mtu"),
        dns: value("dns"),
    };
    match event {
        "deconfig" => ip(&lease.without()),
        "bound" | "renew" => {
            ip(&lease.commands())?;
            fs::write(RESOLVER, lease.resolver()).context("no name servers")
        }
        _ => Ok(()),
    }
}

fn ip(batch: &str) -> Result<()> {
    let mut ip = Command::new("ip")
        .args(["-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .context("ip cannot be run")?;
    if let Some(mut stdin) = ip.stdin.take() {
        stdin.write_all(batch.as_bytes())?;
    }
    if !ip.wait()?.success() {
        bail!("ip did not do all of:\n{batch}");
    }
    Ok(())
}

impl Lease {
    /// For `ip -batch`.
    fn commands(&self) -> String {
        let card = &self.interface;
        let mask = if self.mask.is_empty() {
            "32"
        } else {
            &self.mask
        };
        let mut lines = Vec::new();
        if !self.mtu.is_empty() {
            lines.push(format!("link set dev {card} mtu {}", self.mtu));
        }
        // Routes that the server gives are all that there are: where pods are routed and not bridged,
        // nobody answers for a neighbour of the same network.
        let option = if self.staticroutes.is_empty() {
            ""
        } else {
            " noprefixroute"
        };
        lines.push(format!(
            "addr replace {}/{mask} dev {card}{option}",
            self.ip
        ));
        let routes = self.routes();
        // The gateways first: a route through one is refused as long as nothing leads to it.
        let (direct, others): (Vec<_>, Vec<_>) = routes
            .iter()
            .partition(|(_, gateway)| *gateway == "0.0.0.0");
        for (network, _) in direct {
            lines.push(format!("route replace {network} dev {card} scope link"));
        }
        for (network, gateway) in others {
            // `onlink`: the gateway of a /32 is in no network of ours.
            lines.push(format!(
                "route replace {network} via {gateway} dev {card} onlink"
            ));
        }
        lines.join("\n") + "\n"
    }

    fn without(&self) -> String {
        let card = &self.interface;
        format!("link set dev lo up\naddr flush dev {card}\nlink set dev {card} up\n")
    }

    fn routes(&self) -> Vec<(&str, &str)> {
        let words: Vec<_> = self.staticroutes.split_whitespace().collect();
        if !words.is_empty() {
            let pairs = words.chunks_exact(2);
            return pairs.map(|pair| (pair[0], pair[1])).collect();
        }
        let first = self.router.split_whitespace().next();
        first
            .map(|gateway| ("default", gateway))
            .into_iter()
            .collect()
    }

    fn resolver(&self) -> String {
        let servers = self.dns.split_whitespace();
        servers
            .map(|server| format!("nameserver {server}\n"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease() -> Lease {
        Lease {
            interface: "eth0".to_owned(),
            ip: "172.16.0.7".to_owned(),
            mask: "24".to_owned(),
            router: "172.16.0.1".to_owned(),
            dns: "172.22.0.10 172.22.0.11".to_owned(),
            ..Lease::default()
        }
    }

    #[test]
    fn a_plain_lease_has_one_default_route() {
        assert_eq!(
            lease().commands(),
            "addr replace 172.16.0.7/24 dev eth0\n\
             route replace default via 172.16.0.1 dev eth0 onlink\n"
        );
        assert_eq!(
            lease().resolver(),
            "nameserver 172.22.0.10\nnameserver 172.22.0.11\n"
        );
    }

    #[test]
    fn static_routes_take_the_place_of_the_router_and_gateways_come_first() {
        let lease = Lease {
            mtu: "1450".to_owned(),
            staticroutes: "0.0.0.0/0 172.16.0.1 172.16.0.1/32 0.0.0.0".to_owned(),
            ..lease()
        };
        assert_eq!(
            lease.commands(),
            "link set dev eth0 mtu 1450\n\
             addr replace 172.16.0.7/24 dev eth0 noprefixroute\n\
             route replace 172.16.0.1/32 dev eth0 scope link\n\
             route replace 0.0.0.0/0 via 172.16.0.1 dev eth0 onlink\n"
        );
    }

    #[test]
    fn a_network_without_router_has_no_default_route() {
        let lease = Lease {
            router: String::new(),
            ..lease()
        };
        assert_eq!(lease.commands(), "addr replace 172.16.0.7/24 dev eth0\n");
    }
}
