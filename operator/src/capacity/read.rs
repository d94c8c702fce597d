//! From an object to the little that is kept of it.
//!
//! Invariant: total; what cannot be read counts as nothing where it would be capacity, and as nothing
//! where it would be used, because the API server lets neither in.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ScopedResourceSelectorRequirement as Requirement;

use super::kinds::{self, Amounts, Container};

/// Processors, memory and the node's own disk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Amount {
    /// Thousandths of a core.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes of the node's own disk (`ephemeral-storage`).
    pub storage: i64,
}

impl Amount {
    /// All together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
            storage: self.storage.saturating_add(other.storage),
        }
    }

    /// What is left of it.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(other.cpu),
            memory: self.memory.saturating_sub(other.memory),
            storage: self.storage.saturating_sub(other.storage),
        }
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.max(other.cpu),
            memory: self.memory.max(other.memory),
            storage: self.storage.max(other.storage),
        }
    }

    /// Whether there is so much of each.
    #[must_use]
    pub fn holds(self, other: Self) -> bool {
        self.cpu >= other.cpu && self.memory >= other.memory && self.storage >= other.storage
    }
}

/// A node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Node {
    /// What pods may have of it, rounded down.
    pub allocatable: Amount,
    /// How many pods it may have.
    pub pods: i64,
    /// Those of its labels that machines may ask for.
    pub labels: BTreeMap<String, String>,
    /// What keeps pods away that do not tolerate it.
    pub taints: Vec<Taint>,
}

/// What keeps pods away that do not tolerate it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value; empty for none.
    pub value: String,
    /// `NoSchedule` or `NoExecute`.
    pub effect: String,
}

/// What a node is called that was cordoned (kube-scheduler's plugin NodeUnschedulable asks whether a
/// pod tolerates it, wherever it stands).
const CORDONED: &str = "node.kubernetes.io/unschedulable";

impl Node {
    /// Reads a node, with those of its labels that are asked for.
    #[must_use]
    pub fn read(node: &kinds::Node, asked: &BTreeSet<String>) -> Self {
        let labels = node.metadata.labels.iter().flatten();
        let labels = labels.filter(|(key, _)| asked.contains(*key));
        let hard = |effect: &str| matches!(effect, "NoSchedule" | "NoExecute");
        let taints = node.spec.taints.iter().filter(|t| hard(&t.effect));
        let mut taints: Vec<_> = taints
            .map(|t| Taint {
                key: t.key.clone(),
                value: t.value.clone().unwrap_or_default(),
                effect: t.effect.clone(),
            })
            .collect();
        if node.spec.unschedulable {
            taints.push(Taint {
                key: CORDONED.to_owned(),
                value: String::new(),
                effect: "NoSchedule".to_owned(),
            });
        }
        taints.sort();
        taints.dedup();
        let allocatable = &node.status.allocatable;
        let down = |text: &Option<api::Quantity>, unit: i128| {
            let text = text.as_ref().map_or("0", |quantity| quantity.0.as_str());
            let nanos = kit_objects::quantity::billionths(text).unwrap_or_default();
            whole(nanos.div_euclid(unit))
        };
        Self {
            allocatable: Amount {
                cpu: down(&allocatable.cpu, THOUSANDTH),
                memory: down(&allocatable.memory, ONE),
                storage: down(&allocatable.ephemeral_storage, ONE),
            },
            pods: down(&allocatable.pods, ONE),
            labels: labels.map(|(k, v)| (k.clone(), v.clone())).collect(),
            taints,
        }
    }
}

/// One, in billionths.
pub(super) const ONE: i128 = 1_000_000_000;
/// One thousandth, in billionths.
pub(super) const THOUSANDTH: i128 = 1_000_000;

fn whole(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What a pod takes of the node that it is on, rounded up; none for one that is on no node, or that
/// is over.
#[must_use]
pub fn taken(pod: &kinds::Pod) -> Option<(&str, Amount)> {
    let over = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let node = pod
        .spec
        .node_name
        .as_deref()
        .filter(|node| !node.is_empty());
    let node = node.filter(|_| !over)?;
    Some((node, asked(&pod.spec)))
}

/// What a pod asks of a node, rounded up.
#[must_use]
pub fn asked(spec: &kinds::PodSpec) -> Amount {
    let of = |container: &Container| amount(&container.resources.requests);
    let mut running = Amount::default();
    let mut most = Amount::default();
    // Init containers run one after another, each beside those before it that run on.
    for container in &spec.init_containers {
        if container.restart_policy.as_deref() == Some("Always") {
            running = running.plus(of(container));
            most = most.max(running);
        } else {
            most = most.max(running.plus(of(container)));
        }
    }
    let containers = spec.containers.iter().map(of);
    let all = containers.fold(running, Amount::plus).max(most);
    let whole = &spec.resources.requests;
    let given = amount(whole);
    let asked = Amount {
        cpu: whole.cpu.as_ref().map_or(all.cpu, |_| given.cpu),
        memory: whole.memory.as_ref().map_or(all.memory, |_| given.memory),
        // A pod as a whole cannot ask for it.
        storage: all.storage,
    };
    asked.plus(amount(&spec.overhead))
}

fn amount(amounts: &Amounts) -> Amount {
    let up = |text: &Option<api::Quantity>, unit: i128| {
        let text = text.as_ref().map_or("0", |quantity| quantity.0.as_str());
        let nanos = kit_objects::quantity::billionths(text)
            .unwrap_or_default()
            .max(0);
        whole(nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) > 0))
    };
    Amount {
        cpu: up(&amounts.cpu, THOUSANDTH),
        memory: up(&amounts.memory, ONE),
        storage: up(&amounts.ephemeral_storage, ONE),
    }
}

/// What a quota allows of each resource, and what there is: `(hard, used)`, as they were written. The
/// API server refuses by these, not by the specification.
pub type Quota = BTreeMap<String, (String, String)>;

/// Reads a quota; none for one that does not count machines, or whose controller has not counted yet.
#[must_use]
pub fn quota(quota: &kinds::ResourceQuota) -> Option<Quota> {
    let spec = &quota.spec;
    let selector = spec.scope_selector.as_ref();
    let selected = selector.and_then(|s| s.match_expressions.as_ref());
    let counts = spec.scopes.iter().all(|scope| has(scope, "Exists"))
        && selected.into_iter().flatten().all(matches_machines);
    if !counts {
        return None;
    }
    let status = &quota.status;
    let limits = status.hard.iter().filter_map(|(resource, hard)| {
        let used = status.used.get(resource)?;
        Some((resource.clone(), (hard.0.clone(), used.0.clone())))
    });
    Some(limits.collect::<Quota>()).filter(|limits| !limits.is_empty())
}

fn matches_machines(requirement: &Requirement) -> bool {
    has(&requirement.scope_name, &requirement.operator)
}

/// Whether the pod of a machine is in a scope: it has no deadline, asks for something, is of no
/// priority class of its own, and seeks nobody's neighbourhood in another namespace. A scope that is
/// not known here says nothing about machines.
fn has(scope: &str, operator: &str) -> bool {
    match scope {
        "NotTerminating" | "NotBestEffort" => operator == "Exists",
        "PriorityClass" => matches!(operator, "DoesNotExist" | "NotIn"),
        _ => false,
    }
}
