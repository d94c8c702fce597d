//! Cached fields of nodes, virtual machines and their instances: a few each, because a tenant cluster
//! may have hundreds and this process shall stay small.
//!
//! Invariant: made from API objects without fail; what an object leaves out is the value that lets
//! less happen (a node is not ready, an instance does not run).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use api::machine_addresses::{PublishedAddresses, RemoteMachine, RemoteState};
use k8s_openapi::api::core::v1::{Node as ApiNode, NodeAddress, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::names;
use crate::settings::MachineAddresses;

/// metadata.resourceVersion as a number (KEP-5504 makes them comparable); 0 where it is none.
#[must_use]
pub fn number(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or(0)
}

/// [`number`] of an object's metadata.resourceVersion.
#[must_use]
pub fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().map_or(0, number)
}

/// A node of the tenant cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// metadata.name
    pub name: String,
    /// metadata.uid
    pub uid: String,
    /// metadata.resourceVersion: every write states it.
    pub resource_version: String,
    /// metadata.deletionTimestamp is set.
    pub deleting: bool,
    /// Those labels that matter here.
    pub labels: BTreeMap<String, String>,
    /// The addresses that the kubelet was told to use, as it wrote them.
    pub provided_ip: Option<String>,
    /// spec.providerID, unless it is empty.
    pub provider_id: Option<String>,
    /// spec.taints, all of them: they are written as a whole.
    pub taints: Vec<Taint>,
    /// status.addresses
    pub addresses: Vec<NodeAddress>,
    /// The condition Ready is True.
    pub ready: bool,
    /// The attach-detach controller has volumes attached to it.
    pub volumes_attached: bool,
}

impl Node {
    /// Name of the virtual machine that this node runs on: by its providerID, or, while that is not
    /// set, its own name. None for nodes of another provider, or of a machine that cannot be.
    #[must_use]
    pub fn machine(&self) -> Option<&str> {
        match self.provider_id.as_deref() {
            Some(id) => api::names::kubevirt_machine(id),
            None => Some(&self.name),
        }
    }

    /// [`Node::resource_version`] as a number.
    #[must_use]
    pub fn version(&self) -> u64 {
        number(&self.resource_version)
    }

    /// Whether there is a taint with this key.
    #[must_use]
    pub fn is_tainted(&self, key: &str) -> bool {
        self.taints.iter().any(|taint| taint.key == key)
    }

    /// Whether load balancers may lead here: as the service controller of k8s.io/cloud-provider
    /// chooses nodes (`stableNodeSetPredicates`).
    #[must_use]
    pub fn takes_traffic(&self) -> bool {
        !self.deleting
            && !self
                .labels
                .get(names::LABEL_EXCLUDE)
                .is_some_and(|value| is_yes(value))
            && !self.is_tainted(names::TAINT_TO_BE_DELETED)
    }
}

/// Whether a label of this value excludes: what Go's `strconv.ParseBool` does not take for false
/// (`nodeIncludedPredicate` of the service controller).
fn is_yes(value: &str) -> bool {
    !matches!(value, "0" | "f" | "F" | "false" | "False" | "FALSE")
}

impl From<&ApiNode> for Node {
    fn from(node: &ApiNode) -> Self {
        let meta = &node.metadata;
        let spec = node.spec.as_ref();
        let status = node.status.as_ref();
        let of_interest = |key: &str| {
            key == names::LABEL_EXCLUDE || names::TOPOLOGY.iter().any(|keys| keys.contains(&key))
        };
        let labels = meta.labels.iter().flatten();
        let annotations = meta.annotations.as_ref();
        let conditions = status.and_then(|s| s.conditions.as_ref());
        Self {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            labels: labels
                .filter(|(key, _)| of_interest(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            provided_ip: annotations.and_then(|a| a.get(names::ANNOTATION_PROVIDED_IP).cloned()),
            provider_id: spec
                .and_then(|s| s.provider_id.clone())
                .filter(|id| !id.is_empty()),
            taints: spec.and_then(|s| s.taints.clone()).unwrap_or_default(),
            addresses: status.and_then(|s| s.addresses.clone()).unwrap_or_default(),
            ready: conditions
                .into_iter()
                .flatten()
                .any(|c| c.type_ == "Ready" && c.status == "True"),
            volumes_attached: status
                .and_then(|s| s.volumes_attached.as_ref())
                .is_some_and(|volumes| !volumes.is_empty()),
        }
    }
}

/// A virtual machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vm {
    /// metadata.name
    pub name: String,
    /// metadata.uid
    pub uid: String,
    /// What virt-controller last said about there being an instance.
    pub created: bool,
    /// Zone, region and instance type, in the order of [`names::TOPOLOGY`].
    pub topology: [Option<String>; 3],
}

impl Vm {
    /// The zone that it is in.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        self.topology.first()?.as_deref()
    }
}

impl From<&VirtualMachine> for Vm {
    fn from(vm: &VirtualMachine) -> Self {
        let labels = vm.metadata.labels.as_ref();
        let status = vm.status.as_ref();
        Self {
            name: vm.metadata.name.clone().unwrap_or_default(),
            uid: vm.metadata.uid.clone().unwrap_or_default(),
            created: status.and_then(|s| s.created).unwrap_or(false),
            topology: names::TOPOLOGY.map(|keys| {
                let value = labels.and_then(|l| l.get(*keys.first()?));
                value.filter(|value| !value.is_empty()).cloned()
            }),
        }
    }
}

/// An instance of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    /// metadata.name: that of the virtual machine.
    pub name: String,
    /// metadata.uid
    pub uid: String,
    /// metadata.deletionTimestamp is set: it is being shut down.
    pub deleting: bool,
    /// How far it is.
    pub phase: Phase,
    /// It is paused (condition Paused).
    pub paused: bool,
    /// Addresses of the interface `default`, or of the first one: the primary one first.
    pub addresses: Vec<IpAddr>,
    /// The node of the management cluster that it is on.
    pub management_node: Option<String>,
}

/// status.phase of an instance, as far as it makes a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It runs.
    Running,
    /// It ended (Succeeded, Failed) and stays so.
    Ended,
    /// Anything else: it starts, or nobody knows.
    #[default]
    Other,
}

impl Instance {
    /// With the addresses that are believed: where they are published, those of this very instance, and none
    /// that it reports itself.
    #[must_use]
    pub fn located(self, published: Option<&PublishedAddresses>, by: MachineAddresses) -> Self {
        let of_it = published.filter(|published| published.instance == self.uid);
        let addresses = match by {
            MachineAddresses::Reported => self.addresses,
            MachineAddresses::Published => of_it
                .map(|of_it| of_it.addresses.clone())
                .unwrap_or_default(),
        };
        Self { addresses, ..self }
    }

    /// Whether new connections may be sent to it.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.phase == Phase::Running && !self.deleting && !self.paused
    }
}

impl From<&VirtualMachineInstance> for Instance {
    fn from(instance: &VirtualMachineInstance) -> Self {
        let status = instance.status.as_ref();
        let conditions = status.and_then(|s| s.conditions.as_ref());
        let phase = status.and_then(|s| s.phase.as_deref());
        Self {
            name: instance.metadata.name.clone().unwrap_or_default(),
            uid: instance.metadata.uid.clone().unwrap_or_default(),
            deleting: instance.metadata.deletion_timestamp.is_some(),
            phase: match phase {
                Some("Running") => Phase::Running,
                Some("Succeeded" | "Failed") => Phase::Ended,
                _ => Phase::Other,
            },
            paused: conditions
                .into_iter()
                .flatten()
                .any(|c| c.r#type == "Paused" && c.status == "True"),
            addresses: addresses(instance),
            management_node: status
                .and_then(|s| s.node_name.clone())
                .filter(|name| !name.is_empty()),
        }
    }
}

/// A machine that is no virtual machine, as the operator published it.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    /// What its node is called by its provider.
    pub provider_id: String,
    /// Addresses by which the tenant cluster knows it; no traffic is sent there.
    pub addresses: Vec<IpAddr>,
    /// Zone, region and instance type, in the order of [`names::TOPOLOGY`].
    pub topology: [Option<String>; 3],
    /// How far it is.
    pub state: RemoteState,
}

impl From<&RemoteMachine> for Remote {
    fn from(machine: &RemoteMachine) -> Self {
        let addresses = machine.addresses.iter();
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Self {
            provider_id: machine.provider_id.clone(),
            addresses: addresses.filter_map(|a| a.parse().ok()).collect(),
            topology: [
                text(&machine.zone),
                text(&machine.region),
                text(&machine.instance_type),
            ],
            state: machine.state,
        }
    }
}

/// A machine that traffic may be sent to, made of a node and its instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The tenant's node.
    pub node: Arc<str>,
    /// The virtual machine that it runs on.
    pub machine: Arc<str>,
    /// The node is Ready, with its kube-proxy, and its machine runs.
    pub ready: bool,
    /// The machine runs, or is just being shut down; the node may be anything.
    pub serving: bool,
    /// The machine is being shut down.
    pub terminating: bool,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The management cluster's node that it is on.
    pub management_node: Option<Arc<str>>,
    /// The zone of that node, as the operator wrote it on the virtual machine.
    pub zone: Option<Arc<str>>,
}

impl Target {
    /// None for a node that load balancers leave out, or a machine without an address. `zone`: of the
    /// machine; `proxied`: its kube-proxy has written its rules, as far as anybody tells.
    #[must_use]
    pub fn new(
        name: &Arc<str>,
        node: &Node,
        instance: &Instance,
        zone: Option<&str>,
        proxied: bool,
    ) -> Option<Self> {
        (node.takes_traffic() && !instance.addresses.is_empty()).then(|| Self {
            node: Arc::clone(name),
            machine: match *instance.name == **name {
                true => Arc::clone(name),
                false => instance.name.as_str().into(),
            },
            ready: node.ready && proxied && instance.serves(),
            serving: instance.phase == Phase::Running && !instance.paused,
            terminating: instance.deleting,
            addresses: instance.addresses.clone(),
            management_node: instance.management_node.as_deref().map(Into::into),
            zone: zone.map(Into::into),
        })
    }
}

/// Addresses that others can reach, in an order that does not change with the report's: the primary
/// one (`ipAddress`), then the rest sorted. Guest agents list all they find, link-local ones too.
fn addresses(instance: &VirtualMachineInstance) -> Vec<IpAddr> {
    let status = instance.status.as_ref();
    let interfaces = status
        .and_then(|s| s.interfaces.as_deref())
        .unwrap_or_default();
    let default = interfaces
        .iter()
        .find(|i| i.name.as_deref() == Some("default"));
    let Some(interface) = default.or(interfaces.first()) else {
        return Vec::new();
    };
    let parse = |text: &String| text.parse::<IpAddr>().ok().filter(is_reachable);
    let primary = interface.ip_address.as_ref().and_then(parse);
    let rest = interface.ip_addresses.iter().flatten().filter_map(parse);
    let mut rest: Vec<_> = rest.filter(|ip| Some(*ip) != primary).collect();
    rest.sort_unstable();
    rest.dedup();
    primary.into_iter().chain(rest).collect()
}

fn is_reachable(ip: &IpAddr) -> bool {
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !link_local && !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn instance(interfaces: &serde_json::Value) -> Instance {
        let object = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
            "metadata": { "name": "a" }, "spec": {}, "status": { "interfaces": interfaces },
        });
        Instance::from(&serde_json::from_value::<VirtualMachineInstance>(object).unwrap())
    }

    fn texts(instance: &Instance) -> Vec<String> {
        instance.addresses.iter().map(ToString::to_string).collect()
    }

    /// Findings D3 and S2: a guest's agent chooses what is reported.
    #[test]
    fn what_a_guest_reports_is_nothing_where_addresses_are_published() {
        let many: Vec<String> = (0..10_000)
            .map(|n| format!("10.9.{}.{}", n / 250, n % 250))
            .collect();
        let mut seen = instance(&json!([
            { "name": "default", "ipAddress": "10.96.0.1", "ipAddresses": many },
            { "name": "default", "ipAddress": "fd00::1" },
        ]));
        seen.uid = "u".to_owned();
        let published = |of: &str| PublishedAddresses {
            instance: of.to_owned(),
            node: "n".to_owned(),
            addresses: vec!["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()],
        };
        let located = |published: Option<&PublishedAddresses>| {
            let by = MachineAddresses::Published;
            texts(&seen.clone().located(published, by))
        };
        assert_eq!(located(Some(&published("u"))), ["10.0.0.5", "fd00::5"]);
        for nothing in [None, Some(&published("another"))] {
            assert_eq!(located(nothing), [""; 0]);
        }
    }

    #[test]
    fn all_families_of_the_default_interface_count_and_link_local_ones_do_not() {
        let seen = instance(&json!([
            { "name": "other", "ipAddress": "192.0.2.9" },
            {
                "name": "default", "ipAddress": "10.0.0.5",
                "ipAddresses": ["fe80::1", "2001:db8::5", "10.0.0.5", "169.254.1.1", "nonsense"],
            },
        ]));
        assert_eq!(texts(&seen), ["10.0.0.5", "2001:db8::5"]);
    }

    #[test]
    fn the_order_of_a_report_does_not_matter() {
        let one = instance(
            &json!([{ "ipAddress": "10.0.0.5", "ipAddresses": ["10.0.0.5", "b::1", "a::1"] }]),
        );
        let two = instance(
            &json!([{ "ipAddress": "10.0.0.5", "ipAddresses": ["a::1", "b::1", "10.0.0.5"] }]),
        );
        assert_eq!(one, two);
        assert_eq!(texts(&one), ["10.0.0.5", "a::1", "b::1"]);
    }

    #[test]
    fn machine_of_a_node_is_named_by_its_provider_id_dots_included() {
        let node = |id: Option<&str>| Node {
            name: "n".to_owned(),
            provider_id: id.map(ToOwned::to_owned),
            ..Node::default()
        };
        assert_eq!(node(None).machine(), Some("n"));
        assert_eq!(node(Some("kubevirt://a.b-c")).machine(), Some("a.b-c"));
        assert_eq!(node(Some("kubevirt://")).machine(), None);
        assert_eq!(node(Some("aws:///x/i-1")).machine(), None);
    }

    #[test]
    fn what_no_machine_can_be_called_is_never_asked_for() {
        let long = format!("kubevirt://{}", "a".repeat(254));
        for id in [
            "kubevirt://?watch=1",
            "kubevirt://a?watch=1",
            "kubevirt://../virtualmachines/b",
            "kubevirt://a/b",
            "kubevirt://..",
            "kubevirt://a%2fb",
            "kubevirt://A",
            "kubevirt://-a",
            "kubevirt://a.",
            long.as_str(),
        ] {
            let node = Node {
                provider_id: Some(id.to_owned()),
                ..Node::default()
            };
            assert_eq!(node.machine(), None, "{id}");
        }
    }
}
