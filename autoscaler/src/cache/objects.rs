//! Objects of the cache: a few fields of each pool, machine and node. Pure.
//!
//! Invariant: made from API objects without fail; what an object leaves out is the value that lets
//! less happen (a machine is on its way, a pool does not roll).

use std::collections::BTreeSet;

use api::machine::MachinePhase;
use api::names::{
    ANNOTATION_DELETE_MACHINE, ANNOTATION_SCALE_DOWN_DISABLED, ANNOTATION_SCALE_DOWN_DISABLED_BY,
    LABEL_REGION, LABEL_ZONE, kubevirt_provider_id,
};
use api::node_pool::{Autoscaling, ProviderKind, Refused};
use api::{ConditionType, Reason, condition::is_true};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit_client::errors::OVER_QUOTA;
use kube::Resource as _;
use kube::api::ObjectMeta;

use super::shape::{self, Shape};
use crate::names::SCALE_DOWN_DISABLED_BY_US;

/// Which state of an object it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// UID.
    pub uid: String,
    /// As the API wrote it.
    pub text: String,
    /// The same as a number, to compare (KEP-5504: versions of one resource are ordered).
    pub number: u64,
}

impl Version {
    fn of(meta: &ObjectMeta) -> Self {
        let text = meta.resource_version.clone().unwrap_or_default();
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            number: text.parse().unwrap_or(0),
            text,
        }
    }
}

/// A NodePool.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// metadata.name
    pub name: String,
    /// Which state of it.
    pub version: Version,
    /// metadata.generation: which spec of it.
    pub generation: i64,
    /// What was refused of this very spec.
    pub refused: Option<Refused>,
    /// What the autoscaler may make of it; none: nothing at all.
    pub autoscaling: Option<Autoscaling>,
    /// spec.replicas, 0 or more.
    pub replicas: i32,
    /// Machines that the last write named: they go.
    pub named: BTreeSet<String>,
    /// It is being deleted.
    pub going: bool,
    /// It is known what a node of it offers, as far as anybody knows.
    pub told: bool,
    /// Most machines that its locations may have together; none where that is no limit.
    pub most: Option<i32>,
    /// Machines that stay, as the operator counted them last.
    pub counted: i32,
    /// Whether machines are being replaced by newer ones; none while the operator has not looked at
    /// the newest spec.
    pub rolling: Option<bool>,
    /// The management cluster has no room, or no quota, for one machine more, or no location of the pool may
    /// have one, as the operator saw it last.
    pub full: bool,
    /// Size, labels and taints of a node.
    pub shape: Shape,
    /// What it is called as a node group: a pool of another shape is another group.
    pub group: String,
}

impl Pool {
    /// Reads a NodePool.
    #[must_use]
    pub fn read(pool: &api::NodePool) -> Self {
        let meta = &pool.metadata;
        let name = meta.name.clone().unwrap_or_default();
        let annotations = meta.annotations.as_ref();
        let named = annotations.and_then(|a| a.get(ANNOTATION_DELETE_MACHINE));
        let named = named.into_iter().flat_map(|text| text.split(','));
        let named = named.map(str::trim).filter(|name| !name.is_empty());
        let status = pool.status.as_ref();
        let node = Shape::of(pool);
        Self {
            version: Version::of(meta),
            generation: meta.generation.unwrap_or_default(),
            refused: Refused::of(meta),
            autoscaling: pool.spec.autoscaling.clone(),
            replicas: pool.spec.replicas.max(0),
            named: named.map(str::to_owned).collect(),
            going: meta.deletion_timestamp.is_some(),
            told: shape::is_told(pool),
            most: shape::most(pool),
            counted: status.map_or(0, |s| s.replicas),
            rolling: rolling(pool),
            full: is_full(pool),
            group: format!("{name}.{}", node.hash()),
            shape: node,
            name,
        }
    }

    /// What Events name.
    #[must_use]
    pub fn reference(&self, namespace: &str) -> ObjectReference {
        ObjectReference {
            api_version: Some(api::NodePool::api_version(&()).into_owned()),
            kind: Some(api::NodePool::kind(&()).into_owned()),
            name: Some(self.name.clone()),
            namespace: Some(namespace.to_owned()),
            uid: Some(self.version.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

/// One that cannot be carried out has no machine that counts as updated, and rolls all the same not.
fn rolling(pool: &api::NodePool) -> Option<bool> {
    let status = pool.status.as_ref()?;
    if status.observed_generation < pool.metadata.generation {
        return None;
    }
    // One whose locations are full is carried out as far as it can be.
    let is_full = status
        .conditions
        .iter()
        .any(|c| c.reason == Reason::LocationsFull);
    let is_degraded = is_true(&status.conditions, ConditionType::Degraded) && !is_full;
    let stuck = status.updated_replicas == 0 && is_degraded;
    Some(status.updated_replicas < status.replicas && !stuck)
}

fn is_full(pool: &api::NodePool) -> bool {
    let mut conditions = pool.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|c| {
        let has_no_room = c.type_ == ConditionType::Capacity.as_str() && c.status == "False";
        has_no_room || c.reason == Reason::LocationsFull
    })
}

/// A Machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// metadata.name, which its node has too.
    pub name: String,
    /// What the client knows it by: what its node has as `spec.providerID`, or will have. While nobody knows that, a
    /// name of ours ([`PLACEHOLDER`] and its UID).
    pub id: String,
    /// Which state of it.
    pub version: Version,
    /// The NodePool that made it.
    pub pool: String,
    /// It is on its way out, whatever was asked of us.
    pub going: bool,
    /// Its node has been ready.
    pub running: bool,
    /// What keeps it from becoming a node.
    pub trouble: Option<Trouble>,
}

/// What keeps a machine from becoming a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// There is no room for it, or no quota: another pool may have some.
    pub exhausted: bool,
    /// PascalCase.
    pub reason: String,
    /// What is wrong.
    pub message: String,
}

/// What the id of a machine begins with whose provider has not said yet what it is called.
pub const PLACEHOLDER: &str = "covey://";

/// What a virtual machine is called that is on its way, or on its way out
/// (`operator/src/controllers/machine/plan/conditions.rs`); every other reason is a failure.
const HARMLESS: [Reason; 4] = [
    Reason::VirtualMachineNotCreated,
    Reason::Deleting,
    Reason::Starting,
    Reason::Stopped,
];
/// No node of the management cluster has room (`provider_kubevirt::describe`).
const UNSCHEDULABLE: Reason = Reason::Unschedulable;

impl Machine {
    /// Reads a Machine; none when it is of another tenant cluster.
    #[must_use]
    pub fn read(machine: &api::Machine, cluster_uid: &str) -> Option<Self> {
        if machine.spec.cluster_uid != cluster_uid {
            return None;
        }
        let status = machine.status.as_ref();
        let phase = status.and_then(|s| s.phase).unwrap_or_default();
        let conditions = status.map(|s| s.conditions.as_slice()).unwrap_or_default();
        let leaves = matches!(phase, MachinePhase::Draining | MachinePhase::Deleting);
        let running = phase == MachinePhase::Running;
        Some(Self {
            id: id(machine),
            name: machine.metadata.name.clone().unwrap_or_default(),
            version: Version::of(&machine.metadata),
            pool: machine.spec.pool_name.clone(),
            going: machine.metadata.deletion_timestamp.is_some() || leaves,
            running,
            trouble: match running {
                true => None,
                false => trouble(phase, conditions),
            },
        })
    }
}

/// As the operator recorded it; before that, as KubeVirt's machines are called from the start.
fn id(machine: &api::Machine) -> String {
    let recorded = machine.status.as_ref().and_then(|s| s.provider_id.clone());
    recorded.unwrap_or_else(|| match machine.spec.provider.kind() {
        Some(ProviderKind::KubeVirt) => {
            let name = machine.metadata.name.as_deref();
            kubevirt_provider_id(name.unwrap_or_default())
        }
        Some(
            ProviderKind::Static
            | ProviderKind::Hetzner
            | ProviderKind::Gcp
            | ProviderKind::Azure
            | ProviderKind::Aws,
        )
        | None => {
            let uid = machine.metadata.uid.as_deref();
            format!("{PLACEHOLDER}{}", uid.unwrap_or_default())
        }
    })
}

fn trouble(phase: MachinePhase, conditions: &[Condition]) -> Option<Trouble> {
    let wrong = |type_: ConditionType| {
        let mut all = conditions.iter();
        all.find(|c| c.type_ == type_.as_str() && c.status == "False")
    };
    let machine = wrong(ConditionType::VirtualMachineReady)
        .filter(|c| !HARMLESS.iter().any(|harmless| c.reason == *harmless));
    // A virtual machine that could not even be made shows in the summary alone.
    let summary = wrong(ConditionType::Ready)
        .filter(|c| phase == MachinePhase::Failed || c.message.contains(OVER_QUOTA));
    let said = |c: &Condition| Trouble {
        exhausted: c.reason == UNSCHEDULABLE || c.message.contains(OVER_QUOTA),
        reason: c.reason.clone(),
        message: c.message.clone(),
    };
    let failed = || Trouble {
        exhausted: false,
        reason: MachinePhase::Failed.as_str().to_owned(),
        message: "the machine will not become a node any more".to_owned(),
    };
    let known = machine.or(summary).map(said);
    known.or_else(|| (phase == MachinePhase::Failed).then(failed))
}

/// A node of the tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// metadata.name
    pub name: String,
    /// Which state of it.
    pub version: Version,
    /// The label of its zone.
    pub zone: Option<String>,
    /// The label of its region.
    pub region: Option<String>,
    /// It carries [`ANNOTATION_SCALE_DOWN_DISABLED`].
    pub disabled: bool,
    /// It carries [`ANNOTATION_SCALE_DOWN_DISABLED_BY`] with our name.
    pub by_us: bool,
}

impl Node {
    /// Reads what a node's metadata says.
    #[must_use]
    pub fn read(meta: &ObjectMeta) -> Self {
        let label = |name: &str| meta.labels.as_ref()?.get(name).cloned();
        let annotation = |name: &str| meta.annotations.as_ref()?.get(name);
        Self {
            name: meta.name.clone().unwrap_or_default(),
            version: Version::of(meta),
            zone: label(LABEL_ZONE),
            region: label(LABEL_REGION),
            disabled: annotation(ANNOTATION_SCALE_DOWN_DISABLED).is_some(),
            by_us: annotation(ANNOTATION_SCALE_DOWN_DISABLED_BY)
                .is_some_and(|by| by == SCALE_DOWN_DISABLED_BY_US),
        }
    }
}

#[cfg(test)]
mod tests;
