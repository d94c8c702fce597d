//! The status that follows from an observation, and the plans that only change the status.
//!
//! Invariant: Ready is True only when the tenant's API answered an authenticated request in this
//! very reconcile; replicas alone never make it so.

use std::time::Duration;

use api::condition::is_true;
use api::{ConditionStatus, ConditionType, Reason, TenantClusterStatus};
use jiff::Timestamp;
use kit::events::Notice;
use kit_objects::known::Known;
use tenant_cp::rollout::order::{self, Cause, Facts, Progress};
use tenant_cp::{Validated, certificates, names, version};

use super::types::{Part, Plan, SLOW_SWEEP};
use super::{endpoint, etcd, events};
use crate::controllers::tenant_cluster::observed::{Observed, Tenant, Way};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;

mod addons;
pub(super) mod conditions;
pub(super) mod controllers;
mod minimum;
mod parts;

pub(super) use conditions::conditions;

const BREAKER_PAUSE: Duration = Duration::from_secs(30);
/// Pause between two looks at one that a probe waits for: it is woken.
const SILENT_SWEEP: Duration = Duration::from_secs(600);
/// Pause between two looks at one that waits for its turn: it is woken, unless somebody who was to come before it
/// is gone.
const TURN_SWEEP: Duration = Duration::from_secs(120);
/// Pause between two tries to reach the published endpoint: nobody is woken when it can be reached.
const UNREACHED_PAUSE: Duration = Duration::from_secs(300);
/// Pause between two looks at load balancers that go: nobody is woken by them.
const REMOVING_PAUSE: Duration = Duration::from_secs(5);

/// Pause between two looks at a member of etcd that is being replaced: nobody is woken when it has its data.
const REPLACING_PAUSE: Duration = Duration::from_secs(2);
/// The same while it is not begun.
const MEMBER_LOST_PAUSE: Duration = Duration::from_secs(10);

/// The plan of these parts: the status that follows from them and from the observation.
pub(super) fn report(
    parts: Vec<Part>,
    in_place: Option<String>,
    rollout: Facts,
    valid: &Validated,
    observed: &Observed,
    now: Timestamp,
) -> Plan {
    // Who waits by its user's wish keeps no place in the queue, and holds up nobody.
    let waits = super::rollout::own_wait(observed, rollout, now).is_some();
    let wanted = rollout.wanted();
    let mut plan = Plan {
        parts,
        rollout: wanted.filter(|cause| *cause == Cause::Change || !waits),
        ..Plan::unchanged(observed)
    };
    let is_in_place = in_place.is_some();
    facts(&mut plan.status, in_place, rollout, valid, observed);
    super::rollout::record(&mut plan.status, rollout, is_in_place, observed);
    let addons = addons::states(valid, observed);
    let settled = plan.is_settled();
    let problem = plan.parts.iter().find_map(|part| part.problem.clone());
    // The API does without them.
    let beside = |part: &&Part| part.name != PartName::Controllers;
    let mut needed = plan.parts.iter().filter(beside);
    let problem_of_api = needed.find_map(|part| part.problem.clone());
    let disbelieved = disbelieved(rollout, valid, observed);
    let problem = problem.or_else(|| disbelieved.clone());
    let problem_of_api = problem_of_api.or(disbelieved);
    let waiting = waiting(&plan, rollout, valid, observed);
    let certificates = parts::certificates(&plan, observed);
    let mut parts_of_plan = plan.parts.iter();
    let restore = parts_of_plan.find(|part| part.name == PartName::Restore);
    let restoring = restore.and_then(|part| part.waiting.clone());
    let mut set = conditions(&mut plan, observed, now);
    parts::report(&mut set, valid, observed);
    controllers::report(&mut set, observed);
    let outdated = minimum::report(&mut set, observed, now);
    let without_controllers = controllers::missing(&set, observed);
    if let Tenant::Answers { way, .. } = &observed.tenant {
        set.reached(way);
    }
    addons::report(&mut set, &addons, observed);
    if let Some((value, reason, message)) = certificates {
        set.set(ConditionType::CertificatesReady, value, reason, &message);
    }
    // Why parts failed is said by who carried them out.
    if observed.failures.is_empty() {
        let degraded = match &problem {
            Some(problem) => (
                ConditionStatus::True,
                problem.reason,
                problem.message.as_str(),
            ),
            None => (ConditionStatus::False, Reason::AsExpected, ""),
        };
        set.set(ConditionType::Degraded, degraded.0, degraded.1, degraded.2);
    }
    let progressing = !settled || waiting.is_some();
    let (reason, message) = match (&waiting, &problem) {
        (Some(waiting), _) => (waiting.reason, waiting.message.as_str()),
        (None, _) if !settled => (
            Reason::Applying,
            "writes what differs from the wanted state",
        ),
        (None, Some(problem)) => (problem.reason, problem.message.as_str()),
        (None, None) => (Reason::AsDesired, ""),
    };
    let told = observed.cluster.status.as_ref();
    let told = told.and_then(|s| s.observed_generation) == observed.cluster.metadata.generation;
    if observed.failures.is_empty() && !(observed.is_postponed() && told) {
        set.set(
            ConditionType::Progressing,
            progressing.into(),
            reason,
            message,
        );
    }
    match &observed.tenant {
        Tenant::Answers { way, .. } => {
            let without_addons = addons::missing(&addons);
            let broken = [
                (Reason::ControllersNotReady, without_controllers),
                (Reason::AddonsNotReady, without_addons),
            ];
            let mut broken = broken.into_iter().filter_map(|(r, m)| Some((r, m?)));
            match (etcd::alarm(observed), broken.next()) {
                // It serves reads and deletions alone, or what nobody should believe.
                (Some(alarm), _) => {
                    let value = ConditionStatus::False;
                    set.set(ConditionType::Ready, value, alarm.reason, &alarm.message);
                }
                (None, Some((reason, message))) => set.answers_without(reason, &message),
                (None, None) => set.answered(way),
            }
        }
        Tenant::Silent { message } if observed.was_ready() || observed.has_been_ready() => {
            let problem = problem_of_api.as_ref();
            set.unreachable(problem.map_or(message, |problem| &problem.message));
        }
        Tenant::Silent { message } => {
            set.set(
                ConditionType::Ready,
                ConditionStatus::False,
                reason,
                message,
            );
        }
        // What is not known stays.
        Tenant::Postponed if observed.is_postponed() => {}
        // It is about to be asked.
        Tenant::NotAsked if observed.was_ready() && !settled => {}
        Tenant::NotAsked if observed.has_been_ready() && settled => {
            let message = match &problem_of_api {
                Some(problem) => problem.message.clone(),
                None => not_asked(observed, "its Deployment or an address is missing"),
            };
            set.unreachable(&message);
        }
        Tenant::NotAsked | Tenant::Postponed => {
            set.set(
                ConditionType::Ready,
                ConditionStatus::False,
                reason,
                message,
            );
        }
    }
    let answers = matches!(observed.tenant, Tenant::Answers { .. });
    if let Some(Waiting { reason, message }) = restoring.filter(|_| !answers) {
        let value = ConditionStatus::False;
        set.set(ConditionType::Ready, value, reason, &message);
    }
    if let Some(problem) = &problem {
        let notice = Notice::warning(problem.reason, problem.message.clone());
        plan.events.push(notice);
    }
    plan.events.extend(outdated);
    plan.status
        .minimum_version
        .clone_from(&observed.patch.minimum);
    let repairs = [
        Reason::ReplacingMember,
        Reason::ResizingEtcd,
        Reason::Defragmenting,
    ];
    let replacing = waiting.as_ref().filter(|w| repairs.contains(&w.reason));
    if let Some(Waiting { reason, message }) = replacing {
        plan.events.push(Notice::normal(*reason, message.clone()));
    }
    let is_lost = problem
        .as_ref()
        .is_some_and(|p| p.reason == Reason::MemberLost);
    let is_over = replacing.is_none() && !is_lost && etcd::replacement::is_over(observed);
    plan.events
        .extend(is_over.then(etcd::replacement::told_at_the_end));
    let is_relieved = etcd::space::is_relieved(observed);
    plan.events
        .extend(is_relieved.then(etcd::space::told_at_the_end));
    let mut waits = waiting.iter();
    let is_resized = waits.all(|w| w.reason != Reason::ResizingEtcd)
        && etcd::replacement::is_resized(valid, observed);
    plan.events
        .extend(is_resized.then(etcd::replacement::told_of_the_number));
    transitions(&mut plan, observed);
    let replaces = plan.parts.iter().filter_map(|part| part.waiting.as_ref());
    let replaces = replaces
        .filter_map(|waiting| repair_pause(waiting.reason))
        .min();
    let mut requeue_after = requeue(observed, waiting.as_ref(), now);
    let of_etcd = plan.parts.iter().find(|part| part.name == PartName::Etcd);
    let rolls = of_etcd
        .and_then(|part| part.waiting.as_ref())
        .filter(|told| [Reason::RollingOut, Reason::Defragmenting].contains(&told.reason))
        .and_then(|_| etcd::rolls_again(valid, observed, now));
    let of_disks = etcd::disks::again(valid, observed, now);
    let of_events = events::again(valid, observed, now);
    for pause in [replaces, rolls, of_disks, of_events].into_iter().flatten() {
        requeue_after = requeue_after.min(pause);
    }
    let waits_for_turn = waiting
        .as_ref()
        .is_some_and(|w| w.reason == Reason::WaitingForRollout);
    if waits_for_turn && plan.rollout == Some(Cause::Change) {
        // Who has a place gives it up after a while, and tells nobody. One of the fleet does not.
        requeue_after = requeue_after.min(crate::rollouts::queue::PATIENCE);
    }
    let of_maintenance = super::rollout::again(observed, rollout, now);
    for moment in [of_maintenance, minimum::again(observed, now)]
        .into_iter()
        .flatten()
    {
        let left = Duration::try_from(moment.duration_since(now)).unwrap_or_default();
        // Later than the moment, never earlier.
        requeue_after = requeue_after.min(left + Duration::from_millis(1));
    }
    plan.requeue_after = Some(requeue_after);
    plan.waiting_on = waiting.or(problem);
    plan
}

/// After which time what mends etcd is gone on with.
fn repair_pause(reason: Reason) -> Option<Duration> {
    match reason {
        Reason::ReplacingMember | Reason::ResizingEtcd | Reason::Defragmenting => {
            Some(REPLACING_PAUSE)
        }
        // Nobody is woken when the last of the old pods is gone.
        Reason::MemberLost | Reason::Rotating => Some(MEMBER_LOST_PAUSE),
        // Nobody is woken when the last pod is gone, or a Job is over.
        Reason::Restoring => Some(REPLACING_PAUSE),
        _ => None,
    }
}

/// Why the API cannot be asked: what is missing is said only where that can be seen.
pub(super) fn not_asked(observed: &Observed, missing: &str) -> String {
    let why = match observed.started() {
        Known::Unknown { why } => why,
        Known::Known(_) | Known::Absent => missing,
    };
    format!("the API cannot be asked: {why}")
}

fn facts(
    status: &mut TenantClusterStatus,
    in_place: Option<String>,
    rollout: Facts,
    valid: &Validated,
    observed: &Observed,
) {
    let ns = &valid.tenant_namespace;
    if let Known::Known(_) = observed.find("Namespace", "", ns) {
        status.namespace = Some(ns.clone());
    }
    // What cannot be read is as it was.
    if observed.readable {
        status.certificates = certificates::status(&observed.material.store);
        endpoint::keep(valid, observed, status);
        status.endpoint = endpoint::addresses(valid, observed).and_then(|a| a.endpoint);
    }
    let secret = api::names::kubeconfig_secret(&valid.name);
    match observed.find("Secret", &valid.namespace, &secret) {
        Known::Known(_) => status.kubeconfig_secret = Some(secret),
        Known::Absent => status.kubeconfig_secret = None,
        Known::Unknown { .. } => {}
    }
    if let Some(hash) = in_place {
        status.bootstrap_hash = Some(hash);
    }
    if let Tenant::Answers { version, .. } = &observed.tenant
        && let Some(served) = version::served(version, &valid.version)
    {
        // While old pods still serve, the old version stays: it is never reported early, and machines, which
        // follow it, are not replaced before there is somebody to let them join. The first answer of all
        // comes from the only version there is.
        let programs = order::programs(rollout.control_plane, rollout.controllers);
        let is_whole = programs == Progress::Current && valid.emulated.is_none();
        if status.version.is_none() || is_whole {
            status.version = Some(served.to_string());
        }
    }
}

/// The API says that it is what no pod of ours is. Were it believed, the spec would be judged by it. While
/// pods are replaced one of a version that was taken back may answer.
fn disbelieved(rollout: Facts, valid: &Validated, observed: &Observed) -> Option<Waiting> {
    let Tenant::Answers { version, .. } = &observed.tenant else {
        return None;
    };
    if rollout.control_plane != Progress::Current {
        return None;
    }
    let asked = &valid.version;
    version::served(version, asked).is_none().then(|| Waiting {
        reason: Reason::ServesOtherVersion,
        message: format!(
            "the API says that it is Kubernetes {version:?}, and {asked} was asked for; that is not \
             believed: see which image of the kube-apiserver {} has, and who answers in its place",
            valid.registry
        ),
    })
}

fn waiting(plan: &Plan, rollout: Facts, valid: &Validated, observed: &Observed) -> Option<Waiting> {
    if let Some(waiting) = plan.parts.iter().find_map(|part| part.waiting.clone()) {
        return Some(waiting);
    }
    if observed.tenant == Tenant::Postponed {
        let message = "the API is asked when others that are slow to answer have been";
        return Some(Waiting {
            reason: Reason::WaitingForTurn,
            message: message.to_owned(),
        });
    }
    if let Tenant::Silent { message } = &observed.tenant {
        let (reason, message) = match observed.has_been_ready() {
            true => (Reason::ApiUnreachable, message.clone()),
            false => (
                Reason::Starting,
                format!("the API does not answer yet: {message}"),
            ),
        };
        return Some(Waiting { reason, message });
    }
    // Without its keys nothing is rolled out, and what is wrong is said elsewhere.
    let deployments = [names::CONTROL_PLANE, names::CONTROLLERS];
    let has_all = |name: &&str| observed.has_all_pods(name, valid.replicas);
    let is_rolled_out =
        (rollout.keys_are_lost || rollout.is_over()) && deployments.iter().all(has_all);
    if matches!(observed.tenant, Tenant::Answers { .. }) && !is_rolled_out {
        let message = "pods of an older template still serve, or new ones are not ready yet";
        return Some(Waiting {
            reason: Reason::RollingOut,
            message: message.to_owned(),
        });
    }
    None
}

pub(super) fn transitions(plan: &mut Plan, observed: &Observed) {
    let was_ready = observed.was_ready();
    let is_ready = is_true(&plan.status.conditions, ConditionType::Ready);
    match &observed.tenant {
        Tenant::Answers { version, .. } if is_ready && !was_ready => {
            let message = format!("the API answers and serves Kubernetes {version}");
            plan.events.push(Notice::normal(Reason::Ready, message));
        }
        Tenant::Silent { message } if was_ready => {
            plan.events
                .push(Notice::warning(Reason::ApiUnreachable, message));
        }
        _ => {}
    }
}

/// Without an event: before a certificate is due. One that starts, does not answer or waits for its turn is woken
/// by a probe or a permit, and each look at it costs others a dozen requests at the management API.
pub(super) fn requeue(observed: &Observed, waiting: Option<&Waiting>, now: Timestamp) -> Duration {
    if etcd::alarm(observed).is_some() {
        return BREAKER_PAUSE;
    }
    if let Tenant::Answers {
        way: Way::Service { .. },
        ..
    } = observed.tenant
    {
        return UNREACHED_PAUSE;
    }
    match waiting.map(|w| w.reason) {
        Some(Reason::WaitingForStart) => return crate::rollouts::queue::PATIENCE,
        Some(Reason::RemovingCloudController | Reason::SwitchingOverlayOff) => {
            return REMOVING_PAUSE;
        }
        _ => {}
    }
    let ends = observed
        .material
        .store
        .values()
        .filter_map(|pair| pki::not_after(&pair.certificate));
    let left = ends.min().map_or(SLOW_SWEEP, |end| {
        // Half of what is left: the check after the last one before a third is left renews.
        Duration::try_from(end.duration_since(now) / 2).unwrap_or_default()
    });
    let longest = match observed.tenant {
        Tenant::Silent { .. } => SILENT_SWEEP,
        Tenant::Postponed => TURN_SWEEP,
        Tenant::NotAsked | Tenant::Answers { .. } => SLOW_SWEEP,
    };
    left.clamp(Duration::from_secs(30), longest)
}

pub(super) fn deleting(mut plan: Plan, observed: &Observed, now: Timestamp) -> Plan {
    let waiting = plan.waiting_on.clone();
    let message = waiting.map(|w| w.message).unwrap_or_default();
    let mut set = conditions(&mut plan, observed, now);
    set.set(
        ConditionType::Ready,
        ConditionStatus::False,
        Reason::Deleting,
        &message,
    );
    set.set(
        ConditionType::Progressing,
        ConditionStatus::True,
        Reason::Deleting,
        &message,
    );
    plan.requeue_after = Some(BREAKER_PAUSE);
    plan
}
