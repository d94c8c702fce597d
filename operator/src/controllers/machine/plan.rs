//! Turns one observation of one Machine into the next step. No I/O, no clock, no chance.
//!
//! A life: bootstrap token drawn and stored with the user data → token made valid → virtual machine
//! made → its node joins → labels set, token revoked, user data blanked → ready. Its end is
//! [`deletion`].
//! Invariant: planning again after applying yields an empty plan; what a crash cuts off is found by
//! what was stored before it; nothing is waited for without an end.

use std::time::Duration;

use api::machine::MachinePhase;
use api::machine_addresses::{PublishedAddresses, RemoteMachine};
use api::{MachineStatus, Reason, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::events::Notice;
use kit_objects::known::Known;
use kit_objects::object::Object;
use providers::{Description, State, Topology};
use serde_json::Value;

use super::observed::{Observed, Pod, Tenant};
use crate::status::Waiting;

mod certificates;
mod conditions;
mod deletion;
mod join;
mod overlay;
mod remote;
mod renewal;
mod restart;

#[cfg(test)]
pub(super) use deletion::LEAVE;
pub use deletion::PATIENCE;
pub(crate) use join::TOKEN;
pub(crate) use renewal::is_to_be_renewed;

/// The next step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What is to be done, one after the other.
    pub actions: Vec<Action>,
    /// The status as it should be.
    pub status: MachineStatus,
    /// Events to publish once all of that is done.
    pub events: Vec<Notice>,
    /// What keeps the machine from being ready, or gone; waiting is not an error.
    pub waiting_on: Option<Waiting>,
    /// When to reconcile again although nothing happened.
    pub requeue_after: Option<Duration>,
    drain: Option<Drain>,
    /// The provider is about to be asked for a machine.
    asks: bool,
    /// A token is used, for the first time or once too often.
    uses_token: bool,
    /// The machine is about to be started anew.
    restarts: bool,
    /// Something of telling its kubelet in place is about to be made, or taken away.
    renews: bool,
    /// Whether its kubelet was told in place, why and in which words, where that is over.
    renewed: Option<(bool, Reason, String)>,
}

/// Pause between two looks at a machine of which nobody knows whether it is there.
const UNKNOWN: Duration = Duration::from_secs(10);

/// How far draining is.
#[derive(Clone, Debug, PartialEq)]
enum Drain {
    /// Pods are leaving.
    Running(String),
    /// None is left.
    Done,
    /// Those that are left go with the machine.
    GivenUp(String),
}

/// One thing to do. What is done in the tenant cluster is called so.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Put our finalizer on.
    AddFinalizer,
    /// Take our finalizer off.
    RemoveFinalizer,
    /// Delete the Machine itself, so that its pool replaces it.
    DeleteSelf,
    /// Draw a bootstrap token, to be stored by the next plan.
    DrawToken,
    /// Create the Secret with the user data.
    CreateUserData(Object),
    /// Change that Secret: a JSON merge patch.
    ChangeUserData(Value),
    /// Delete that Secret.
    DeleteUserData {
        /// Only this one.
        uid: String,
    },
    /// Make the virtual machine.
    CreateVm,
    /// Write down where the virtual machine is.
    LabelVm(Topology),
    /// Write down which addresses the machine has; none: that it has none any more.
    PublishAddresses(Option<PublishedAddresses>),
    /// Tell the cloud controller manager of the machine; none: nothing any more.
    PublishMachine(Option<RemoteMachine>),
    /// Delete the virtual machine and its instance.
    DeleteVm,
    /// Start the machine anew on the disk that it has.
    RestartVm,
    /// In the tenant cluster: make the bootstrap token valid, or longer.
    ApplyToken(Object, Timestamp),
    /// In the tenant cluster: revoke the token.
    RevokeToken {
        /// Name of its Secret.
        name: String,
        /// Only this one.
        uid: String,
    },
    /// In the tenant cluster: write what its kubelet is to be told.
    StoreRenewal(Object),
    /// In the tenant cluster: make the pod that tells it.
    StartRenewal(Object),
    /// In the tenant cluster: end that pod.
    EndRenewal {
        /// Only this one.
        uid: String,
    },
    /// In the tenant cluster: delete what was written for it.
    DeleteRenewal {
        /// Only this one.
        uid: String,
    },
    /// In the tenant cluster: set labels that a kubelet may not set on its own node.
    LabelNode(Value),
    /// In the tenant cluster: write down what machine a node is that joined by itself.
    NameNode {
        /// Only this one.
        uid: String,
        /// What it is called from then on.
        provider_id: String,
    },
    /// In the tenant cluster: answer a kubelet's request for a serving certificate.
    Decide {
        /// Name of the request.
        name: String,
        /// Approve, or deny with reason and message.
        denied: Option<(Reason, String)>,
    },
    /// In the tenant cluster: let nothing new onto the node.
    Cordon {
        /// Only this one.
        uid: String,
    },
    /// In the tenant cluster: have load balancers send nothing to the node.
    Exclude {
        /// Only this one.
        uid: String,
    },
    /// In the tenant cluster: ask these pods to leave, as far as disruption budgets allow.
    Evict(Vec<Pod>),
    /// In the tenant cluster: end these pods, which are being deleted where nothing runs any more.
    End(Vec<Pod>),
    /// In the tenant cluster: delete the Node.
    DeleteNode {
        /// Only this one.
        uid: String,
    },
}

impl Plan {
    /// True when nothing is left to do but, perhaps, to write the status.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.actions.is_empty()
    }

    /// True when the status has to be written before anything is done: a drain that ended must not
    /// begin anew, and what a provider is asked for, or how often, must be known to whoever comes after a crash.
    #[must_use]
    pub fn reports_first(&self) -> bool {
        self.asks
            || self.uses_token
            || self.restarts
            || self.renews
            || matches!(self.drain, Some(Drain::Done | Drain::GivenUp(_)))
    }

    fn publish(&mut self, warning: bool, reason: Reason, message: String) {
        self.events.push(Notice::new(warning, reason, message));
    }

    fn wait(&mut self, reason: Reason, message: impl Into<String>) {
        self.waiting_on.get_or_insert(Waiting {
            reason,
            message: message.into(),
        });
    }

    /// Looks again no later than then.
    fn look_at(&mut self, then: Timestamp, now: Timestamp) {
        let left = Duration::try_from(then.duration_since(now)).unwrap_or_default();
        self.look_after(left);
    }

    /// Looks again no later than this.
    fn look_after(&mut self, time: Duration) {
        let sooner = self.requeue_after.map_or(time, |before| before.min(time));
        self.requeue_after = Some(sooner);
    }
}

/// The next step for one Machine.
#[must_use]
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    if observed.is_going() {
        return deletion::plan(observed, now);
    }
    let finalizers = observed.machine.metadata.finalizers.as_deref();
    if !finalizers
        .unwrap_or_default()
        .iter()
        .any(|f| f == names::FINALIZER_MACHINE)
    {
        return Plan {
            actions: vec![Action::AddFinalizer],
            ..unchanged(observed)
        };
    }
    let mut plan = unchanged(observed);
    let Some(cluster) = observed.home() else {
        // Its pool deletes it.
        plan.wait(
            Reason::ClusterDeleted,
            "the tenant cluster that it belonged to is gone",
        );
        return conditions::report(plan, observed, now);
    };
    if cluster.spec.paused {
        plan.wait(
            Reason::Paused,
            "the TenantCluster is paused; set its spec.paused to false to go on",
        );
        return conditions::report(plan, observed, now);
    }
    if let Known::Unknown { why } = observed.vm {
        // It may run, so nothing is made, and nothing goes.
        plan.wait(Reason::VirtualMachineUnknown, why);
        // No watch tells when it is known.
        plan.look_after(UNKNOWN);
        return conditions::report(plan, observed, now);
    }
    if let Some((reason, message)) = lost(&plan.status, observed) {
        fail(&mut plan, reason, message);
        return conditions::report(plan, observed, now);
    }
    let vm = observed.vm.as_ref().there();
    if let Some(evacuation) = vm.and_then(|vm| vm.evacuation) {
        let until = evacuation
            .deadline
            .map(|deadline| format!(" by {deadline}"));
        let until = until.unwrap_or_default();
        let message = format!(
            "the machine has to leave what runs it{until}; the node is drained first, and another \
             machine takes its place"
        );
        plan.publish(false, Reason::Evacuating, message);
        plan.actions.push(Action::DeleteSelf);
        return plan;
    }
    if let Some(vm) = vm
        && let Some(topology) = &vm.topology
        && *topology != vm.labelled
    {
        plan.actions.push(Action::LabelVm(topology.clone()));
    }
    plan.actions.extend(publish_addresses(observed));
    plan.actions.extend(publish_machine(observed, now));
    if let Tenant::Answers(seen) = &observed.tenant {
        certificates::decide(&mut plan, observed, seen);
    }
    if plan.status.phase == Some(MachinePhase::Failed) {
        // Nothing is done with a token any more that somebody else has, too.
        return conditions::report(plan, observed, now);
    }
    let node = observed
        .seen()
        .and_then(|seen| join::own_node(observed, seen));
    let key = node.and_then(|node| node.overlay_key.as_ref());
    plan.status.overlay = overlay::member(observed, key);
    if observed.has_joined() {
        restart::plan(&mut plan, observed, now);
        renewal::plan(&mut plan, observed, now);
    } else {
        join::plan(&mut plan, observed, now);
        // Its node joined while nobody could see that, and it does not run any more.
        if let Some((reason, message)) = lost(&plan.status, observed) {
            fail(&mut plan, reason, message);
        }
    }
    conditions::report(plan, observed, now)
}

/// What is to be written down of the machine's addresses. While nobody knows where its instance is, what was
/// published of that very instance holds; with another one, or none, it has them no more.
fn publish_addresses(observed: &Observed) -> Option<Action> {
    if matches!(observed.vm, Known::Unknown { .. }) {
        return None;
    }
    let vm = observed.own_vm();
    let (published, located) = (&observed.published, vm.and_then(|vm| vm.located.as_ref()));
    let runs = |known: &PublishedAddresses| {
        vm.is_some_and(|vm| vm.instance.as_ref() == Some(&known.instance))
    };
    let wanted = located.or(published.as_ref().filter(|known| runs(known)));
    (published.as_ref() != wanted).then(|| Action::PublishAddresses(wanted.cloned()))
}

/// What the cloud controller manager is to be told of the machine.
fn publish_machine(observed: &Observed, now: Timestamp) -> Option<Action> {
    let now = Time(join::whole_seconds(now));
    let told = remote::told(observed, join::provider_id(observed), now);
    told.map(|told| Action::PublishMachine(Some(told)))
}

fn unchanged(observed: &Observed) -> Plan {
    Plan {
        status: observed.machine.status.clone().unwrap_or_default(),
        ..Plan::default()
    }
}

/// Why a machine will never be a node (again); none when it may.
fn lost(status: &MachineStatus, observed: &Observed) -> Option<(Reason, String)> {
    if let Some(failed) = failure(status) {
        return Some(failed);
    }
    let phase = status.phase.unwrap_or_default();
    let ran = !matches!(phase, MachinePhase::Pending | MachinePhase::Creating)
        || status.node_name.is_some();
    // What started anew on the disk that it had is the same machine.
    let joined = status.instance.as_deref();
    let joined = joined.filter(|_| !observed.capabilities.keeps_disk);
    match &observed.vm {
        Known::Known(vm) if vm.foreign => Some((
            Reason::VirtualMachineTaken,
            "there is a virtual machine of this name that is not this machine's".to_owned(),
        )),
        Known::Known(Description { deleting: true, .. }) | Known::Absent if ran => Some((
            Reason::VirtualMachineGone,
            "somebody deleted the virtual machine".to_owned(),
        )),
        Known::Known(vm) if joined.is_some() && vm.state == State::Stopped => Some((
            Reason::VirtualMachineStopped,
            "the virtual machine was shut down, and would start with an empty disk".to_owned(),
        )),
        Known::Known(vm)
            if joined.is_some() && vm.instance.is_some() && vm.instance.as_deref() != joined =>
        {
            Some((
                Reason::InstanceReplaced,
                "the virtual machine was started anew, with an empty disk".to_owned(),
            ))
        }
        Known::Known(_) | Known::Absent | Known::Unknown { .. } => None,
    }
}

/// Reasons of failures: a machine that failed once stays so, until its pool replaces it.
const FAILURES: [Reason; 5] = [
    Reason::TokenUsedTwice,
    Reason::VirtualMachineTaken,
    Reason::VirtualMachineGone,
    Reason::VirtualMachineStopped,
    Reason::InstanceReplaced,
];

fn failure(status: &MachineStatus) -> Option<(Reason, String)> {
    if status.phase != Some(MachinePhase::Failed) {
        return None;
    }
    let mut conditions = status.conditions.iter();
    let ready = conditions.find(|c| c.type_ == api::ConditionType::Ready.as_str());
    let said = |reason: &Reason| ready.is_some_and(|c| c.reason == *reason);
    let reason = FAILURES
        .into_iter()
        .find(said)
        .unwrap_or(Reason::VirtualMachineGone);
    let message = ready.map(|c| c.message.clone()).unwrap_or_default();
    Some((reason, message))
}

fn fail(plan: &mut Plan, reason: Reason, message: String) {
    if plan.status.phase != Some(MachinePhase::Failed) {
        plan.publish(
            true,
            reason,
            format!("{message}; its node pool replaces it"),
        );
    }
    plan.status.phase = Some(MachinePhase::Failed);
    plan.wait(reason, message);
}
