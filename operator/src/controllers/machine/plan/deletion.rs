//! The end of a Machine: drain → virtual machine and instance gone → Node gone → finalizer.
//!
//! **Load balancers.** A node that is drained still passes on what load balancers send it. So they
//! are told first that it goes, and given [`LEAVE`] to turn to others.
//!
//! **Volumes.** When a Node goes whose volumes are attached, the tenant's attach-detach controller
//! waits six minutes before it gives them to another. So the machine goes only once they are detached,
//! and where it died the Node stays until then: the cloud controller manager declares it out of
//! service, and volumes leave at once.
//!
//! Invariant: the Machine goes only when neither its virtual machine nor an instance of it is there, and none can
//! appear: where nobody knows what became of its creation, that takes [`SETTLE`].
//! A machine that has to leave by some time is not drained beyond it.
//! The tenant cluster holds nothing up for longer than the drain's time-out plus [`PATIENCE`]; where
//! its API does not answer, for longer than [`PATIENCE`].

use std::time::Duration;

use api::machine::MachinePhase;
use api::{ConditionStatus, ConditionType, Reason, names};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kit_objects::known::Known;
use kube::ResourceExt;
use providers::State;
use providers::absence::SETTLE;
use tenant_cp::node::bootstrap_token;

use super::{Action, Drain, Plan, conditions, join, publish_addresses, publish_machine, unchanged};
use crate::controllers::machine::observed::{Node, Observed, Pod, Seen, Tenant};
use crate::creations::Outcome;

/// How long an API that does not answer is waited for.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long load balancers get to turn to other nodes: the cloud controller manager and kube-proxy
/// take a second together, load balancers of a network somewhat longer.
pub(in crate::controllers::machine) const LEAVE: Duration = Duration::from_secs(5);
/// Pause between two looks at pods that leave: they are not watched.
const LOOK: Duration = Duration::from_secs(1);
/// Pods that are named in a message.
const NAMED: usize = 5;
/// Pause between two looks at what no watch tells of.
const UNSEEN: Duration = Duration::from_secs(30);
/// Pause between two tries while a disruption budget is in the way.
const BLOCKED: Duration = Duration::from_secs(5);

pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = unchanged(observed);
    let finalizers = observed.machine.finalizers();
    if !finalizers.iter().any(|f| f == names::FINALIZER_MACHINE) {
        return plan;
    }
    let home = observed.home().is_some();
    let taken_along = observed.capabilities.goes_with_namespace;
    if !home && taken_along && observed.namespace.is_absent() {
        // With the tenant namespace everything in it went, and the tenant cluster with it.
        plan.actions.push(Action::RemoveFinalizer);
        return plan;
    }
    if let Known::Unknown { why } = observed.vm {
        plan.status.phase = Some(MachinePhase::Deleting);
        let message =
            format!("waits until the virtual machine and its instance are gone for certain: {why}");
        plan.wait(Reason::Deleting, message);
        // Where the tenant namespace goes, the right to watch it goes too.
        plan.look_after(UNSEEN);
        return conditions::report(plan, observed, now);
    }
    let publish = publish_addresses(observed).filter(|_| home);
    if let Some(vm) = observed.own_vm() {
        if !vm.deleting && home && drains(&mut plan, observed, now) {
            plan.status.phase = Some(MachinePhase::Draining);
            return conditions::report(plan, observed, now);
        }
        plan.status.phase = Some(MachinePhase::Deleting);
        plan.actions.extend(publish);
        if !vm.deleting {
            plan.actions.push(Action::DeleteVm);
        }
        plan.wait(
            Reason::Deleting,
            "waits until the virtual machine and its instance are gone",
        );
        if !home {
            plan.look_after(UNSEEN);
        }
        return conditions::report(plan, observed, now);
    }
    plan.status.phase = Some(MachinePhase::Deleting);
    if home {
        plan.actions.extend(publish_machine(observed, now));
    }
    if home && cleans_up(&mut plan, observed, now) {
        return conditions::report(plan, observed, now);
    }
    plan.actions.extend(publish);
    plan.actions
        .extend(forget_machine(observed).filter(|_| home));
    match &observed.user_data {
        // It goes with the tenant namespace.
        _ if !home => {}
        Known::Known(stored) => plan.actions.push(Action::DeleteUserData {
            uid: stored.uid.clone(),
        }),
        Known::Absent => {}
        Known::Unknown { why } => {
            plan.wait(Reason::Deleting, *why);
            plan.look_after(UNSEEN);
            return conditions::report(plan, observed, now);
        }
    }
    if (home || !taken_along) && may_appear(&mut plan, observed, now) {
        return conditions::report(plan, observed, now);
    }
    plan.actions.push(Action::RemoveFinalizer);
    plan
}

/// The cloud controller manager is told nothing more once the Node is gone, too. Where nobody knows whether it is, whoever
/// sees it again has to know that its machine is gone.
fn forget_machine(observed: &Observed) -> Option<Action> {
    let Tenant::Answers(seen) = &observed.tenant else {
        return None;
    };
    let is_over = observed.remote.is_some() && join::own_node(observed, seen).is_none();
    is_over.then_some(Action::PublishMachine(None))
}

/// True while a machine that was asked for may appear although nothing is there: one creation was not answered, or
/// nobody saw what it made. Nobody has asked since the Machine goes.
fn may_appear(plan: &mut Plan, observed: &Observed, now: Timestamp) -> bool {
    let Some(Time(since)) = plan.status.creation_pending_since else {
        return false;
    };
    let deleted = observed.machine.metadata.deletion_timestamp.as_ref();
    let asked = deleted.map_or(since, |deleted| since.max(deleted.0));
    let until = match observed.creations {
        Outcome::Settled => return false,
        Outcome::OneOpen { until } | Outcome::MoreOpen { until } => until,
        Outcome::Unknown => asked.saturating_add(SETTLE).unwrap_or(Timestamp::MAX),
    };
    if until <= now {
        return false;
    }
    let message = "waits until the virtual machine, which was asked for without an answer, could not appear any more";
    plan.wait(Reason::Deleting, message);
    plan.look_at(until, now);
    true
}

/// When everything inside the tenant cluster is given up on.
fn deadline(observed: &Observed, now: Timestamp) -> Timestamp {
    let since = observed.machine.metadata.deletion_timestamp.as_ref();
    let since = since.map_or(now, |t| t.0);
    let drain = observed.machine.spec.drain_timeout.get();
    let drain = drain.unwrap_or(Duration::from_secs(300)) + PATIENCE;
    let drain = SignedDuration::try_from(drain).unwrap_or(SignedDuration::MAX);
    since.saturating_add(drain).unwrap_or(Timestamp::MAX)
}

/// When the machine ends whether or not its node is drained; none: nobody said.
fn evacuated(observed: &Observed) -> Option<Timestamp> {
    observed.own_vm()?.evacuation?.deadline
}

/// When draining is given up: then nobody waits for pods, nor for an API that says which there are.
fn drained_until(observed: &Observed, now: Timestamp) -> Timestamp {
    let until = deadline(observed, now);
    evacuated(observed).map_or(until, |evacuated| until.min(evacuated))
}

/// Since when the API does not answer, as far as the status knows.
fn silent_since(observed: &Observed) -> Option<Timestamp> {
    let conditions = &observed.machine.status.as_ref()?.conditions;
    let node = ConditionType::NodeReady.as_str();
    let condition = conditions.iter().find(|c| c.type_ == node)?;
    (condition.status == ConditionStatus::Unknown.as_str())
        .then_some(condition.last_transition_time.0)
}

/// True while an API that does not answer is waited for; false when it is given up on.
fn is_patient(plan: &mut Plan, observed: &Observed, message: &str, now: Timestamp) -> bool {
    let patience = SignedDuration::try_from(PATIENCE).unwrap_or(SignedDuration::MAX);
    let since = silent_since(observed).unwrap_or(now);
    let until = since.saturating_add(patience).unwrap_or(Timestamp::MAX);
    let until = until.min(drained_until(observed, now));
    if until <= now {
        return false;
    }
    plan.wait(
        Reason::ApiUnreachable,
        format!("the tenant's API does not answer: {message}"),
    );
    plan.look_after(Duration::try_from(until.duration_since(now)).unwrap_or(PATIENCE));
    true
}

/// True: what is there is not known until the tenant is asked, which is soon.
fn waits_for_turn(plan: &mut Plan, observed: &Observed, now: Timestamp) -> bool {
    if let Some(evacuated) = evacuated(observed) {
        plan.look_after(Duration::try_from(evacuated.duration_since(now)).unwrap_or(LOOK));
    }
    plan.wait(
        Reason::WaitingForTurn,
        "the tenant's API is asked when others that are slow to answer have been",
    );
    true
}

/// True while pods have to leave the node first.
fn drains(plan: &mut Plan, observed: &Observed, now: Timestamp) -> bool {
    let vm = observed.vm.as_ref().there();
    let runs = vm.is_some_and(|vm| vm.state == State::Running);
    let timeout = observed.machine.spec.drain_timeout.get();
    // What was started anew has an empty disk: no pod runs there any more.
    let failed = observed.machine.status.as_ref().and_then(super::failure);
    if failed.is_some() || !runs || timeout == Some(Duration::ZERO) {
        return false;
    }
    if let Some(drained) = drained(observed) {
        let since = drained.last_transition_time.0;
        return drained.status == "True" && leaves_balancers(plan, observed, since, now);
    }
    let seen = match &observed.tenant {
        Tenant::Answers(seen) => seen,
        Tenant::Silent { .. } | Tenant::NotAsked | Tenant::Postponed if !observed.has_joined() => {
            return false;
        }
        Tenant::Postponed if now < drained_until(observed, now) => {
            return waits_for_turn(plan, observed, now);
        }
        Tenant::Postponed => return waits_for_api(plan, observed, "others are slow", now),
        Tenant::Silent { message } => return waits_for_api(plan, observed, message, now),
        Tenant::NotAsked => {
            return waits_for_api(plan, observed, "it has not answered yet", now);
        }
    };
    let Some(node) = join::own_node(observed, seen) else {
        return false;
    };
    let pods = match &seen.pods {
        Known::Known(pods) => pods.as_slice(),
        Known::Absent => &[],
        Known::Unknown { why } if drained_until(observed, now) <= now => {
            gives_up(plan, format!("the time for it is over, and {why}"));
            return false;
        }
        Known::Unknown { why } => {
            plan.wait(Reason::Draining, *why);
            plan.look_after(LOOK);
            return true;
        }
    };
    let staying = staying(pods, node.ready != Some(true));
    let empty = staying.is_empty() && node.unschedulable;
    if empty && !node.volumes_attached {
        if has_balancers(observed) && !node.excluded {
            let message = "load balancers are told that the node goes";
            plan.wait(Reason::Draining, message);
            plan.drain = Some(Drain::Running(message.to_owned()));
            let uid = node.uid.clone();
            plan.actions.push(Action::Exclude { uid });
            return true;
        }
        plan.drain = Some(Drain::Done);
        return leaves_balancers(plan, observed, now, now);
    }
    let timeout = deadline(observed, now)
        .saturating_sub(PATIENCE)
        .unwrap_or(now);
    let until = evacuated(observed).map_or(timeout, |evacuated| timeout.min(evacuated));
    if until <= now {
        let left = match empty {
            true => "volumes that are not detached".to_owned(),
            false => first(&staying),
        };
        let over = match timeout <= now {
            true => "drainTimeout is over",
            false => "the machine has to leave what runs it now",
        };
        gives_up(plan, format!("{over}; left: {left}"));
        return false;
    }
    if !node.unschedulable {
        plan.publish(
            false,
            Reason::Draining,
            "cordons the node and evicts its pods".to_owned(),
        );
        plan.actions.push(Action::Cordon {
            uid: node.uid.clone(),
        });
    }
    let stay: Vec<_> = staying.iter().copied().filter(|p| !p.going).collect();
    let (message, pause) = match stay.is_empty() {
        true if empty => (
            "waits until volumes are detached from the node".to_owned(),
            LOOK,
        ),
        true => ("pods are leaving the node".to_owned(), LOOK),
        false => (
            format!(
                "waits until disruption budgets allow that pods leave the node: {}",
                first(&stay)
            ),
            BLOCKED,
        ),
    };
    let evicted: Vec<_> = stay.into_iter().cloned().collect();
    plan.wait(Reason::Draining, message.clone());
    plan.drain = Some(Drain::Running(message));
    plan.look_after(pause);
    plan.look_after(Duration::try_from(until.duration_since(now)).unwrap_or_default());
    if !evicted.is_empty() && !observed.evicted {
        plan.actions.push(Action::Evict(evicted));
    }
    true
}

/// The condition that says so, once no pod is waited for any more.
fn drained(observed: &Observed) -> Option<&Condition> {
    let status = observed.machine.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|s| &s.conditions);
    let drained = conditions.find(|c| c.type_ == ConditionType::Drained.as_str());
    drained.filter(|c| c.status == "True" || c.reason == Reason::DrainGivenUp)
}

/// Whether load balancers may send traffic to the node, by way of our cloud controller manager.
fn has_balancers(observed: &Observed) -> bool {
    let cluster = observed.home();
    cluster.is_some_and(|c| c.spec.addons.cloud_controller.enabled)
}

/// True while load balancers turn to other nodes, of which they were told by `since`.
fn leaves_balancers(
    plan: &mut Plan,
    observed: &Observed,
    since: Timestamp,
    now: Timestamp,
) -> bool {
    let leave = SignedDuration::try_from(LEAVE).unwrap_or(SignedDuration::MAX);
    let until = since.saturating_add(leave).unwrap_or(Timestamp::MAX);
    let until = evacuated(observed).map_or(until, |evacuated| until.min(evacuated));
    if !has_balancers(observed) || until <= now {
        return false;
    }
    plan.wait(Reason::Draining, "load balancers turn to other nodes");
    plan.look_after(Duration::try_from(until.duration_since(now)).unwrap_or(LEAVE));
    true
}

fn waits_for_api(plan: &mut Plan, observed: &Observed, message: &str, now: Timestamp) -> bool {
    let waits = is_patient(plan, observed, message, now);
    if !waits {
        gives_up(plan, format!("the tenant's API does not answer: {message}"));
    }
    waits
}

/// Pods that have to be gone before the machine goes, in a fixed order. On a node that is not ready
/// nobody ends the pods that are being deleted, so they are not waited for.
fn staying(pods: &[Pod], dead: bool) -> Vec<&Pod> {
    let mut staying: Vec<_> = pods.iter().filter(|p| !(dead && p.going)).collect();
    staying.sort();
    staying
}

/// The names of a few of them.
fn first(pods: &[&Pod]) -> String {
    let names = pods.iter().map(|p| format!("{}/{}", p.namespace, p.name));
    let more = pods.len().saturating_sub(NAMED);
    let mut text = names.take(NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// Goes on although the node is not drained.
fn gives_up(plan: &mut Plan, why: String) {
    let message = format!("deletes the machine without draining its node further: {why}");
    plan.publish(true, Reason::DrainGivenUp, message);
    plan.drain = Some(Drain::GivenUp(why));
}

/// True while something of the machine is left in the tenant cluster, and worth waiting for.
fn cleans_up(plan: &mut Plan, observed: &Observed, now: Timestamp) -> bool {
    let seen = match &observed.tenant {
        Tenant::Answers(seen) => seen,
        Tenant::Postponed if now < deadline(observed, now) => {
            return waits_for_turn(plan, observed, now);
        }
        Tenant::Postponed => return leaves(plan, observed, "others are slow", now),
        Tenant::Silent { message } => return leaves(plan, observed, message, now),
        Tenant::NotAsked => return leaves(plan, observed, "it has not answered yet", now),
    };
    if let Known::Known(token) = &seen.token {
        plan.actions.push(Action::RevokeToken {
            name: bootstrap_token::token_secret_name(&observed.machine.uid().unwrap_or_default()),
            uid: token.uid.clone(),
        });
    }
    // There is no cloud controller that would do it.
    if let Some(node) = join::own_node(observed, seen) {
        if keeps_volumes(observed, node, now) {
            let ended = ended(observed, seen, node);
            if !ended.is_empty() {
                plan.actions.push(Action::End(ended));
            }
            plan.wait(
                Reason::VolumesAttached,
                "waits until volumes are detached from the node of a machine that is gone",
            );
            plan.look_after(LOOK);
            return true;
        }
        plan.actions.push(Action::DeleteNode {
            uid: node.uid.clone(),
        });
    }
    !plan.actions.is_empty()
}

/// Pods that nobody ends: the tenant's garbage collector would, but looks only every 20 s, and
/// volumes are detached only after that. Neither the virtual machine nor an instance is there, so
/// nothing of them runs.
fn ended(observed: &Observed, seen: &Seen, node: &Node) -> Vec<Pod> {
    let helps = node.out_of_service && !observed.evicted;
    let pods = seen.pods.as_ref().there();
    let going = pods.into_iter().flatten().filter(|pod| helps && pod.going);
    let mut ended: Vec<_> = going.cloned().collect();
    ended.sort();
    ended
}

/// Whether somebody is there who has the volumes of a dead node detached, and has time left.
fn keeps_volumes(observed: &Observed, node: &Node, now: Timestamp) -> bool {
    has_balancers(observed) && node.volumes_attached && now < deadline(observed, now)
}

fn leaves(plan: &mut Plan, observed: &Observed, message: &str, now: Timestamp) -> bool {
    let waits = is_patient(plan, observed, message, now);
    if !waits && observed.has_joined() {
        let name = observed.machine.name_any();
        plan.publish(
            true,
            Reason::NodeLeftBehind,
            format!(
                "the tenant's API does not answer: {message}; Node {name} may be left in the tenant \
                 cluster: delete it with kubectl delete node {name}"
            ),
        );
    }
    waits
}
