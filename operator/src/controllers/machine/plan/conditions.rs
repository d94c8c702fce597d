//! The status that follows from an observation.
//!
//! Invariant: what is not known stays as it was, so that an outage of a tenant's API costs no write;
//! and words alone never cause one: a condition whose status and reason stay keeps its message,
//! because some of the words are a tenant's.

use std::time::Duration;

use api::condition::is_true;
use api::machine::MachinePhase;
use api::{
    ConditionReason, ConditionStatus, ConditionType, MachineStatus, Reason, TenantClusterStatus,
    set_condition,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use providers::{Description, State};

use super::{Drain, Plan, join};
use crate::controllers::machine::observed::{Observed, Tenant};
use crate::creations::Outcome;
use crate::tenant_session::breaker::Breaker;

/// Pause between two looks at a machine of a provider that nobody watches, while it is being made or goes.
const UNSETTLED: Duration = Duration::from_secs(10);
/// The same of one that joined, or failed.
const QUIET: Duration = Duration::from_secs(120);

/// Status, reason and message of one condition.
type Said = (ConditionStatus, ConditionReason, String);

fn said(status: bool, reason: impl Into<ConditionReason>, message: impl Into<String>) -> Said {
    (status.into(), reason.into(), message.into())
}

/// Fills in everything that follows from the observation.
pub(super) fn report(mut plan: Plan, observed: &Observed, now: Timestamp) -> Plan {
    let before = plan.status.clone();
    let vm = observed.own_vm();
    if let Some(vm) = vm {
        plan.status.provider_id = join::provider_id(observed).map(str::to_owned);
        plan.status.addresses.clone_from(&vm.addresses);
        match observed.creations {
            // One of several that were asked for may be carried out once what is there is gone.
            Outcome::MoreOpen { until } if plan.status.creation_pending_since.is_some() => {
                plan.look_at(until, now);
            }
            _ => plan.status.creation_pending_since = None,
        }
    }
    // None: as it was.
    let machine = match observed.vm.is_unknown() {
        true => None,
        false => Some(virtual_machine(vm)),
    };
    if let Some(Description {
        state: State::Failing { reason, message },
        ..
    }) = vm
    {
        if reason_of(&before, ConditionType::VirtualMachineReady)
            .is_none_or(|before| before != reason.as_str())
        {
            plan.publish(
                true,
                Reason::VirtualMachineFailing,
                format!("{reason}: {message}"),
            );
        }
        plan.wait(
            Reason::VirtualMachineFailing,
            format!("{reason}: {message}"),
        );
    }
    let node = node(observed);
    if !observed.is_going() && plan.status.phase != Some(MachinePhase::Failed) {
        plan.status.phase = Some(phase(&before, vm, observed));
    }
    let generation = observed.machine.metadata.generation;
    plan.status.observed_generation = generation;
    let mut set = |type_: ConditionType, (value, reason, mut message): Said| {
        let list = &mut plan.status.conditions;
        let same = list.iter().find(|c| {
            c.type_ == type_.as_str() && c.status == value.as_str() && c.reason == reason.as_str()
        });
        if let Some(same) = same {
            message.clone_from(&same.message);
        }
        set_condition(list, type_, value, reason, &message, generation, Time(now));
    };
    if let Some(machine) = machine.clone() {
        set(ConditionType::VirtualMachineReady, machine);
    }
    if let Some(node) = node.clone() {
        set(ConditionType::NodeReady, node);
    }
    if let Some((was_renewed, reason, message)) = &plan.renewed {
        set(
            ConditionType::KubeletRenewed,
            said(*was_renewed, *reason, message.as_str()),
        );
    }
    match &plan.drain {
        Some(Drain::Running(message)) => {
            set(
                ConditionType::Drained,
                said(false, Reason::Draining, message.as_str()),
            );
        }
        Some(Drain::Done) => set(ConditionType::Drained, said(true, Reason::Drained, "")),
        Some(Drain::GivenUp(why)) => {
            set(
                ConditionType::Drained,
                said(false, Reason::DrainGivenUp, why.as_str()),
            );
        }
        None => {}
    }
    let ready = ready(&plan, machine, node);
    let mut set = |type_: ConditionType, (value, reason, message): Said| {
        let list = &mut plan.status.conditions;
        set_condition(list, type_, value, reason, &message, generation, Time(now));
    };
    let is_told = reason_of(&before, ConditionType::Ready).is_some();
    let unknown = observed.tenant == Tenant::Postponed && is_told;
    if let Some(ready) = ready.filter(|_| !unknown) {
        set(ConditionType::Ready, ready);
    }
    look_again(&mut plan, observed);
    plan
}

fn reason_of(status: &MachineStatus, type_: ConditionType) -> Option<&String> {
    let mut conditions = status.conditions.iter();
    conditions
        .find(|c| c.type_ == type_.as_str())
        .map(|c| &c.reason)
}

fn virtual_machine(vm: Option<&Description>) -> Said {
    let Some(vm) = vm else {
        return said(
            false,
            Reason::VirtualMachineNotCreated,
            "there is no virtual machine",
        );
    };
    if vm.deleting {
        return said(
            false,
            Reason::Deleting,
            "the virtual machine is being deleted",
        );
    }
    match &vm.state {
        State::Creating => said(
            false,
            Reason::Starting,
            "the virtual machine is being started",
        ),
        State::Running => said(true, Reason::Running, ""),
        State::Stopped => said(false, Reason::Stopped, "the virtual machine does not run"),
        State::Failing { reason, message } => said(false, reason.clone(), message.as_str()),
    }
}

/// None: as it was.
fn node(observed: &Observed) -> Option<Said> {
    let status = observed.machine.status.as_ref();
    let known = status.is_some_and(|s| reason_of(s, ConditionType::NodeReady).is_some());
    let joined = observed.has_joined();
    let Tenant::Answers(seen) = &observed.tenant else {
        let postponed = observed.tenant == Tenant::Postponed;
        if observed.is_going() && observed.home().is_some() && !postponed {
            let message = "the tenant's API does not answer";
            let unknown = ConditionStatus::Unknown;
            return Some((unknown, Reason::ApiUnreachable.into(), message.to_owned()));
        }
        return (!known).then(|| said(false, Reason::NotJoined, "its node has not joined"));
    };
    Some(match join::own_node(observed, seen) {
        Some(node) if node.ready == Some(true) => said(true, Reason::NodeReady, ""),
        Some(node) => said(false, Reason::NodeNotReady, node.message.as_str()),
        None if joined => said(false, Reason::NodeGone, "its node was deleted"),
        // It stays, and whether it is the machine's own is not known before the machine said whose it is.
        None if seen.node.is_some() && join::awaits_takeover(observed) => {
            said(false, Reason::NotJoined, "its node is not taken over yet")
        }
        None if seen.node.is_some() => said(
            false,
            Reason::NodeOfAnother,
            "there is a node of this name with another providerID; delete it",
        ),
        None => said(false, Reason::NotJoined, "its node has not joined"),
    })
}

/// Never back: what ran once is not made again.
fn phase(before: &MachineStatus, vm: Option<&Description>, observed: &Observed) -> MachinePhase {
    use MachinePhase::{Booting, Creating, Joining, Pending, Running};
    // A node that is taken over is ready all the time, and not the machine's before its Host has shown it the way.
    let is_here = || join::is_told(observed) || observed.has_joined();
    let node = observed
        .seen()
        .and_then(|seen| join::own_node(observed, seen))
        .filter(|_| is_here());
    let now = match (vm, node) {
        (Some(_), Some(node)) if node.ready == Some(true) => Running,
        (Some(_), Some(_)) => Joining,
        (Some(vm), None) if vm.state == State::Running => Booting,
        (Some(_), None) => Creating,
        (None, _) => Pending,
    };
    let order = [Pending, Creating, Booting, Joining, Running];
    let rank = |phase: MachinePhase| order.iter().position(|p| *p == phase).unwrap_or_default();
    let before = before.phase.unwrap_or_default();
    if rank(before) > rank(now) {
        before
    } else {
        now
    }
}

/// The summary: what keeps the machine from being of use, the first thing first. None: as it was.
fn ready(plan: &Plan, machine: Option<Said>, node: Option<Said>) -> Option<Said> {
    let waiting = plan.waiting_on.as_ref();
    let phase = plan.status.phase.unwrap_or_default();
    let stops = matches!(
        phase,
        MachinePhase::Failed | MachinePhase::Draining | MachinePhase::Deleting
    );
    if let Some(waiting) = waiting.filter(|_| stops) {
        let reason = match phase {
            MachinePhase::Draining => Reason::Draining,
            _ => waiting.reason,
        };
        return Some(said(false, reason, waiting.message.as_str()));
    }
    let running = phase == MachinePhase::Running;
    if let Some(waiting) = waiting.filter(|w| !running && w.reason != Reason::VirtualMachineFailing)
    {
        return Some(said(false, waiting.reason, waiting.message.as_str()));
    }
    if machine.as_ref()?.0 != ConditionStatus::True {
        return machine;
    }
    match node {
        Some((value, reason, _)) if reason == Reason::NotJoined => Some((
            value,
            Reason::Booting.into(),
            "the machine boots; its node has not joined".to_owned(),
        )),
        Some((value, reason, message)) => {
            // As in the condition, whose words stay.
            let list = &plan.status.conditions;
            let kept = list
                .iter()
                .find(|c| c.type_ == ConditionType::NodeReady.as_str());
            Some((value, reason, kept.map_or(message, |c| c.message.clone())))
        }
        None => {
            let known = is_true(&plan.status.conditions, ConditionType::NodeReady);
            (!known).then(|| said(false, Reason::NotJoined, "its node has not joined"))
        }
    }
}

/// Where no watch tells when the tenant's API can be asked again.
fn look_again(plan: &mut Plan, observed: &Observed) {
    if !observed.capabilities.watched {
        // Not by what the provider says: one in trouble would be asked twelve times as often.
        let failed = plan.status.phase == Some(MachinePhase::Failed);
        let settled = (observed.has_joined() || failed) && !observed.is_going();
        plan.look_after(if settled { QUIET } else { UNSETTLED });
    }
    if observed.tenant == Tenant::Postponed {
        // Sooner when a permit is free.
        plan.look_after(Breaker::PAUSE);
    }
    let in_need = !observed.has_joined() || observed.is_going();
    let Some(cluster) = observed.home().filter(|_| in_need) else {
        return;
    };
    let answers = cluster
        .status
        .as_ref()
        .and_then(TenantClusterStatus::answers_since)
        .is_some();
    match &observed.tenant {
        // The TenantCluster is about to be reconciled for the first time in this process.
        Tenant::NotAsked if answers => plan.look_after(Duration::from_secs(1)),
        Tenant::Silent { .. } => plan.look_after(Breaker::PAUSE),
        // It wakes us when it answers.
        Tenant::NotAsked | Tenant::Postponed | Tenant::Answers(_) => {}
    }
}
