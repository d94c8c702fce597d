//! The machine's side of a lab's network: one bridge, one cable per simulated host, two routes.
//!
//! Invariant: only interfaces named after the slot are made or removed; routes go with them.

use std::{fmt::Write as _, net::Ipv4Addr, process::Command};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{
    run::{command, output, output_with_input},
    slot::Slot,
};

/// Where virtual machines find the lab's registry, in every slot: their images are made before a
/// slot is known. Of the range for benchmarks (RFC 2544), which nothing else here uses, and not
/// link-local: machines are kept from those addresses. A machine reaches it through its default
/// route.
pub const REGISTRY_FOR_MACHINES: Ipv4Addr = Ipv4Addr::new(198, 18, 20, 10);

#[derive(Deserialize)]
struct Link {
    ifname: String,
}

/// The slot's interfaces on the machine.
///
/// # Errors
/// When `ip` fails.
pub fn interfaces(slot: Slot) -> Result<Vec<String>> {
    let links = output(&mut command("ip", ["-json", "link", "show"]))?;
    let links: Vec<Link> =
        serde_json::from_str(&links).context("`ip -json link` printed something else")?;
    let names = links.into_iter().map(|link| link.ifname);
    Ok(names.filter(|name| slot.owns_interface(name)).collect())
}

/// Makes the bridge with the machine's address.
///
/// # Errors
/// When `ip` fails.
pub fn create_bridge(slot: Slot) -> Result<()> {
    let bridge = slot.bridge();
    let mut batch = String::new();
    let _ = writeln!(batch, "link add {bridge} type bridge");
    let prefix = slot.node_network().prefix_len();
    let _ = writeln!(
        batch,
        "addr add {}/{prefix} dev {bridge}",
        slot.machine_address()
    );
    let _ = writeln!(batch, "link set {bridge} up");
    ip_batch(Command::new("ip"), &batch)
}

/// Connects the host whose first process is `pid`, and routes pods, Services and load balancers to it.
///
/// # Errors
/// When `ip` or `nsenter` fails.
pub fn connect_host(slot: Slot, host: u8, pid: i32) -> Result<()> {
    let (bridge, cable) = (slot.bridge(), slot.cable(host));
    let mut batch = String::new();
    let _ = writeln!(
        batch,
        "link add {cable} type veth peer name eth0 netns {pid}"
    );
    let _ = writeln!(batch, "link set {cable} master {bridge} up");
    let via = slot.host_address(host);
    let _ = writeln!(batch, "route add {} via {via}", slot.host_pod_network(host));
    // kube-proxy rewrites these after the routing decision, so there must be a route; a default
    // route there is none: nothing in the lab reaches the outside.
    let virtual_networks = [slot.service_network(), slot.load_balancer_network()];
    if host == 0 {
        for network in virtual_networks {
            let _ = writeln!(batch, "route add {network} via {via}");
        }
    }
    let mut inside = String::from("link set lo up\n");
    let _ = writeln!(inside, "addr add {REGISTRY_FOR_MACHINES}/32 dev lo");
    let prefix = slot.node_network().prefix_len();
    let _ = writeln!(inside, "addr add {via}/{prefix} dev eth0");
    let _ = writeln!(inside, "link set eth0 up");
    for network in virtual_networks {
        let _ = writeln!(inside, "route add {network} dev eth0");
    }

    let (first, second) = batch.split_at(batch.find("route").unwrap_or(batch.len()));
    ip_batch(Command::new("ip"), first)?;
    ip_batch(
        command("nsenter", [&format!("--net=/proc/{pid}/ns/net"), "ip"]),
        &inside,
    )?;
    ip_batch(Command::new("ip"), second)
}

/// Removes the slot's interfaces, and with them its routes and addresses.
///
/// # Errors
/// When `ip` fails for another reason than an interface that is already gone.
pub fn remove(slot: Slot) -> Result<()> {
    for name in interfaces(slot)? {
        // A cable vanishes by itself while its host's namespace is torn down.
        let removed = output(&mut command("ip", ["link", "delete", &name]));
        if removed.is_err() && interfaces(slot)?.contains(&name) {
            removed?;
        }
    }
    Ok(())
}

/// Runs a batch of commands of `ip`.
pub(crate) fn ip_batch(mut ip: Command, batch: &str) -> Result<()> {
    output_with_input(ip.args(["-batch", "-"]), batch).map(drop)
}
