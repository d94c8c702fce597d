//! Unsupported parts of a Service: what cannot be mapped, and why, for the Events on it.
//!
//! Invariant: what is unsupported is left out, and the rest of the Service is mapped all the same; no
//! Service keeps another one from being mapped.

use api::Reason;
use k8s_openapi::api::core::v1::Service;
use kit::events::Notice;

use crate::settings::Settings;

/// One port that can be mapped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// Name; empty where there is only one.
    pub name: String,
    /// TCP, UDP or SCTP.
    pub protocol: String,
    /// Port of the load balancer.
    pub port: i32,
    /// Port of the tenant's nodes.
    pub node_port: i32,
    /// What is spoken, for whoever balances by it.
    pub app_protocol: Option<String>,
}

/// The ports that can be mapped, in the order of the Service, and what is wrong.
#[must_use]
pub fn check(service: &Service, settings: &Settings) -> (Vec<Port>, Vec<Notice>) {
    let mut complaints = Vec::new();
    let mut ports = Vec::new();
    let spec = service.spec.as_ref();
    for port in spec.and_then(|s| s.ports.as_ref()).into_iter().flatten() {
        let Some(node_port) = port.node_port.filter(|port| *port > 0) else {
            complaints.push(Notice::warning(
                Reason::NoNodePort,
                format!(
                    "port {} has no node port, by which the management cluster reaches the nodes; \
                     set spec.allocateLoadBalancerNodePorts to true, or the port's nodePort",
                    port.port
                ),
            ));
            continue;
        };
        ports.push(Port {
            name: port.name.clone().unwrap_or_default(),
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            port: port.port,
            node_port,
            app_protocol: port.app_protocol.clone(),
        });
    }
    let external = spec.and_then(|s| s.external_ips.as_ref());
    let asked = spec.and_then(|s| s.load_balancer_ip.as_ref());
    let asked = asked.filter(|ip| !ip.is_empty());
    for (field, address) in external
        .into_iter()
        .flatten()
        .map(|ip| ("externalIPs", ip))
        .chain(asked.map(|ip| ("loadBalancerIP", ip)))
    {
        if !settings.allows_address(address) {
            complaints.push(Notice::warning(
                Reason::AddressNotAllowed,
                format!(
                    "{field} {address} is not among the addresses that this tenant cluster may ask \
                     for; remove it, or have it allowed (--allow-addresses)"
                ),
            ));
        }
    }
    (ports, complaints)
}
