//! What of a tenant cluster runs, as [`crate::hibernation`] says, and what is told of it.
//!
//! Invariant: nothing but replicas changes for it: claims, Secrets, Services and templates are as they were, and nothing is
//! deleted. While nothing answers its API is not asked, and what does not run is no failure.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenant_cluster::{EncryptionStatus, HibernationPhase};
use api::{ConditionStatus, ConditionType, Reason, TenantClusterStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::events::Notice;
use kit_objects::object::{Key, Object};
use serde_json::{Value, json};
use tenant_cp::addons::registry;
use tenant_cp::desired::services;
use tenant_cp::hibernation::Scheduled;
use tenant_cp::{Validated, names};

use super::etcd::{Care, identity};
use super::status;
use super::types::{Action, Part, Plan, Target};
use super::{endpoint, workloads};
use crate::controllers::tenant_cluster::observed::{Observed, Tenant};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::hibernation::parts;
use crate::hibernation::place::{self, Entry};
use crate::hibernation::seen::Left;
use crate::hibernation::{self, Facts, Phase, webhooks};
use crate::restoring::Workload;
use crate::rotation::told::goes_on;
use crate::status::Waiting;

pub(super) mod idle;
mod said;

use said::Why;

/// Pause between two looks at one that is put to sleep.
const PAUSE: Duration = Duration::from_secs(5);
/// Pause before a second look where what runs was looked at a moment too early.
const MISSED: Duration = Duration::from_secs(1);
/// Pause between two looks at webhooks that are in its way, or let requests pass.
const BLOCKED: Duration = Duration::from_secs(30);
/// How long the API has to answer before the activator's port is given back: whoever is held needs a moment to be handed on.
const HANDED_ON: SignedDuration = SignedDuration::from_secs(10);

/// Conditions that are False because nothing runs.
const OF_WHAT_RUNS: [ConditionType; 9] = [
    ConditionType::EtcdReady,
    ConditionType::ControlPlaneReady,
    ConditionType::ControllersReady,
    ConditionType::CoreDNSReady,
    ConditionType::KubeProxyReady,
    ConditionType::NetworkReady,
    ConditionType::KonnectivityReady,
    ConditionType::CloudControllerReady,
    ConditionType::CSIReady,
];

/// How far sleep is, and what comes next.
pub(super) struct Sleep {
    facts: Option<Facts>,
    plan: hibernation::Plan,
    why: Why,
    now: Timestamp,
}

impl Sleep {
    /// None where it is awake, and nobody wants anything else. `busy`: why it cannot be sent to sleep; `is_restored`: it has
    /// to run whatever is wanted.
    pub(super) fn new(
        observed: &Observed,
        scheduled: Scheduled,
        busy: Option<&'static str>,
        is_restored: bool,
        now: Timestamp,
    ) -> Option<Self> {
        let seen = observed.hibernation.as_ref()?;
        let facts = Facts::of(&observed.cluster);
        let scheduled = scheduled.asleep_since;
        let spec = &observed.cluster.spec.hibernation;
        // Who is busy is looked at again later; nothing is said of it meanwhile.
        let idle = idle::asleep_since(observed, now);
        let idle = idle.filter(|_| facts.is_some() || busy.is_none());
        let enabled = spec.enabled || scheduled.is_some() || idle.is_some();
        let looked = hibernation::Observed {
            enabled: enabled && !is_restored,
            scheduled,
            asked: seen.asked.as_ref().map(|asked| asked.at),
            facts,
            busy,
            machines: seen.machines,
            left: seen.left.clone(),
            policy: spec.webhooks,
            blocking: seen.blocking.clone(),
            pods: seen.pods(),
            answers: matches!(observed.tenant, Tenant::Answers { .. }) || observed.was_ready(),
            now,
        };
        let why = if is_restored {
            Why::Restored
        } else if looked.is_woken() {
            Why::Asked(seen.asked.as_ref().and_then(|asked| asked.by.clone()))
        } else {
            match (scheduled, idle) {
                _ if spec.enabled => Why::Spec(true),
                (Some(since), _) => Why::PutToSleep(since),
                (None, Some(since)) => Why::Unused(since),
                (None, None) if spec.schedules.is_empty() => Why::Spec(false),
                (None, None) => Why::Scheduled,
            }
        };
        let mut plan = hibernation::plan(&looked);
        let is_asked_for = spec.enabled || scheduled.is_some();
        if !is_asked_for && facts.is_none() && plan.phase == Phase::Awake && busy.is_none() {
            // What the last look found is said until the next one.
            let why = idle::kept_awake(observed, now);
            plan.phase = why.map_or(Phase::Awake, Phase::Busy);
        }
        let place = seen.place.as_ref();
        let uid = observed.cluster.identity_uid();
        if plan.record.is_none() && place.is_some_and(|place| place.is_of(uid)) {
            // Its port would be its own for ever.
            plan.record = facts;
        }
        Some(Self {
            facts,
            plan,
            why,
            now,
        })
    }

    /// Whether it falls asleep, or sleeps: no other change is begun meanwhile.
    pub(super) fn is_on(&self) -> bool {
        !self.plan.held.is_empty()
    }

    fn holds(&self, part: parts::Part) -> bool {
        self.plan.held.contains(&part)
    }

    /// The workloads, those without pods that are to have none.
    pub(super) fn hold(&self, workloads: &mut [Object]) {
        for object in workloads {
            if part_of(object).is_some_and(|part| self.holds(part)) {
                // Hashes stay those of what is wanted: no pod is made from another template for it.
                object.value["spec"]["replicas"] = json!(0);
            }
        }
    }

    /// What has no pods, as others call it.
    pub(super) fn held(&self) -> BTreeSet<Workload> {
        let mut held = BTreeSet::new();
        for (part, workload) in [
            (parts::Part::ControlPlane, Workload::ControlPlane),
            (parts::Part::Etcd, Workload::Etcd),
        ] {
            held.extend(self.holds(part).then_some(workload));
        }
        held
    }

    /// What is made of etcd meanwhile.
    pub(super) fn care(&self, care: Care) -> Care {
        match care {
            Care::Whole if self.holds(parts::Part::Etcd) => Care::Asleep,
            Care::Whole if self.holds(parts::Part::ControlPlane) => Care::AsItIs,
            care => care,
        }
    }

    /// Writes facts down, asks what is left, and says what it waits for.
    pub(super) fn part(&self, valid: &Validated, observed: &Observed) -> Part {
        let mut part = Part::new(PartName::Hibernation);
        if self.plan.record != self.facts {
            let told = self.told();
            let before = observed.cluster.status.as_ref();
            let before = before.and_then(|status| status.hibernation.as_ref());
            let said = said::turn(before, told.as_ref(), &self.why);
            part.actions.push(Action::KeepHibernation { told, said });
        } else if self.plan.ask
            && let Some(address) = endpoint::observed_address(observed)
        {
            part.actions.push(Action::AskLeft { address });
        } else if let Some(step) = self.plan.webhooks
            && let Some(address) = endpoint::observed_address(observed)
        {
            part.actions.push(Action::AskWebhooks { address, step });
        } else {
            self.stand_in(valid, observed, &mut part);
        }
        part.waiting = self.words(observed).map(|message| Waiting {
            reason: self.plan.phase.reason().unwrap_or(Reason::FallingAsleep),
            message,
        });
        part
    }

    /// While nobody serves the activator waits in the place of the control plane, and is told of the first pod that does.
    fn stand_in(&self, valid: &Validated, observed: &Observed, part: &mut Part) {
        let seen = observed.hibernation.as_ref();
        let (Some(facts), Some(seen)) = (self.facts, seen) else {
            return;
        };
        let Some(place) = &seen.place else {
            return;
        };
        let stands = place.of(&valid.identity.uid);
        let is_down = self.holds(parts::Part::ControlPlane);
        let wakes = hibernation::wakes_on_request(&observed.cluster);
        if is_down && wakes && place.addresses.is_empty() {
            // Nobody is there now; what stands there is right again when somebody is.
            return;
        }
        let waits = match self.plan.phase {
            Phase::Waking => stands.is_some(),
            _ => is_down && wakes,
        };
        if waits {
            // Those that end are no place to go.
            let pods: &[Value] = if is_down { &[] } else { &seen.pods };
            let sleeper = place::sleeper(valid, facts.since, pods);
            let others = observed.others.iter();
            let others = others.map(|other| other.identity_uid()).collect();
            if let Some(entry) = place.change(&sleeper, &others) {
                part.actions.push(Action::KeepSleeper(entry));
            } else if let Some((port, _)) = stands.filter(|_| is_down) {
                let slice = services::activator_slice(valid, &place.addresses, port);
                part.apply("activator", observed, slice.into_iter().collect());
            }
        } else if let Some(uid) = &place.slice {
            part.deletions.push(Target {
                key: Key::new(
                    "EndpointSlice",
                    &valid.tenant_namespace,
                    names::ACTIVATOR_SLICE,
                ),
                uid: uid.clone(),
                resource_version: None,
                with_dependents: false,
            });
        } else if let Some((port, _)) = stands.filter(|_| self.serves_for_a_while(observed)) {
            let sleeper = None;
            part.actions
                .push(Action::KeepSleeper(Entry { port, sleeper }));
        }
    }

    /// Whether whoever waited at the activator has been handed on.
    fn serves_for_a_while(&self, observed: &Observed) -> bool {
        let status = observed.cluster.status.as_ref();
        let since = status.and_then(TenantClusterStatus::answers_since);
        since.is_some_and(|since| self.now.duration_since(since) >= HANDED_ON)
    }

    /// What the status says.
    fn told(&self) -> Option<api::tenant_cluster::HibernationStatus> {
        let phase = self.plan.phase.told();
        let phase = phase.unwrap_or(match self.facts {
            Some(_) => HibernationPhase::Awake,
            None => HibernationPhase::FallingAsleep,
        });
        self.plan.record.map(|facts| facts.told(phase))
    }

    /// What it waits for; words that stay the same from one look to the next.
    fn words(&self, observed: &Observed) -> Option<String> {
        let seen = observed.hibernation.as_ref()?;
        let left = |pods: &str| format!("waits until the pods of {pods} are gone");
        Some(match &self.plan.phase {
            Phase::Awake | Phase::Woken | Phase::Asleep => return None,
            Phase::Busy(why) => format!("is put to sleep later: {why}"),
            Phase::Relaxed(why) => why.clone(),
            Phase::Waking => "what ran before it slept starts".to_owned(),
            Phase::Stop(parts::Part::Autoscaler | parts::Part::Machines) => {
                if let Some(why) = webhooks::strict_again(seen.blocking.as_ref()) {
                    return Some(why);
                }
                match (seen.machines, &seen.left) {
                    (0, Some(Left::Some(left))) => {
                        format!("waits until nothing is left on nodes: {left}")
                    }
                    (0, Some(Left::Unknown(why))) => {
                        format!("it is not known what is left on nodes: {why}")
                    }
                    (0, _) => "looks whether anything is left on nodes".to_owned(),
                    (machines, _) => format!("{machines} machines are drained and deleted"),
                }
            }
            Phase::Stop(parts::Part::Adapters) => left("ccm, csi and other addons"),
            Phase::Stop(parts::Part::ControlPlane) => left("the control plane"),
            Phase::Stop(parts::Part::Backup) => {
                left("the backup, which takes the last changes along,")
            }
            Phase::Stop(parts::Part::Etcd) => left("etcd"),
        })
    }

    /// What holds it up, where that is to be said now: who is busy once it is asked to sleep, and what is left on nodes once
    /// it was still there when it was looked at again. Machines and pods that go are no news.
    fn is_held_up(&self, plan: &Plan, observed: &Observed) -> Option<Notice> {
        let words = self.words(observed)?;
        let says = |conditions: &[Condition]| {
            let mut all = conditions.iter();
            all.any(|c| c.type_ == ConditionType::Progressing.as_str() && c.message == words)
        };
        let status = observed.cluster.status.as_ref();
        let said = status.is_some_and(|status| says(&status.conditions));
        let seen = observed.hibernation.as_ref();
        let is_left = seen.is_some_and(|seen| {
            seen.machines == 0 && matches!(seen.left, Some(Left::Some(_) | Left::Unknown(_)))
        });
        match &self.plan.phase {
            Phase::Busy(_) | Phase::Relaxed(_) if !said && says(&plan.status.conditions) => {
                Some(Notice::normal(self.plan.phase.reason()?, words))
            }
            Phase::Stop(parts::Part::Autoscaler | parts::Part::Machines) if said && is_left => {
                Some(Notice::warning(Reason::FallingAsleep, words))
            }
            _ => None,
        }
    }

    /// What the status and Events say of it.
    pub(super) fn report(&self, plan: &mut Plan, observed: &Observed, now: Timestamp) {
        let before = observed.cluster.status.as_ref();
        let before = before.and_then(|status| status.hibernation.as_ref());
        let told = self.told();
        plan.events
            .extend(said::turn(before, told.as_ref(), &self.why));
        plan.status.hibernation = told;
        plan.events.extend(self.is_held_up(plan, observed));
        let place = observed
            .hibernation
            .as_ref()
            .and_then(|seen| seen.place.as_ref());
        let uid = observed.cluster.identity_uid();
        if !self.is_on() && place.is_some_and(|place| place.is_of(uid)) {
            let again = HANDED_ON.unsigned_abs();
            plan.requeue_after = plan.requeue_after.map(|after| after.min(again));
        }
        let is_blocked = observed.hibernation.as_ref();
        let is_blocked = is_blocked.is_some_and(|seen| seen.blocking.is_some());
        if is_blocked && matches!(self.plan.phase, Phase::Busy(_) | Phase::Relaxed(_)) {
            // Nobody watches webhooks, or who answers for them.
            plan.requeue_after = plan.requeue_after.map(|after| after.min(BLOCKED));
        }
        let Some(reason) = self.plan.phase.reason() else {
            return;
        };
        if self.is_on() {
            // It keeps nobody from being rolled out.
            plan.rollout = None;
        }
        if self.is_on() && self.plan.phase != Phase::Asleep {
            // Nobody is woken when the last machine or pod is gone, or what is left inside.
            plan.requeue_after = plan.requeue_after.map(|after| after.min(PAUSE));
        }
        let answers = matches!(observed.tenant, Tenant::Answers { .. });
        let runs = match self.plan.phase {
            Phase::Waking => answers,
            _ => !self.holds(parts::Part::Adapters),
        };
        if runs {
            return;
        }
        let message = self.words(observed);
        let message =
            message.unwrap_or_else(|| "it sleeps, as spec.hibernation asks for".to_owned());
        let settled = self.plan.phase == Phase::Asleep;
        let mut set = status::conditions(plan, observed, now);
        set.set(
            ConditionType::Ready,
            ConditionStatus::False,
            reason,
            &message,
        );
        if settled {
            set.set(
                ConditionType::Progressing,
                ConditionStatus::False,
                reason,
                &message,
            );
        }
        for type_ in OF_WHAT_RUNS {
            if set.says_no(type_) {
                set.set(type_, ConditionStatus::False, reason, "");
            }
        }
    }
}

/// Has it looked at again when its schedules say something else: nobody else wakes the operator then.
pub(super) fn wake_up(plan: &mut Plan, observed: &Observed, scheduled: Scheduled, now: Timestamp) {
    // The moment may have come since it was looked at what runs.
    let is_missed = scheduled.asleep_since.is_some() && observed.hibernation.is_none();
    let next = match is_missed && observed.readable {
        true => Some(MISSED),
        false => scheduled.next.map(|next| {
            let left = Duration::try_from(next.duration_since(now)).unwrap_or_default();
            // Not a moment before it.
            left + Duration::from_millis(1)
        }),
    };
    if let Some(next) = next {
        plan.requeue_after = Some(plan.requeue_after.map_or(next, |after| after.min(next)));
    }
}

/// What of it a workload is.
fn part_of(object: &Object) -> Option<parts::Part> {
    let part = workloads::part_of(object);
    match (object.kind.as_str(), part) {
        ("StatefulSet", _) => Some(parts::Part::Etcd),
        // Nobody asks the etcd of Events but kube-apiservers.
        ("Deployment", PartName::ControlPlane | PartName::Controllers | PartName::EtcdEvents) => {
            Some(parts::Part::ControlPlane)
        }
        ("Deployment", _) if registry::sizes_pools(&object.name) => Some(parts::Part::Autoscaler),
        ("Deployment", _) => Some(parts::Part::Adapters),
        _ => None,
    }
}

/// Why it is not sent to sleep now, beside what keeps it from being rotated.
pub(super) fn busy(observed: &Observed) -> Option<&'static str> {
    let status = observed.cluster.status.as_ref();
    let mut rotations = status.iter().flat_map(|status| &status.rotation);
    if rotations.any(goes_on) {
        return Some("the rotation to be over");
    }
    let encryption = status.and_then(|status| status.encryption.as_ref());
    if encryption.is_some_and(EncryptionStatus::goes_on) {
        return Some("what is encrypted at rest to be switched");
    }
    let etcd = identity::identity(observed);
    let is_repaired = etcd.is_some_and(|etcd| etcd.replacing.is_some());
    is_repaired.then_some("a member of etcd to be replaced")
}
