//! What plans may depend on besides what they see: a value made once from the command line.
//!
//! Invariant: an annotation or an address that no rule here allows never reaches the management
//! cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::limits::Limits;

/// Everything that can be configured and concerns objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The tenant namespace: mirrors, virtual machines and the Lease are in it.
    pub namespace: String,
    /// UID of the TenantCluster; anything that is unique and stays will do.
    pub cluster_uid: String,
    /// Values of `spec.loadBalancerClass` that are ours, besides none.
    pub classes: BTreeSet<String>,
    /// `spec.loadBalancerClass` that new mirrors get. Default: none.
    pub mirror_class: Option<String>,
    /// How mirrors find the machines. Default: EndpointSlices.
    pub endpoints: Endpoints,
    /// Where addresses of machines come from. Default: what KubeVirt reports of their interfaces.
    pub machine_addresses: MachineAddresses,
    /// Annotations of the tenant's Services that mirrors get: a key, or a beginning followed by `*`.
    /// Default: none.
    pub annotations: Vec<String>,
    /// Where externalIPs and loadBalancerIP of the tenant's Services may lie. Default: nowhere.
    pub addresses: Vec<IpNet>,
    /// Further labels of mirrors. Default: none.
    pub labels: BTreeMap<String, String>,
    /// How in-cluster traffic to addresses of load balancers goes. Default: as the management cluster says.
    pub ip_mode: IpMode,
    /// Whether mirrors get node ports in the management cluster. Default: yes.
    pub allocate_node_ports: bool,
    /// The most that the tenant cluster has in the management cluster.
    pub limits: Limits,
    /// Go on with mirrors that the KubeVirt CCM made, under their names. Default: no.
    pub adopt: bool,
    /// Whether nodes are looked after. Default: yes.
    pub nodes: bool,
    /// Whether Services are looked after. Default: yes.
    pub services: bool,
    /// Whether nodes get labels of zone and region. Default: yes.
    pub zones: bool,
}

/// Where addresses of machines come from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MachineAddresses {
    /// What KubeVirt reports of interfaces. A guest's agent chooses it, so who runs a machine leads load
    /// balancers wherever they like; for tenants that are trusted.
    #[default]
    Reported,
    /// What the operator publishes on virtual machines: addresses of the pods around them.
    Published,
}

/// How traffic of the tenant cluster's own pods to the address of a load balancer goes (KEP-1860).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum IpMode {
    /// As the management cluster's load balancer says. Where it says `VIP`, kube-proxy of the tenant cluster
    /// sends such traffic to the pods by itself, which is the same but for the way.
    #[default]
    Mirrored,
    /// Always by way of the load balancer (`Proxy`): for those that do more than to pass packets on (the
    /// PROXY protocol, TLS) and whose controller does not say so.
    Proxy,
}

/// How mirrors find the machines.
#[derive(Clone, Debug, PartialEq)]
pub enum Endpoints {
    /// By EndpointSlices that we write.
    Slices,
    /// By a selector of virt-launcher pods; node readiness, exclusion and local endpoints then have
    /// no effect.
    Selector(BTreeMap<String, String>),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: String::new(),
            cluster_uid: String::new(),
            classes: BTreeSet::new(),
            mirror_class: None,
            endpoints: Endpoints::Slices,
            machine_addresses: MachineAddresses::default(),
            annotations: Vec::new(),
            addresses: Vec::new(),
            labels: BTreeMap::new(),
            ip_mode: IpMode::default(),
            allocate_node_ports: true,
            limits: Limits::default(),
            adopt: false,
            nodes: true,
            services: true,
            zones: true,
        }
    }
}

impl Settings {
    /// Whether a mirror may carry this annotation.
    #[must_use]
    pub fn allows_annotation(&self, key: &str) -> bool {
        self.annotations
            .iter()
            .any(|rule| match rule.strip_suffix('*') {
                Some(beginning) => key.starts_with(beginning),
                None => key == rule,
            })
    }

    /// Whether a tenant may ask for this address.
    #[must_use]
    pub fn allows_address(&self, address: &str) -> bool {
        let Ok(address) = address.parse::<IpAddr>() else {
            return false;
        };
        self.addresses.iter().any(|range| range.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_allowed_that_no_rule_names() {
        let mut settings = Settings::default();
        assert!(!settings.allows_annotation("a/b") && !settings.allows_address("192.0.2.1"));
        settings.annotations = vec!["metallb.io/*".to_owned(), "a/b".to_owned()];
        settings.addresses = vec!["192.0.2.0/24".parse().unwrap()];
        assert!(settings.allows_annotation("metallb.io/pool") && settings.allows_annotation("a/b"));
        assert!(!settings.allows_annotation("metallb.iox") && !settings.allows_annotation("a/bc"));
        assert!(settings.allows_address("192.0.2.255") && !settings.allows_address("192.0.3.0"));
        assert!(!settings.allows_address("2001:db8::1") && !settings.allows_address("nonsense"));
    }
}
