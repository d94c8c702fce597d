//! What of a tenant cluster runs while it falls asleep, sleeps and wakes. No I/O, no clock, no chance.
//!
//! There is no remembered phase: it follows from what is wanted, from what is seen, and from two facts that cannot be seen
//! again once what tells of them is gone ([`Facts`]), which are written before anything depends on them. Every part asks
//! this one value what of it runs, so that none is left behind half-scaled by an attempt that failed. Laws (`tests`):
//! erasing the phase changes nothing; a crash between any two writes leads to the same end; the control plane stays until
//! nothing is left on a node, the backup until nothing writes to etcd, etcd until the backup is over; waking undoes all of
//! it from wherever it is; asleep nothing is written; nothing is drained before it is known that no webhook keeps it from
//! waking, and that one lets requests pass is written down before it does.

use std::collections::{BTreeMap, BTreeSet};

use api::tenant_cluster::{
    HibernationPhase, HibernationStatus, HibernationWake, HibernationWebhooks, WebhooksStatus,
};
use api::{Reason, TenantCluster};
use jiff::Timestamp;
use tenant_cp::hibernation::{self as schedule, Scheduled};

pub mod idle;
pub mod parts;
pub mod place;
pub mod seen;
#[cfg(test)]
mod tests;
pub mod webhooks;

use parts::{ALL, Part};
use seen::{Blocking, Left};
use webhooks::Step;

/// What cannot be seen again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Facts {
    /// When it was sent to sleep.
    pub since: Timestamp,
    /// Nothing was left on nodes.
    pub drained: bool,
    /// Nothing was left that writes to etcd.
    pub quiet: bool,
    /// What was done about webhooks that would keep it from waking; none where they were not looked at.
    pub webhooks: Option<WebhooksStatus>,
}

/// What is seen.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Whether the spec wants it asleep now.
    pub enabled: bool,
    /// When a schedule last put it to sleep, where it is to sleep by one: requests of before do not count any more.
    pub scheduled: Option<Timestamp>,
    /// Whether requests wake it, and when the last one did.
    pub asked: Option<Timestamp>,
    /// What stands in the status; none where it was not sent to sleep.
    pub facts: Option<Facts>,
    /// Why it is not sent to sleep now, for people.
    pub busy: Option<&'static str>,
    /// How many machines are there.
    pub machines: usize,
    /// What is left inside; none where it was not asked.
    pub left: Option<Left>,
    /// What is to be done about webhooks that would keep it from waking.
    pub policy: HibernationWebhooks,
    /// Those that do now; none where it was not asked.
    pub blocking: Option<Blocking>,
    /// Pods that are there, terminating ones included.
    pub pods: BTreeMap<Part, u32>,
    /// Whether the API answers.
    pub answers: bool,
    /// Now.
    pub now: Timestamp,
}

/// What is to be so, whoever sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    /// How far it is.
    pub phase: Phase,
    /// Facts as they should stand. Where they do not, that is written, and nothing that depends on them is done before.
    pub record: Option<Facts>,
    /// What does not run.
    pub held: BTreeSet<Part>,
    /// Whether it has to be asked what is left inside.
    pub ask: bool,
    /// What has to be asked or done about webhooks inside.
    pub webhooks: Option<Step>,
}

/// How far it is, for people.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Phase {
    /// It runs, and nobody wants it to sleep.
    Awake,
    /// It runs, and is to sleep later; why, for people.
    Busy(String),
    /// These end.
    Stop(Part),
    /// Nothing is left.
    Asleep,
    /// It starts.
    Waking,
    /// It runs, and webhooks still let requests pass; why, for people.
    Relaxed(String),
    /// A request woke it.
    Woken,
}

impl Observed {
    /// Whether a request of after it was sent to sleep wakes it.
    #[must_use]
    pub fn is_woken(&self) -> bool {
        // Also one that a request woke is put to sleep again by the next moment of its schedule.
        let since = self.facts.map(|facts| match self.scheduled {
            Some(scheduled) => scheduled.max(facts.since),
            None => facts.since,
        });
        let is_later = |since| self.asked.is_some_and(|asked| asked > since);
        self.enabled && since.is_some_and(is_later)
    }
}

impl Phase {
    /// What the status calls it; none where it says nothing.
    #[must_use]
    pub fn told(&self) -> Option<HibernationPhase> {
        match self {
            Self::Awake | Self::Busy(_) => None,
            Self::Stop(_) => Some(HibernationPhase::FallingAsleep),
            Self::Asleep => Some(HibernationPhase::Asleep),
            Self::Waking => Some(HibernationPhase::Waking),
            Self::Woken | Self::Relaxed(_) => Some(HibernationPhase::Awake),
        }
    }

    /// What conditions call it; none where it is no matter of sleep what they say.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Awake | Self::Woken => None,
            Self::Busy(_) | Self::Stop(_) => Some(Reason::FallingAsleep),
            Self::Asleep => Some(Reason::Hibernated),
            Self::Waking | Self::Relaxed(_) => Some(Reason::Waking),
        }
    }
}

/// Decides.
#[must_use]
pub fn plan(observed: &Observed) -> Plan {
    let mut plan = Plan {
        phase: Phase::Awake,
        record: observed.facts,
        held: BTreeSet::new(),
        ask: false,
        webhooks: None,
    };
    let Some(facts) = observed.facts else {
        if observed.enabled {
            match observed.busy {
                Some(why) => plan.phase = Phase::Busy(format!("waits for {why}")),
                None => begin(observed, Facts::begun(observed.now), &mut plan),
            }
        }
        return plan;
    };
    if !observed.enabled || observed.is_woken() {
        awake(observed, facts, &mut plan);
    } else {
        asleep(observed, facts, &mut plan);
    }
    plan
}

/// Sends it to sleep, unless webhooks would keep it from waking.
fn begin(observed: &Observed, facts: Facts, plan: &mut Plan) {
    match webhooks::at_begin(
        observed.blocking.as_ref(),
        observed.policy,
        observed.answers,
    ) {
        webhooks::Begin::Ask => plan.webhooks = Some(Step::Look),
        webhooks::Begin::Later(why) => plan.phase = Phase::Busy(why),
        webhooks::Begin::With(webhooks) => {
            plan.record = Some(Facts {
                webhooks: Some(webhooks),
                ..facts
            });
        }
    }
}

/// It is to run, wherever it is.
fn awake(observed: &Observed, facts: Facts, plan: &mut Plan) {
    let slept = facts.drained || facts.quiet;
    plan.phase = match (slept || !observed.answers, observed.enabled) {
        (true, _) => Phase::Waking,
        (false, true) => Phase::Woken,
        (false, false) => Phase::Awake,
    };
    let is_strict = facts.webhooks == Some(WebhooksStatus::Strict);
    let is_relaxed = facts.webhooks.is_some() && !is_strict;
    if slept || (observed.enabled && is_strict) {
        // Who falls asleep again begins again.
        plan.record = Some(Facts {
            webhooks: facts.webhooks.filter(|_| is_relaxed),
            ..Facts::begun(facts.since)
        });
    } else if observed.answers && is_relaxed {
        match webhooks::when_restored(observed.blocking.as_ref()) {
            webhooks::Change::Ask => plan.webhooks = Some(Step::Restore),
            webhooks::Change::Later(why) => plan.phase = Phase::Relaxed(why),
            webhooks::Change::Over => {
                plan.record = observed.enabled.then_some(Facts {
                    webhooks: None,
                    ..facts
                });
            }
        }
    } else if observed.answers && !observed.enabled {
        plan.record = None;
    }
}

/// It is to end, one after the other.
fn asleep(observed: &Observed, mut facts: Facts, plan: &mut Plan) {
    match facts.webhooks.filter(|_| !facts.drained) {
        None if !facts.drained => return begin(observed, facts, plan),
        Some(WebhooksStatus::Relaxing) => return relax(observed, facts, plan),
        None | Some(WebhooksStatus::Strict | WebhooksStatus::Relaxed) => {}
    }
    for part in ALL {
        plan.held.insert(part);
        plan.phase = Phase::Stop(part);
        let is_left = match part {
            // What an autoscaler that ends asks for is not done: pools have no machines whatever their size says.
            Part::Autoscaler => false,
            Part::Machines => {
                let is_over =
                    facts.drained || (is_drained(observed, plan) && is_let(observed, facts, plan));
                !is_over
            }
            Part::Adapters | Part::ControlPlane | Part::Backup | Part::Etcd => {
                observed.pods.get(&part).is_some_and(|pods| *pods > 0)
            }
        };
        if is_left {
            return;
        }
        let fact = match part {
            Part::Machines => &mut facts.drained,
            Part::ControlPlane => &mut facts.quiet,
            Part::Autoscaler | Part::Adapters | Part::Backup | Part::Etcd => continue,
        };
        if !*fact {
            *fact = true;
            plan.record = Some(facts);
            return;
        }
    }
    plan.phase = Phase::Asleep;
}

/// Has webhooks let requests pass; nothing ends before they do.
fn relax(observed: &Observed, mut facts: Facts, plan: &mut Plan) {
    match webhooks::when_relaxed(observed.blocking.as_ref()) {
        webhooks::Change::Ask => plan.webhooks = Some(Step::Relax),
        webhooks::Change::Later(why) => plan.phase = Phase::Busy(why),
        webhooks::Change::Over => {
            facts.webhooks = Some(WebhooksStatus::Relaxed);
            plan.record = Some(facts);
        }
    }
}

/// Whether webhooks that let requests pass do so still: whoever keeps them may have undone it.
fn is_let(observed: &Observed, facts: Facts, plan: &mut Plan) -> bool {
    if facts.webhooks != Some(WebhooksStatus::Relaxed) {
        return true;
    }
    match webhooks::when_relaxed(observed.blocking.as_ref()) {
        webhooks::Change::Ask => plan.webhooks = Some(Step::Relax),
        webhooks::Change::Later(_) => {}
        webhooks::Change::Over => return true,
    }
    false
}

/// Whether nothing is left on nodes, for certain: what is not known is left.
fn is_drained(observed: &Observed, plan: &mut Plan) -> bool {
    if observed.machines > 0 {
        return false;
    }
    plan.ask = observed.left.is_none();
    matches!(observed.left, Some(Left::Nothing))
}

impl Facts {
    fn begun(since: Timestamp) -> Self {
        Self {
            since,
            drained: false,
            quiet: false,
            webhooks: None,
        }
    }

    /// As they stand in the status; none where they do not, or cannot be read.
    #[must_use]
    pub fn of(cluster: &TenantCluster) -> Option<Self> {
        let status = cluster.status.as_ref()?.hibernation.as_ref()?;
        Some(Self {
            // One that cannot be read is of before everything: a request that was ever made wakes it.
            since: status.since.parse().unwrap_or(Timestamp::MIN),
            drained: status.drained,
            quiet: status.quiet,
            webhooks: status.webhooks,
        })
    }

    /// As they are to stand in the status.
    #[must_use]
    pub fn told(self, phase: HibernationPhase) -> HibernationStatus {
        HibernationStatus {
            phase,
            since: self.since.to_string(),
            drained: self.drained,
            quiet: self.quiet,
            webhooks: self.webhooks,
        }
    }
}

/// Whether machines of a tenant cluster's pools are to be there. Until it was sent to sleep they are, and as soon as it
/// wakes; a phase that is not known is what the facts say.
#[must_use]
pub fn holds_machines(cluster: &TenantCluster) -> bool {
    let status = cluster.status.as_ref().and_then(|s| s.hibernation.as_ref());
    status.is_some_and(|status| {
        matches!(
            status.phase,
            HibernationPhase::FallingAsleep | HibernationPhase::Asleep
        )
    })
}

/// Whether the process that backs it up has no pod now: nothing writes to etcd any more.
#[must_use]
pub fn holds_backup(cluster: &TenantCluster) -> bool {
    holds_machines(cluster) && Facts::of(cluster).is_some_and(|facts| facts.quiet)
}

/// Whether its API is left alone: it does not run, and whoever asks would wake it.
#[must_use]
pub fn is_left_alone(cluster: &TenantCluster) -> bool {
    holds_machines(cluster) && Facts::of(cluster).is_some_and(|facts| facts.drained)
}

/// Whether it has to be looked at what of it runs.
#[must_use]
pub fn is_of_interest(cluster: &TenantCluster, now: Timestamp) -> bool {
    let status = cluster.status.as_ref();
    let is_known = status.is_some_and(|s| s.hibernation.is_some());
    is_known
        || cluster.spec.hibernation.enabled
        || scheduled(cluster, now).asleep_since.is_some()
        || idle::is_over(cluster, now).is_some()
}

/// What the schedules of a tenant cluster say now.
#[must_use]
pub fn scheduled(cluster: &TenantCluster, now: Timestamp) -> Scheduled {
    schedule::of(&cluster.spec.hibernation.schedules, now)
}

/// Whether requests wake it.
#[must_use]
pub fn wakes_on_request(cluster: &TenantCluster) -> bool {
    cluster.spec.hibernation.wake == HibernationWake::OnRequest
}
