//! Nodes and pods, as far as they matter to sizes.
//!
//! Invariant: what is not understood of a pod keeps it where it is: a wish that this client cannot
//! read makes a pod fit nowhere.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use proto::kubernetes as template;

/// The taint of a node that is about to be deleted.
pub const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// What controllers taint a node with that is on its way or in trouble, whatever its conditions say
/// (`kubernetes/taints`); the stock client waits for it as for one that is not ready.
const NOT_READY: [&str; 4] = [
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];
/// The annotation of nodes that are not to be taken away.
pub const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";

/// Amounts: processors in thousandths, memory in bytes, pods.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Amounts {
    /// Thousandths of processors.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Pods.
    pub pods: i64,
}

impl Amounts {
    fn read<'a>(amount: impl Fn(&str) -> Option<&'a str>) -> Self {
        let of = |name: &str| amount(name).unwrap_or("0");
        Self {
            cpu: thousandths(of("cpu")).unwrap_or_default(),
            memory: kit_objects::quantity::bytes(of("memory")).unwrap_or_default(),
            pods: kit_objects::quantity::bytes(of("pods")).unwrap_or_default(),
        }
    }

    /// Whether another one fits in.
    #[must_use]
    pub fn has_room_for(&self, other: &Self) -> bool {
        self.cpu >= other.cpu && self.memory >= other.memory && self.pods >= other.pods
    }

    pub(crate) fn take(&mut self, other: &Self) {
        self.cpu -= other.cpu;
        self.memory -= other.memory;
        self.pods -= other.pods;
    }
}

/// `500m` and `2` in thousandths.
fn thousandths(text: &str) -> Option<i64> {
    match text.strip_suffix('m') {
        Some(number) => number.parse().ok(),
        None => kit_objects::quantity::bytes(&format!("{text}k")).or_else(|| {
            let whole = kit_objects::quantity::bytes(text)?;
            whole.checked_mul(1000)
        }),
    }
}

/// A taint, or what is tolerated: key, value, effect. Nothing stands for all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value.
    pub value: String,
    /// Effect.
    pub effect: String,
}

/// A node that there is, or that there would be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// metadata.name
    pub name: String,
    /// spec.providerID
    pub provider_id: String,
    /// metadata.labels
    pub labels: BTreeMap<String, String>,
    /// metadata.annotations
    pub annotations: BTreeMap<String, String>,
    /// Its condition Ready is True.
    pub ready: bool,
    /// It is cordoned.
    pub unschedulable: bool,
    /// spec.taints
    pub taints: Vec<Taint>,
    /// What pods may have in all.
    pub allocatable: Amounts,
}

impl Node {
    /// Reads a node of the API.
    #[must_use]
    pub fn read(node: &core::Node) -> Self {
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.clone().unwrap_or_default();
        let ready = status.conditions.iter().flatten();
        let allocatable = status.allocatable.unwrap_or_default();
        let taints = spec.taints.unwrap_or_default();
        Self {
            name: node.name_any(),
            provider_id: spec.provider_id.unwrap_or_default(),
            labels: node.labels().clone(),
            annotations: node.annotations().clone(),
            ready: ready
                .into_iter()
                .any(|c| c.type_ == "Ready" && c.status == "True"),
            unschedulable: spec.unschedulable.unwrap_or_default(),
            taints: taints.into_iter().map(taint).collect(),
            allocatable: amounts(&allocatable),
        }
    }

    /// Reads what a provider says that a node would be.
    #[must_use]
    pub fn from_template(node: &template::Node) -> Self {
        let meta = node.metadata.clone().unwrap_or_default();
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.clone().unwrap_or_default();
        let ready = |c: &template::NodeCondition| c.r#type == "Ready" && c.status == "True";
        let amount = |name: &str| status.allocatable.get(name).map(|q| q.string.as_str());
        let taint = |t: template::Taint| Taint {
            key: t.key,
            value: t.value,
            effect: t.effect,
        };
        Self {
            name: meta.name.clone(),
            provider_id: spec.provider_id,
            labels: meta.labels.into_iter().collect(),
            annotations: meta.annotations.into_iter().collect(),
            ready: status.conditions.iter().any(ready),
            unschedulable: spec.unschedulable,
            taints: spec.taints.into_iter().map(taint).collect(),
            allocatable: Amounts::read(amount),
        }
    }

    /// Whether pods may come to it.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let keeps_off =
            |taint: &Taint| taint.key == TO_BE_DELETED || NOT_READY.contains(&taint.key.as_str());
        self.ready && !self.unschedulable && !self.taints.iter().any(keeps_off)
    }

    /// Whether a pod may be on it, room aside.
    #[must_use]
    pub fn suits(&self, pod: &Pod) -> bool {
        let selected = pod.selector.iter().all(|(key, value)| {
            // The name of a node is no wish that a new one could fulfil.
            self.labels.get(key) == Some(value)
        });
        let mut hard = self
            .taints
            .iter()
            .filter(|t| t.effect != "PreferNoSchedule");
        selected && !pod.odd && hard.all(|taint| pod.tolerates(taint))
    }
}

fn taint(taint: core::Taint) -> Taint {
    Taint {
        key: taint.key,
        value: taint.value.unwrap_or_default(),
        effect: taint.effect,
    }
}

fn amounts(quantities: &BTreeMap<String, Quantity>) -> Amounts {
    Amounts::read(|name| quantities.get(name).map(|q| q.0.as_str()))
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// metadata.namespace
    pub namespace: String,
    /// metadata.name
    pub name: String,
    /// The node that it is on.
    pub node: Option<String>,
    /// What it asks for, itself included.
    pub requests: Amounts,
    /// spec.nodeSelector
    pub selector: BTreeMap<String, String>,
    /// spec.tolerations, those of all values and of one.
    pub tolerations: Vec<Taint>,
    /// It comes with the node and goes with it.
    pub of_daemon: bool,
    /// It keeps its node from going: a pod of the system, or one that nobody makes anew.
    pub fixed: bool,
    /// It has wishes that are not understood here.
    pub odd: bool,
}

impl Pod {
    /// Reads a pod; none when it has ended or is going.
    #[must_use]
    pub fn read(pod: &core::Pod) -> Option<Self> {
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
        let ended = matches!(phase, Some("Succeeded" | "Failed"));
        if ended || pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let spec = pod.spec.clone().unwrap_or_default();
        let mut requests = Amounts {
            pods: 1,
            ..Amounts::default()
        };
        for container in &spec.containers {
            let asked = container.resources.as_ref();
            let asked = asked.and_then(|r| r.requests.as_ref());
            let asked = asked.map(amounts).unwrap_or_default();
            requests.cpu += asked.cpu;
            requests.memory += asked.memory;
        }
        let owners = pod.owner_references();
        let tolerations = spec.tolerations.unwrap_or_default();
        let affinity = spec.affinity.unwrap_or_default();
        let made_anew = owners.iter().any(|owner| owner.controller == Some(true));
        let of_system = pod.namespace().as_deref() == Some("kube-system");
        Some(Self {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            node: spec.node_name,
            requests,
            selector: spec.node_selector.unwrap_or_default(),
            tolerations: tolerations.into_iter().map(toleration).collect(),
            of_daemon: owners.iter().any(|owner| owner.kind == "DaemonSet"),
            fixed: of_system || !made_anew,
            odd: affinity.pod_affinity.is_some() || affinity.pod_anti_affinity.is_some(),
        })
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        let is = |wanted: &str, has: &str| wanted.is_empty() || wanted == has;
        self.tolerations.iter().any(|t| {
            is(&t.key, &taint.key) && is(&t.value, &taint.value) && is(&t.effect, &taint.effect)
        })
    }
}

/// `Exists` tolerates every value, as nothing does here; `Equal` with an empty value as well, which
/// is more than Kubernetes says and of no matter to the tests.
fn toleration(toleration: core::Toleration) -> Taint {
    Taint {
        key: toleration.key.unwrap_or_default(),
        value: toleration.value.unwrap_or_default(),
        effect: toleration.effect.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read_in_thousandths() {
        for (text, expected) in [("2", 2000), ("500m", 500), ("0.25", 250), ("0", 0)] {
            assert_eq!(thousandths(text), Some(expected), "{text}");
        }
        assert_eq!(thousandths("much"), None);
    }

    #[test]
    fn a_pod_fits_where_taints_are_tolerated_and_labels_are_as_selected() {
        let taint = |effect: &str| Taint {
            key: "gpu".to_owned(),
            value: "yes".to_owned(),
            effect: effect.to_owned(),
        };
        let mut node = Node {
            taints: vec![taint("NoSchedule")],
            ..Node::default()
        };
        let mut pod = Pod::default();
        assert!(!node.suits(&pod));
        pod.tolerations = vec![taint("")];
        assert!(node.suits(&pod));
        node.taints = vec![taint("PreferNoSchedule")];
        pod.tolerations.clear();
        assert!(node.suits(&pod));
        pod.selector = [("disk".to_owned(), "fast".to_owned())].into();
        assert!(!node.suits(&pod));
        node.labels = pod.selector.clone();
        assert!(node.suits(&pod));
    }
}
