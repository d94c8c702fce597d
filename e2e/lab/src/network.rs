//! The machine's side of a lab's network: one bridge, one cable per simulated host, two routes.
//!
//! Invariant: only interfaces named after the slot are made or removed; routes go with them.

use std::{fmt::Write as _, net::Ipv4Addr, process::Command};

use anyhow::{Context, Result};
use ipnet::Ipv4Net;
use serde::Deserialize;

use crate::{
    run::{command, output, output_with_input},
    slot::Slot,
};

/// Where virtual machines find the lab's registry, in every slot: their images are made before a
/// slot is known. Link-local, as is usual for what a node offers to what runs on it; a machine
/// reaches it through its default route.
pub const REGISTRY_FOR_MACHINES: Ipv4Addr = Ipv4Addr::new(169, 254, 20, 10);

/// A network that the machine routes somewhere, and through which interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedNetwork {
    network: Ipv4Net,
    interface: String,
}

#[derive(Deserialize)]
struct Route {
    dst: String,
    #[serde(default)]
    dev: String,
}

#[derive(Deserialize)]
struct Link {
    ifname: String,
}

/// Every IPv4 network in the machine's routes, the default route aside.
///
/// # Errors
/// When `ip` fails.
pub fn used_networks() -> Result<Vec<UsedNetwork>> {
    let routes = output(&mut command(
        "ip",
        ["-json", "-4", "route", "show", "table", "all"],
    ))?;
    parse_routes(&routes)
}

fn parse_routes(json: &str) -> Result<Vec<UsedNetwork>> {
    let routes: Vec<Route> =
        serde_json::from_str(json).context("`ip -json route` printed something else")?;
    let parse = |route: Route| {
        let single = || route.dst.parse::<Ipv4Addr>().ok().map(Ipv4Net::from);
        let network = route.dst.parse().ok().or_else(single)?;
        Some(UsedNetwork {
            network,
            interface: route.dev,
        })
    };
    Ok(routes.into_iter().filter_map(parse).collect())
}

/// Why a slot's addresses cannot be used. Its own interfaces, left by a crash, are no reason.
#[must_use]
pub fn conflict(slot: Slot, used: &[UsedNetwork]) -> Option<String> {
    let wanted = [
        slot.node_network(),
        slot.pod_network(),
        slot.service_network(),
        slot.load_balancer_network(),
    ];
    used.iter()
        .filter(|route| !slot.owns_interface(&route.interface) && route.network.prefix_len() > 0)
        .find(|route| {
            wanted
                .iter()
                .any(|net| net.contains(&route.network) || route.network.contains(net))
        })
        .map(|route| format!("{} is in use by {}", route.network, route.interface))
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

fn ip_batch(mut ip: Command, batch: &str) -> Result<()> {
    output_with_input(ip.args(["-batch", "-"]), batch).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = r#"[{"dst":"default","gateway":"10.0.0.1","dev":"eth0","flags":[]},
        {"dst":"172.17.0.0/16","dev":"docker0","flags":[]},
        {"type":"local","dst":"172.28.2.1","dev":"cvy2","flags":[]}]"#;

    fn slot(number: u8) -> Slot {
        Slot::all().find(|slot| slot.number() == number).unwrap()
    }

    #[test]
    fn a_foreign_route_blocks_a_slot_and_is_named() {
        let used = parse_routes(ROUTES).unwrap();
        assert_eq!(used.len(), 2, "the default route is no conflict");
        let reason = conflict(slot(1), &used).unwrap();
        assert_eq!(reason, "172.17.0.0/16 is in use by docker0");
        assert_eq!(conflict(slot(0), &used), None);
    }

    #[test]
    fn the_slots_own_leftovers_do_not_block_it() {
        let used = parse_routes(ROUTES).unwrap();
        assert_eq!(conflict(slot(2), &used), None);
    }

    #[test]
    fn a_wider_route_blocks_every_slot_inside_it() {
        let used = parse_routes(r#"[{"dst":"172.16.0.0/12","dev":"tun0"}]"#).unwrap();
        assert!(Slot::all().all(|slot| conflict(slot, &used).is_some()));
    }
}
