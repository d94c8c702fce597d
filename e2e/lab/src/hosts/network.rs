//! Cables of hosts that are reached by SSH, sites behind NAT, and who may enter.
//!
//! Invariant: on the machine there is nothing but a cable per host of the lab's network; the rest is in the
//! hosts' namespaces and goes with them.

use std::{fmt::Write as _, net::Ipv4Addr, process::Command};

use anyhow::Result;

use crate::{
    host::Host,
    network::{interfaces, ip_batch},
    run::{self, command},
    slot::addresses::Slot,
    ssh_host::{GATEWAY, PORT, SITE_PREFIX},
};

const NFT: &str = "/usr/sbin/nft";

/// Connects a host to the lab's network. All that is not in it goes to the management host, which leads to
/// pods, Services and load balancers and nowhere else.
pub(super) fn connect(slot: Slot, number: u8, pid: i32) -> Result<()> {
    plug(Command::new("ip"), &slot.cable(number), &slot.bridge(), pid)?;
    let prefix = slot.node_network().prefix_len();
    let router = slot.host_address(0);
    address(pid, slot.host_address(number), prefix, router)
}

/// Makes a host that is connected the gateway of its site: who is behind it has its address outside, and
/// nobody outside begins a connection to who is behind it.
pub(super) fn open_site(gateway: &Host) -> Result<()> {
    let mut batch = String::from("link add site type bridge\n");
    let _ = writeln!(batch, "addr add {GATEWAY}/{SITE_PREFIX} dev site");
    batch.push_str("link set site up\n");
    ip_batch(within(gateway.init.pid), &batch)?;
    rules(
        gateway,
        "table ip lab-site {
            chain forward { type filter hook forward priority filter; iifname eth0 ct state new drop; }
            chain postrouting { type nat hook postrouting priority srcnat; oifname eth0 masquerade; }
        }",
    )
}

/// Connects a host to its site.
pub(super) fn connect_private(
    gateway: &Host,
    number: u8,
    address_there: Ipv4Addr,
    pid: i32,
) -> Result<()> {
    let port = format!("port-{number}");
    plug(within(gateway.init.pid), &port, "site", pid)?;
    address(pid, address_there, SITE_PREFIX, GATEWAY)
}

/// Connects `eth0` of a host to a bridge where `ip` runs, by an interface that is called `cable` there.
fn plug(ip: Command, cable: &str, bridge: &str, pid: i32) -> Result<()> {
    let mut batch = String::new();
    let _ = writeln!(
        batch,
        "link add {cable} type veth peer name eth0 netns {pid}"
    );
    let _ = writeln!(batch, "link set {cable} master {bridge} up");
    ip_batch(ip, &batch)
}

/// Nobody but `jump` reaches the host's SSH server.
pub(super) fn only_from(host: &Host, jump: Ipv4Addr) -> Result<()> {
    rules(host, &entry(jump))
}

/// For both families: a network has link-local addresses that nobody gave out.
fn entry(jump: Ipv4Addr) -> String {
    format!(
        "table inet lab-jump {{
            chain input {{
                type filter hook input priority filter;
                iifname eth0 tcp dport {PORT} ip saddr {jump} accept;
                iifname eth0 tcp dport {PORT} reject with tcp reset;
            }}
        }}"
    )
}

/// Removes the cable on the machine; one that went with its host's namespace is fine.
pub(super) fn disconnect(slot: Slot, number: u8) -> Result<()> {
    let cable = slot.cable(number);
    if !interfaces(slot)?.contains(&cable) {
        return Ok(());
    }
    let removed = run::output(&mut command("ip", ["link", "delete", &cable]));
    if removed.is_err() && interfaces(slot)?.contains(&cable) {
        removed?;
    }
    Ok(())
}

fn address(pid: i32, address: Ipv4Addr, prefix: u8, router: Ipv4Addr) -> Result<()> {
    let mut inside = String::from("link set lo up\n");
    let _ = writeln!(inside, "addr add {address}/{prefix} dev eth0");
    inside.push_str("link set eth0 up\n");
    let _ = writeln!(inside, "route add default via {router}");
    ip_batch(within(pid), &inside)
}

/// The machine's `ip` in the network of a host: its `/proc` is the machine's, so it finds others' namespaces.
fn within(pid: i32) -> Command {
    command("nsenter", [&format!("--net=/proc/{pid}/ns/net"), "ip"])
}

fn rules(host: &Host, rules: &str) -> Result<()> {
    run::output_with_input(&mut host.inside(NFT, ["-f", "-"]), rules).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_the_jump_host_is_refused_whatever_the_family() {
        let rules = entry(Ipv4Addr::new(172, 28, 0, 11));
        assert!(rules.starts_with("table inet "), "{rules}");
        let refusal = rules.lines().find(|line| line.contains("reject")).unwrap();
        assert!(!refusal.contains("saddr"), "of one family alone: {refusal}");
    }
}
