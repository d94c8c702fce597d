//! Which networks the machine uses already, and whether a slot would meet one of them.
//!
//! Invariant: reads only.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use ipnet::Ipv4Net;
use serde::Deserialize;

use super::addresses::Slot;
use crate::run::{command, output};

/// A network that the machine routes somewhere, and through which interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UsedNetwork {
    network: Ipv4Net,
    interface: String,
}

#[derive(Deserialize)]
struct Route {
    dst: String,
    #[serde(default)]
    dev: String,
}

/// Every IPv4 network in the machine's routes, the default route aside.
pub(super) fn used_networks() -> Result<Vec<UsedNetwork>> {
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
pub(super) fn conflict(slot: Slot, used: &[UsedNetwork]) -> Option<String> {
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
