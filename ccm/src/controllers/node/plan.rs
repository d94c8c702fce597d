//! Plan of one node: from one observation to the next step. No I/O, no clock, no chance.
//!
//! Initialisation: addresses → providerID and labels, and the taint off in one write. Life:
//! addresses and labels follow the machine, taints say when it is off. End: the Node goes when
//! virtual machine and instance are gone.
//!
//! **When a machine is proven dead.** KubeVirt keeps an instance object by a finalizer until it is
//! final (Succeeded, Failed) *and* no pod controlled by it exists any more
//! (`pkg/virt-controller/watch/vmi/lifecycle.go`: `allPodsDeleted`); a new instance of the same name
//! cannot be made before. A pod object in turn goes only once its kubelet said that the containers
//! ended, or an administrator of the management cluster vouched for it (deleted it by force, deleted
//! its Node, or declared that out of service). So an instance that is not there means that no qemu
//! of it runs and writes to its volumes. Hot-plugged volumes are held by pods owned by the launcher;
//! those may outlive it for a moment, but nothing in them writes, and another machine gets the
//! volume only once the management cluster has detached it. Therefore out-of-service is set when
//! 1. the API itself, asked for this one name, says that there is no instance (not a watch alone,
//!    and never an error), and
//! 2. virt-controller agrees: `status.created` of the virtual machine is not true, which also leaves
//!    out the moment of a restart, and
//! 3. no kubelet contradicts: the node is not Ready, or its Lease has not been renewed for longer
//!    than a kubelet ever takes. One that reports is alive, whatever the objects say; somebody may
//!    have taken the finalizer off by hand.
//!
//! It is taken off as soon as there is an instance again: its volumes must not be torn away from a
//! machine that starts. One that somebody else set, with another value, is left alone.
//!
//! **Nobody waits for the node-lifecycle controller.** That calls a node Unknown after 50 seconds,
//! and only pods on a node that is not Ready are removed for good (`pkg/controller/podgc`:
//! `gcTerminating`). So the condition Ready of a node whose machine is proven dead is set to Unknown
//! here. The kubelet writes it anew when it comes back.
//!
//! **Volumes first.** When a Node goes, the attach-detach controller waits six minutes for volumes
//! that the node said it uses. So a Node whose machine is gone stays, out of service, until none is
//! attached to it any more.
//!
//! **Machines that are no virtual machines** are what the operator published of them (`MachineAddresses`): only where
//! it says that the absence of one is proven is its Node deleted, and an entry that is not there says nothing.
//!
//! Invariant: a Node is deleted only after the API said for both names, asked for them one by one,
//! that there is nothing, or after the operator published that.

use api::Reason;
use k8s_openapi::api::core::v1::{NodeAddress, Taint};
use serde_json::{Map, Value, json};

use crate::cache::objects::{Instance, Node, Phase, Vm};
use crate::names;
use kit::events::Notice;

/// What a Node whose machine is gone waits for.
pub const VOLUMES_ATTACHED: Reason = Reason::VolumesAttached;

/// What is known of an object of the management cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Known<T> {
    /// As last seen.
    Present(T),
    /// The API, asked for it by name, said that it does not exist.
    Absent,
    /// Not among those that the watch told of; the API has not been asked.
    Unknown,
}

impl<T> Known<T> {
    /// What the API, asked for it by name, answered.
    pub fn asked(found: Option<T>) -> Self {
        found.map_or(Self::Absent, Self::Present)
    }

    /// The object, if it is there.
    pub const fn get(&self) -> Option<&T> {
        match self {
            Self::Present(object) => Some(object),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// It is gone, and the API said so.
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl<T: Clone> Known<T> {
    /// What a watch told, whose silence proves nothing.
    pub fn watched(object: Option<&T>) -> Self {
        object.map_or(Self::Unknown, |object| Self::Present(object.clone()))
    }
}

/// What is known of the kubelet, by the Lease that it renews every ten seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heartbeat {
    /// Nobody has read the Lease yet.
    #[default]
    Unknown,
    /// It may be alive: the Lease was renewed, or has not been watched for long enough.
    Recent,
    /// The Lease has not been renewed for longer than a kubelet that lives ever takes.
    Silent,
}

/// Everything that a plan depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The tenant's node.
    pub node: Node,
    /// What the machine's provider calls it, where that is no virtual machine: what the operator published of it
    /// stands in the place of virtual machine and instance, and nothing of it is asked for. It is not proven that
    /// nothing writes any more, so it is never declared out of service.
    pub remote: Option<String>,
    /// Its virtual machine.
    pub vm: Known<Vm>,
    /// The instance of that.
    pub instance: Known<Instance>,
    /// Its kubelet.
    pub heartbeat: Heartbeat,
    /// Volumes that are still attached to a machine that is gone have been waited for long enough.
    pub waited: bool,
    /// Whether labels of zone and region are wanted.
    pub zones: bool,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask the management API for what is missing, by name.
    MakeSure,
    /// Read the kubelet's Lease, and reconcile the node again when it can be called silent.
    CheckHeartbeat,
    /// Say of the node that it is not Ready, if it is still at this resource version.
    NotReady {
        /// Of the Node.
        resource_version: String,
    },
    /// Merge this into the Node's status, if it is still at the resource version in it.
    PatchStatus(Value),
    /// Merge this into the Node, if it is still at the resource version in it.
    Patch(Value),
    /// Delete the Node.
    Delete {
        /// Only this one.
        uid: String,
    },
}

/// The next step: at most one write, because each changes the resource version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What is to be done.
    pub action: Option<Action>,
    /// Events to publish once it is done.
    pub events: Vec<Notice>,
    /// What keeps the node from being as it should; waiting is not an error.
    pub waiting_on: Option<Reason>,
}

impl Plan {
    fn act(action: Action) -> Self {
        Self {
            action: Some(action),
            ..Self::default()
        }
    }

    fn wait(reason: Reason) -> Self {
        Self {
            waiting_on: Some(reason),
            ..Self::default()
        }
    }
}

/// The next step for one node.
#[must_use]
pub fn plan(observed: &Observed) -> Plan {
    let Observed {
        node, vm, instance, ..
    } = observed;
    if node.deleting || node.machine().is_none() && observed.remote.is_none() {
        return Plan::default();
    }
    if vm.get().is_none() && instance.get().is_none() {
        return gone(observed);
    }
    let new = node.is_tainted(names::TAINT_UNINITIALIZED);
    let machine = vm.get().zip(instance.get());
    let addresses = match addresses(node, instance.get()) {
        Ok(addresses) => addresses,
        Err(message) => {
            let mut plan = taints(observed, false).unwrap_or_default();
            plan.events
                .push(Notice::warning(Reason::ProvidedNodeIP, message));
            plan.waiting_on = Some(Reason::ProvidedNodeIP);
            return plan;
        }
    };
    if let Some(addresses) = addresses.filter(|wanted| *wanted != node.addresses) {
        // Also before the taint goes: who waits for that finds addresses.
        return Plan::act(Action::PatchStatus(json!({
            "metadata": { "resourceVersion": node.resource_version },
            "status": { "addresses": addresses },
        })));
    }
    let has_addresses = instance.get().is_some_and(|i| !i.addresses.is_empty());
    let initialise = new && machine.is_some() && has_addresses;
    if let Some(mut plan) = taints(observed, initialise) {
        if initialise {
            plan.events
                .push(Notice::normal(Reason::Synced, "Node synced successfully"));
        }
        return plan;
    }
    if needs_proof(observed) {
        return Plan::act(Action::MakeSure);
    }
    if is_off_for_certain(observed) && observed.node.ready {
        return check_heartbeat(observed);
    }
    match new {
        true => Plan::wait(Reason::MachineHasNoAddress),
        false => Plan::default(),
    }
}

/// The machine is off or gone, and the node is called Ready: until its kubelet is silent, or because
/// nobody has noticed yet that it is.
fn check_heartbeat(observed: &Observed) -> Plan {
    match observed.heartbeat {
        Heartbeat::Unknown => Plan::act(Action::CheckHeartbeat),
        Heartbeat::Recent => Plan::wait(Reason::KubeletReports),
        Heartbeat::Silent => Plan::act(Action::NotReady {
            resource_version: observed.node.resource_version.clone(),
        }),
    }
}

/// Neither virtual machine nor instance was seen.
fn gone(observed: &Observed) -> Plan {
    let node = &observed.node;
    if node.provider_id.is_none() {
        // Not known to be a machine of ours: somebody else's node keeps everything.
        return Plan::wait(Reason::NoVirtualMachine);
    }
    if !observed.vm.is_absent() || !observed.instance.is_absent() {
        return Plan::act(Action::MakeSure);
    }
    if node.ready {
        // k8s.io/cloud-provider looks for machines of nodes that are not ready only; a kubelet that
        // reports is a reason to doubt.
        return check_heartbeat(observed);
    }
    if node.volumes_attached && !observed.waited {
        return taints(observed, false).unwrap_or(Plan::wait(VOLUMES_ATTACHED));
    }
    let message = format!(
        "Deleting node {} because it does not exist in the cloud provider",
        node.name
    );
    Plan {
        action: Some(Action::Delete {
            uid: node.uid.clone(),
        }),
        events: vec![Notice::normal(Reason::DeletingNode, message)],
        waiting_on: None,
    }
}

/// Whether only certainty about the instance is missing for a proof.
fn needs_proof(observed: &Observed) -> bool {
    let off = observed.vm.get().is_some_and(|vm| !vm.created);
    off && observed.instance == Known::Unknown
        && !observed.node.is_tainted(names::TAINT_OUT_OF_SERVICE)
}

/// Whether the management cluster says so; its kubelet has not been asked.
fn is_off_for_certain(observed: &Observed) -> bool {
    let vm = &observed.vm;
    let off = vm.is_absent() || vm.get().is_some_and(|vm| !vm.created);
    off && observed.instance.is_absent()
}

fn is_proven_dead(observed: &Observed) -> bool {
    is_off_for_certain(observed) && !observed.node.ready
}

/// The write that brings taints, labels and providerID to what they should be; none when they are.
fn taints(observed: &Observed, initialise: bool) -> Option<Plan> {
    let node = &observed.node;
    let mut taints = node.taints.clone();
    let mut events = Vec::new();
    if initialise {
        taints.retain(|taint| taint.key != names::TAINT_UNINITIALIZED);
    }
    shutdown(observed, &mut taints);
    out_of_service(observed, &mut taints, &mut events);
    let labels = labels(observed);
    let provider_id = (initialise && node.provider_id.is_none())
        .then(|| observed.remote.clone())
        .map(|id| {
            let own = || api::names::kubevirt_provider_id(node.machine().unwrap_or_default());
            id.unwrap_or_else(own)
        });
    let tainted = taints != node.taints;
    if !tainted && labels.is_empty() && provider_id.is_none() {
        return None;
    }
    let mut patch = json!({ "metadata": { "resourceVersion": node.resource_version } });
    if !labels.is_empty() {
        patch["metadata"]["labels"] = Value::Object(labels);
    }
    if tainted {
        patch["spec"]["taints"] = json!(taints);
    }
    if let Some(id) = provider_id {
        patch["spec"]["providerID"] = id.into();
    }
    Some(Plan {
        action: Some(Action::Patch(patch)),
        events,
        waiting_on: None,
    })
}

/// On while the machine is off, as the node-lifecycle controller of k8s.io/cloud-provider does:
/// off again only once the kubelet reports.
fn shutdown(observed: &Observed, taints: &mut Vec<Taint>) {
    let ours = |taint: &Taint| taint.key == names::TAINT_SHUTDOWN;
    let is_off = match &observed.instance {
        Known::Present(instance) => instance.phase == Phase::Ended,
        Known::Absent | Known::Unknown => true,
    };
    if observed.node.ready {
        taints.retain(|taint| !ours(taint));
    } else if is_off && !taints.iter().any(ours) {
        taints.push(taint(names::TAINT_SHUTDOWN, None, "NoSchedule"));
    }
}

fn out_of_service(observed: &Observed, taints: &mut Vec<Taint>, events: &mut Vec<Notice>) {
    if observed.remote.is_some() {
        return;
    }
    let any = |taint: &Taint| taint.key == names::TAINT_OUT_OF_SERVICE;
    let ours =
        |taint: &Taint| any(taint) && taint.value.as_deref() == Some(names::OUT_OF_SERVICE_BY_US);
    let name = &observed.node.name;
    if is_proven_dead(observed) && !taints.iter().any(any) {
        taints.push(taint(
            names::TAINT_OUT_OF_SERVICE,
            Some(names::OUT_OF_SERVICE_BY_US),
            "NoExecute",
        ));
        let message =
            format!("the machine of node {name} is off for certain; its pods and volumes may move");
        events.push(Notice::warning(Reason::OutOfService, message));
    } else if (observed.instance.get().is_some() || observed.node.ready) && taints.iter().any(ours)
    {
        taints.retain(|taint| !ours(taint));
        let message = format!("the machine of node {name} starts again");
        events.push(Notice::normal(Reason::InService, message));
    }
}

fn taint(key: &str, value: Option<&str>, effect: &str) -> Taint {
    Taint {
        key: key.to_owned(),
        value: value.map(ToOwned::to_owned),
        effect: effect.to_owned(),
        time_added: None,
    }
}

/// Labels of zone, region and instance type that differ; what the virtual machine does not say stays.
fn labels(observed: &Observed) -> Map<String, Value> {
    let mut changed = Map::new();
    let Some(vm) = observed.vm.get() else {
        return changed;
    };
    for (index, (keys, value)) in names::TOPOLOGY.iter().zip(&vm.topology).enumerate() {
        // The first two are zone and region.
        let Some(value) = value.as_ref().filter(|_| observed.zones || index > 1) else {
            continue;
        };
        for key in *keys {
            if observed.node.labels.get(*key) != Some(value) {
                changed.insert((*key).to_owned(), json!(value));
            }
        }
    }
    changed
}

/// The addresses that the node should have; none while the machine has none, which leaves those of
/// before. An error says why the kubelet's own choice cannot be honoured.
fn addresses(node: &Node, instance: Option<&Instance>) -> Result<Option<Vec<NodeAddress>>, String> {
    let Some(instance) = instance.filter(|i| !i.addresses.is_empty()) else {
        return Ok(None);
    };
    let internal = |address: &std::net::IpAddr| NodeAddress {
        type_: "InternalIP".to_owned(),
        address: address.to_string(),
    };
    let mut addresses: Vec<_> = match &node.provided_ip {
        None => instance.addresses.iter().map(internal).collect(),
        // The kubelet's choice is then the only one of its type (cloud-provider, `node/helpers`).
        Some(text) => {
            let mut chosen = Vec::new();
            for part in text.split(',') {
                let ip = part.trim().parse::<std::net::IpAddr>();
                let ip = ip.ok().filter(|ip| instance.addresses.contains(ip));
                let Some(ip) = ip else {
                    let has: Vec<_> = instance.addresses.iter().map(ToString::to_string).collect();
                    return Err(format!(
                        "the kubelet was told to use the address {text}, and the machine has {}; \
                         correct its flag --node-ip",
                        has.join(", ")
                    ));
                };
                chosen.push(internal(&ip));
            }
            chosen
        }
    };
    let hostname = node.addresses.iter().filter(|a| a.type_ == "Hostname");
    addresses.extend(hostname.cloned());
    Ok(Some(addresses))
}
