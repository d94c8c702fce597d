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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(change: impl Fn(&mut Value), attached: Option<&BTreeSet<IpAddr>>) -> Option<Pod> {
        let mut object = json!({
            "metadata": {"name": "p", "namespace": "a", "labels": {"app": "x"},
                "creationTimestamp": "1970-01-01T00:00:07Z"},
            "spec": {"nodeName": "here", "containers": [{"name": "c", "ports": [
                {"name": "http", "containerPort": 80}, {"containerPort": 81},
                {"name": "dns", "containerPort": 53, "protocol": "UDP"}]}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1",
                "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
        });
        change(&mut object);
        Pod::read(&serde_json::from_value(object).unwrap(), "here", attached)
    }

    #[test]
    fn running_pod_has_its_addresses_and_named_ports() {
        let port = |name: &str, protocol, number| NamedPort {
            name: name.to_owned(),
            protocol,
            number,
        };
        let expected = Pod {
            namespace: "a".to_owned(),
            labels: [("app".to_owned(), "x".to_owned())].into(),
            addresses: ["10.0.0.1", "fd00::1"]
                .map(|text| text.parse().unwrap())
                .into(),
            ports: vec![
                port("http", Protocol::Tcp, 80),
                port("dns", Protocol::Udp, 53),
            ],
            local: true,
            created: 7,
        };
        assert_eq!(read(|_| {}, None), Some(expected));
    }

    #[test]
    fn pod_of_another_node_is_not_local() {
        let pod = read(|object| object["spec"]["nodeName"] = json!("there"), None);
        assert!(!pod.unwrap().local);
    }

    #[test]
    fn host_network_finished_and_unaddressed_pods_are_none() {
        assert_eq!(
            read(|object| object["spec"]["hostNetwork"] = json!(true), None),
            None
        );
        assert_eq!(
            read(|object| object["status"]["phase"] = json!("Failed"), None),
            None
        );
        assert_eq!(
            read(
                |object| object["status"]["phase"] = json!("Succeeded"),
                None
            ),
            None
        );
        assert_eq!(read(|object| object["status"] = json!({}), None), None);
    }

    #[test]
    fn attachment_gives_the_address_before_and_instead_of_the_status() {
        let attached: BTreeSet<IpAddr> = ["10.0.0.9".parse().unwrap()].into();
        let early = read(|object| object["status"] = json!({}), Some(&attached));
        assert_eq!(early.unwrap().addresses, attached);
        assert_eq!(read(|_| {}, Some(&attached)).unwrap().addresses, attached);
    }

    #[test]
    fn ports_of_sidecars_count_and_of_other_init_containers_do_not() {
        let init = |policy: Value| {
            move |object: &mut Value| {
                object["spec"]["initContainers"] = json!([{"name": "i", "restartPolicy": policy,
                    "ports": [{"name": "side", "containerPort": 90}]}]);
            }
        };
        let has = |pod: Option<Pod>| pod.unwrap().ports.iter().any(|port| port.name == "side");
        assert!(has(read(init(json!("Always")), None)));
        assert!(!has(read(init(Value::Null), None)));
    }
}
