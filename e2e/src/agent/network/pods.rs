//! What a pod is to the policies: its labels, its addresses and its named ports.
//!
//! Invariant: a pod in the host's network, a finished pod and a pod without an address is none.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use k8s_openapi::api::core::v1::{Container, Pod as Object, PodSpec};

use super::model::Protocol;

/// A pod that policies can select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its addresses, at least one.
    pub addresses: BTreeSet<IpAddr>,
    /// Its ports that have a name.
    pub ports: Vec<NamedPort>,
    /// Whether it runs on this node, so that this node enforces what selects it.
    pub local: bool,
    /// Seconds since 1970 of its creation: of two pods with one address the newer has it.
    pub created: i64,
}

/// A container port with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPort {
    /// Its name.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub number: u16,
}

impl Pod {
    /// Reads an API object. `attached` are the addresses the CNI plugins gave the pod, known
    /// sooner than those in its status and therefore used instead of them.
    pub fn read(object: &Object, node: &str, attached: Option<&BTreeSet<IpAddr>>) -> Option<Self> {
        let spec = object.spec.as_ref()?;
        let status = object.status.clone().unwrap_or_default();
        let finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        if finished || spec.host_network == Some(true) {
            return None;
        }
        let addresses = match attached {
            Some(addresses) => addresses.clone(),
            None => {
                let listed = status
                    .pod_ips
                    .unwrap_or_default()
                    .into_iter()
                    .map(|entry| entry.ip);
                listed
                    .chain(status.pod_ip)
                    .filter_map(|text| text.parse().ok())
                    .collect()
            }
        };
        (!addresses.is_empty()).then(|| Self {
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            labels: object.metadata.labels.clone().unwrap_or_default(),
            addresses,
            ports: named_ports(spec),
            local: spec.node_name.as_deref() == Some(node),
            created: object
                .metadata
                .creation_timestamp
                .as_ref()
                .map_or(0, |created| created.0.as_second()),
        })
    }
}

/// Ports of the containers that run for the pod's whole life, as Services look them up
/// (upstream `pkg/api/v1/pod` `FindPort`): the containers and the restartable init containers.
fn named_ports(spec: &PodSpec) -> Vec<NamedPort> {
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|container: &&Container| container.restart_policy.as_deref() == Some("Always"));
    spec.containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            Some(NamedPort {
                name: port.name.clone()?,
                protocol: Protocol::parse(port.protocol.as_deref())?,
                number: u16::try_from(port.container_port).ok()?,
            })
        })
        .collect()
}
