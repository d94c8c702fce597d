//! Whether the management cluster has room for one machine more, and if not, what is missing.
//!
//! Invariant: pure; the same cache gives the same answer, in words too; "fits" is said only where a
//! single node has everything, as far as requests of pods tell.

use api::Reason;
use k8s_openapi::api::core::v1::Toleration;
use providers::Needs;

use super::cache::Cache;
use super::read::{Amount, Node, ONE, THOUSANDTH, Taint};

/// The answer for one machine more.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Answer {
    /// Not everything has been listed yet, or there is nothing to be said about such a machine.
    #[default]
    Unknown,
    /// There is capacity.
    Fits,
    /// No node has capacity.
    NoRoom(Shortage),
    /// A quota of the tenant namespace is used up.
    QuotaExhausted(Exhausted),
}

/// What nodes have left.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Shortage {
    /// What a machine takes.
    pub needs: Amount,
    /// Labels that a node must have, as `key=value`.
    pub labels: Vec<String>,
    /// The most that is left, of each, on one of the nodes that take such machines; none when no node
    /// does.
    pub left: Option<Amount>,
    /// Whether one of these has a place for a pod.
    pub places: bool,
}

/// What a quota lacks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exhausted {
    /// Namespace and name of the quota.
    pub quota: (String, String),
    /// What it is about.
    pub resource: String,
    /// What a machine takes of it.
    pub needs: String,
    /// What there is.
    pub used: String,
    /// What there may be.
    pub hard: String,
}

impl Answer {
    /// Whether there is capacity, and the reason of the condition; none while nothing is known.
    #[must_use]
    pub fn said(&self) -> Option<(bool, Reason)> {
        match self {
            Self::Unknown => None,
            Self::Fits => Some((true, Reason::Fits)),
            Self::NoRoom(_) => Some((false, Reason::NoRoom)),
            Self::QuotaExhausted(_) => Some((false, Reason::QuotaExhausted)),
        }
    }

    /// For people: what is missing, and how to mend it.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::Unknown => String::new(),
            Self::Fits => "the management cluster has room for one machine more".to_owned(),
            Self::NoRoom(shortage) => shortage.message(),
            Self::QuotaExhausted(exhausted) => exhausted.message(),
        }
    }
}

impl Shortage {
    fn message(&self) -> String {
        let Some(left) = self.left else {
            return format!(
                "no node of the management cluster takes such a machine: none has {} without a taint \
                 that keeps it away; look at them with kubectl get nodes --show-labels",
                self.labels.join(" and ")
            );
        };
        let places = match self.places {
            true => "",
            false => "; none has a place for another pod",
        };
        format!(
            "one machine more takes {} of cpu, {} of memory and {} of ephemeral-storage, and no node of \
             the management cluster has all of it left: the most on one is {}, {} and {}{places}; add \
             nodes, or make the machines smaller (spec.provider)",
            cores(self.needs.cpu),
            mebibytes(self.needs.memory, true),
            mebibytes(self.needs.storage, true),
            cores(left.cpu),
            mebibytes(left.memory, false),
            mebibytes(left.storage, false),
        )
    }
}

impl Exhausted {
    fn message(&self) -> String {
        let (namespace, name) = &self.quota;
        format!(
            "one machine more takes {} of {}, and ResourceQuota {namespace}/{name} of the management \
             cluster has {} of {} used; raise it, or make other node pools of this tenant cluster \
             smaller",
            self.needs, self.resource, self.used, self.hard
        )
    }
}

pub(crate) fn cores(thousandths: i64) -> String {
    format!("{}m", thousandths.max(0))
}

pub(crate) fn mebibytes(bytes: i64, up: bool) -> String {
    let (whole, rest) = (bytes.max(0) >> 20, bytes.max(0) & 0xF_FFFF);
    format!("{}Mi", whole + i64::from(up && rest > 0))
}

/// Whether a machine with these needs fits, in this tenant namespace.
#[must_use]
pub fn decide(cache: &Cache, needs: &Needs, namespace: &str) -> Answer {
    // A management cluster without a single node is one whose nodes are not to be seen.
    if !cache.is_listed() || cache.nodes().next().is_none() {
        return Answer::Unknown;
    }
    // The API server refuses before a scheduler looks.
    if let Some(exhausted) = exhausted(cache, needs, namespace) {
        return Answer::QuotaExhausted(exhausted);
    }
    let takes = Amount {
        cpu: needs.cpu,
        memory: needs.memory,
        storage: needs.storage,
    };
    let mut left: Option<Amount> = None;
    let mut places = false;
    for (node, slot) in cache.nodes().filter(|(node, _)| takes_such(node, needs)) {
        let free = node.allocatable.minus(slot.taken);
        let place = slot.pods < node.pods;
        if place && free.holds(takes) {
            return Answer::Fits;
        }
        left = Some(left.map_or(free, |left| left.max(free)));
        places |= place;
    }
    let labels = needs.node_labels.iter();
    Answer::NoRoom(Shortage {
        needs: takes,
        labels: labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect(),
        left,
        places,
    })
}

/// As [`decide`], for something that may ask for any label: nobody knows which nodes have one that is not kept.
#[must_use]
pub fn decide_by_what_is_kept(cache: &Cache, needs: &Needs, namespace: &str) -> Answer {
    let is_kept = needs.node_labels.keys().all(|label| cache.keeps(label));
    match decide(cache, needs, namespace) {
        Answer::NoRoom(_) if !is_kept => Answer::Unknown,
        answer => answer,
    }
}

fn exhausted(cache: &Cache, needs: &Needs, namespace: &str) -> Option<Exhausted> {
    let mut all = cache.quotas(namespace).flat_map(|(name, quota)| {
        let limits = quota.iter();
        limits.map(move |(resource, limit)| (name, resource, limit))
    });
    all.find_map(|(name, resource, (hard, used))| {
        let (more, text) = counted(needs, resource)?;
        let [most, there] = [hard, used].map(|text| kit_objects::quantity::billionths(text));
        let over = there?.checked_add(more)? > most?;
        over.then(|| Exhausted {
            quota: (namespace.to_owned(), name.to_owned()),
            resource: resource.clone(),
            needs: text,
            used: used.clone(),
            hard: hard.clone(),
        })
    })
}

/// What a quota counts of a resource for one machine, in billionths and in words. Limits are no less
/// than requests.
fn counted(needs: &Needs, resource: &str) -> Option<(i128, String)> {
    match resource {
        "cpu" | "requests.cpu" | "limits.cpu" => {
            Some((i128::from(needs.cpu) * THOUSANDTH, cores(needs.cpu)))
        }
        "memory" | "requests.memory" | "limits.memory" => {
            let text = mebibytes(needs.memory, true);
            Some((i128::from(needs.memory) * ONE, text))
        }
        "ephemeral-storage" | "requests.ephemeral-storage" | "limits.ephemeral-storage" => {
            let text = mebibytes(needs.storage, true);
            Some((i128::from(needs.storage) * ONE, text))
        }
        _ => needs
            .objects
            .contains(&resource)
            .then(|| (ONE, "1".to_owned())),
    }
}

fn takes_such(node: &Node, needs: &Needs) -> bool {
    let labelled = |(key, value): (&String, &String)| node.labels.get(key) == Some(value);
    let tolerated = |taint: &Taint| needs.tolerations.iter().any(|t| tolerates(t, taint));
    needs.node_labels.iter().all(labelled) && node.taints.iter().all(tolerated)
}

/// As Kubernetes judges it (`Toleration.ToleratesTaint`): what a toleration leaves out, it tolerates
/// any of; without an operator the values are compared.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let any = |field: &Option<String>, value: &str| {
        let wanted = text(field);
        wanted.is_empty() || wanted == value
    };
    let value = match text(&toleration.operator).as_str() {
        "" | "Equal" => text(&toleration.value) == taint.value,
        "Exists" => true,
        // Another operator (KEP-5471 compares numbers) is not known here.
        _ => false,
    };
    any(&toleration.effect, &taint.effect) && any(&toleration.key, &taint.key) && value
}
