//! Policy of the platform: what users may choose, as plain data.
//!
//! Invariant: what is left out allows no more than an ordinary tenant cluster needs.

use std::num::NonZeroU32;

use api::tenant_cluster::EndpointType;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Prefixes of images and registries; each ends at a `/` of what it allows.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Prefixes(pub Vec<String>);

impl Prefixes {
    /// Whether `path` is one of these or lies below one.
    #[must_use]
    pub fn allow(&self, path: &str) -> bool {
        self.0.iter().any(|prefix| {
            let rest = path.strip_prefix(prefix.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// What users may choose of how their tenant cluster's API is published.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EndpointPolicy {
    /// Keys of annotations; one that ends in `/` stands for all with this prefix. Default: none.
    pub annotations: Vec<String>,
    /// Keys of labels, in the same way. Default: none.
    pub labels: Vec<String>,
    /// Values of `loadBalancerClass`; leaving it out is always allowed. Default: none.
    pub classes: Vec<String>,
    /// Types of the Service. Default: all.
    pub types: Vec<EndpointType>,
}

impl EndpointPolicy {
    /// Whether an annotation with this key may be set.
    #[must_use]
    pub fn allows_annotation(&self, key: &str) -> bool {
        allows(&self.annotations, key)
    }

    /// Whether a label with this key may be set.
    #[must_use]
    pub fn allows_label(&self, key: &str) -> bool {
        allows(&self.labels, key)
    }
}

/// What load balancers of tenant clusters may be given, and what they are like.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LoadBalancerPolicy {
    /// Keys of annotations that they take over from Services of tenant clusters; one that ends in `/` stands
    /// for all with this prefix. Default: none.
    pub annotations: Vec<String>,
    /// Where fixed addresses may lie that Services of tenant clusters ask for. Default: nowhere.
    pub addresses: Vec<IpNet>,
    /// Values of `loadBalancerClass` that users may choose for them. Default: none.
    pub classes: Vec<String>,
    /// `loadBalancerClass` of those whose user chose none. Default: none, which is the management cluster's
    /// own choice.
    pub default_class: Option<String>,
    /// Keys of labels that users may set on their Services in the management cluster; one that ends in `/`
    /// stands for all with this prefix. Default: none.
    pub labels: Vec<String>,
    /// Whether they take node ports of the management cluster, of which there are 2768 for all tenant
    /// clusters together. Load balancers that reach pods by themselves need none. Default: true.
    pub node_ports: bool,
    /// Whether traffic of a tenant cluster's own pods to its load balancers goes by way of them (ipMode
    /// `Proxy`) whatever their controller says; for those that speak the PROXY protocol or end TLS. Default:
    /// false, which is as it says.
    pub proxy_ip_mode: bool,
    /// Most of them of one tenant cluster; those that there are stay. Default: 500.
    pub max_services: u32,
    /// Most ports of all of them of one tenant cluster together, each of which takes a node port; those that
    /// there are stay. Default: 1000.
    pub max_ports: u32,
    /// Most endpoints of each of them and family of addresses: machines that it leads to. Default: 250.
    pub max_endpoints: NonZeroU32,
}

impl Default for LoadBalancerPolicy {
    fn default() -> Self {
        Self {
            annotations: Vec::new(),
            addresses: Vec::new(),
            classes: Vec::new(),
            default_class: None,
            labels: Vec::new(),
            node_ports: true,
            proxy_ip_mode: false,
            max_services: 500,
            max_ports: 1000,
            max_endpoints: NonZeroU32::MIN.saturating_add(249),
        }
    }
}

impl LoadBalancerPolicy {
    /// Whether all addresses of a range may be asked for.
    #[must_use]
    pub fn allows_range(&self, range: &IpNet) -> bool {
        self.addresses.iter().any(|allowed| allowed.contains(range))
    }
}

/// What users may have their kube-apiservers do. They reach webhooks from the tenant cluster's nodes, so
/// nothing of the management cluster is opened by it; what waits to be sent takes memory of the pod.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ApiServerPolicy {
    /// Whether they may have events of the audit log sent to somebody. Default: false.
    pub audit_webhook: bool,
    /// Whether they may have somebody else allow requests. Default: false.
    pub authorization_webhooks: bool,
    /// Feature gates that they may set, by name, of those in docs/flags.md. Default: none.
    pub feature_gates: Vec<String>,
    /// API versions that they may switch, of those in docs/flags.md. Default: none.
    pub runtime_config: Vec<String>,
}

/// Whether a list of keys has `key`; one that ends in `/` stands for all with this prefix.
pub(crate) fn allows(keys: &[String], key: &str) -> bool {
    keys.iter().any(|allowed| match allowed.ends_with('/') {
        true => key.starts_with(allowed.as_str()),
        false => key == allowed,
    })
}

impl Default for EndpointPolicy {
    fn default() -> Self {
        Self {
            annotations: Vec::new(),
            labels: Vec::new(),
            classes: Vec::new(),
            types: vec![
                EndpointType::ClusterIP,
                EndpointType::NodePort,
                EndpointType::LoadBalancer,
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_ends_where_a_part_of_the_path_does() {
        let prefixes = Prefixes(vec!["a.example/x".to_owned(), "b.example/".to_owned()]);
        for allowed in ["a.example/x", "a.example/x/y", "b.example", "b.example/z"] {
            assert!(prefixes.allow(allowed), "{allowed}");
        }
        for other in [
            "a.example",
            "a.example/xy",
            "b.example.evil/z",
            "b.example:5000/z",
            "",
        ] {
            assert!(!prefixes.allow(other), "{other}");
        }
        assert!(!Prefixes::default().allow("a.example"));
    }
}
