//! What the status, conditions and Events say of an upgrade.
//!
//! Invariant: where nothing changes nothing else is said.

use std::time::Duration;

use api::tenant_cluster::{UpgradeFailure, UpgradeFailurePolicy, UpgradePhase, UpgradeStatus};
use api::{ConditionStatus, ConditionType, Reason};
use jiff::Timestamp;
use kit::events::Notice;

use super::facts::until_calm;
use super::failing::Watched;
use super::soak::Soak;
use super::{Upgrade, reason, sentences};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::status::conditions;
use crate::controllers::tenant_cluster::plan::types::Plan;
use crate::upgrades::finding::{Check, Finding, Verdict, told};
use crate::upgrades::snapshot::{self, State};
use crate::upgrades::versions::Wanted;

/// Pause between two looks at what speaks against one: nobody is woken when it is gone.
const PAUSE: Duration = Duration::from_secs(60);
/// Pause before one begins, or is taken back: its status is written first.
const AT_ONCE: Duration = Duration::from_secs(1);

impl Upgrade {
    /// What the status and Events say of it.
    pub(in super::super) fn report(&self, plan: &mut Plan, observed: &Observed, now: Timestamp) {
        let before = observed.cluster.status.as_ref();
        let before = before.and_then(|status| status.upgrade.clone());
        let Some(wanted) = self.wanted() else {
            let served = plan.status.version.clone().unwrap_or_default();
            if before.is_some_and(|before| before.to == served) {
                let message = format!("the control plane has Kubernetes {served}");
                plan.events.push(Notice::normal(Reason::Upgraded, message));
            }
            plan.status.upgrade = None;
            return;
        };
        let before = before.filter(|before| wanted.is_of(before));
        let mut after = before.clone().unwrap_or_else(|| UpgradeStatus {
            from: wanted.from.to_string(),
            to: wanted.to.to_string(),
            since: now.to_string(),
            ..UpgradeStatus::default()
        });
        match self {
            // What was found stays until it is known again.
            Self::None | Self::Asking(_) => {}
            Self::Judged {
                findings,
                may_begin,
                is_told,
                snapshot,
                ..
            } => {
                if *snapshot == State::There {
                    after.snapshot = Some(snapshot::name(wanted, &observed.cluster));
                }
                let of = |holds: bool| {
                    let holds =
                        move |f: &&Finding| (!may_begin && f.verdict != Verdict::Warn) == holds;
                    told(findings.iter().filter(holds))
                };
                enter(&mut after, UpgradePhase::Checking, now);
                forget_failure(&mut after);
                (after.blockers, after.warnings) = (of(true), of(false));
                plan.events
                    .extend(notice(&after, before.as_ref(), findings, *may_begin));
                let again = match (may_begin, is_told) {
                    (true, true) => None,
                    (true, false) => Some(AT_ONCE),
                    (false, _) => Some(pause(findings, observed, now)),
                };
                sooner(plan, again);
            }
            Self::Snapshotting {
                findings, snapshot, ..
            } => {
                enter(&mut after, UpgradePhase::Snapshotting, now);
                forget_failure(&mut after);
                (after.blockers, after.warnings) = (Vec::new(), told(findings.iter()));
                after.snapshot = Some(snapshot::name(wanted, &observed.cluster));
                let left = match snapshot {
                    State::Awaited(left) => *left + Duration::from_secs(1),
                    _ => PAUSE,
                };
                sooner(plan, Some(left.min(PAUSE)));
            }
            Self::Emulating { soak, watched, .. } => {
                enter(&mut after, watched.phase, now);
                let again = match soak {
                    Soak::Goes(left) => Some(*left + Duration::from_secs(1)),
                    Soak::Blocked(_) | Soak::Unreadable(_) => Some(PAUSE),
                    Soak::Rolling | Soak::Asking | Soak::Over => None,
                };
                sooner(plan, again);
                match soak {
                    Soak::Blocked(findings) => {
                        after.blockers = told(findings.iter());
                        plan.events
                            .extend(notice(&after, before.as_ref(), findings, false));
                    }
                    Soak::Asking => {}
                    _ => after.blockers = Vec::new(),
                }
                // Whether stored objects can be read is known when they were asked for.
                if watched.failed.is_some() || !matches!(soak, Soak::Asking) {
                    watched.report(plan, &mut after, wanted, observed, now);
                }
            }
            Self::Begun { watched, .. } => {
                enter(&mut after, watched.phase, now);
                after.blockers = Vec::new();
                watched.report(plan, &mut after, wanted, observed, now);
            }
            Self::Failed { back, .. } => {
                enter(&mut after, back.phase(), now);
                after.blockers = Vec::new();
                let told = back.told(wanted);
                let was_over = before.is_some_and(|b| b.phase == UpgradePhase::RolledBack);
                if back.is_over && !was_over {
                    let message = told.message.clone();
                    plan.events.push(Notice::warning(told.reason, message));
                }
                // Only where nothing else is to be said.
                if back.is_over && is_at_rest(plan) {
                    let value = ConditionStatus::False;
                    conditions(plan, observed, now).set(
                        ConditionType::Progressing,
                        value,
                        told.reason,
                        &told.message,
                    );
                }
            }
        }
        plan.status.upgrade = Some(after);
    }
}

impl Watched {
    /// Says that it failed; what is written here is what it is taken back by.
    fn report(
        &self,
        plan: &mut Plan,
        after: &mut UpgradeStatus,
        wanted: &Wanted,
        observed: &Observed,
        now: Timestamp,
    ) {
        sooner(plan, self.again);
        // Once all programs have it nothing is left to fail.
        let is_over = plan.status.version.as_deref() == Some(after.to.as_str());
        let Some(failed) = self.failed.as_ref().filter(|_| !is_over) else {
            return forget_failure(after);
        };
        let same = |told: &UpgradeFailure| (told.reason, told.phase) == (failed.reason, self.phase);
        let was_told = after.failure.as_ref().is_some_and(same);
        if !was_told {
            after.failure = Some(UpgradeFailure {
                reason: failed.reason,
                phase: self.phase,
                message: failed.message.clone(),
                at: now.to_string(),
            });
        }
        let spec = &observed.cluster.spec.upgrade;
        let reason = match spec.on_failure {
            UpgradeFailurePolicy::Hold => Reason::UpgradeFailed,
            UpgradeFailurePolicy::RollBack => {
                after.failed_version = Some(wanted.to.to_string());
                after.failed_retry = Some(spec.retry);
                sooner(plan, Some(AT_ONCE));
                Reason::RollingBack
            }
        };
        if !was_told {
            let message = format!(
                "the upgrade to Kubernetes {} failed: {}",
                wanted.to, failed.message
            );
            plan.events.push(Notice::warning(reason, message));
        }
    }
}

/// Whether nothing is on its way.
fn is_at_rest(plan: &Plan) -> bool {
    let type_ = ConditionType::Progressing.as_str();
    let mut conditions = plan.status.conditions.iter();
    conditions.any(|c| c.type_ == type_ && c.reason == Reason::AsDesired.as_str())
}

/// Notes when a phase is first seen; before anything is rolled out nothing counts from it.
fn enter(status: &mut UpgradeStatus, phase: UpgradePhase, now: Timestamp) {
    let since = match phase {
        UpgradePhase::Checking => None,
        phase if phase == status.phase => status.phase_since.take(),
        _ => None,
    };
    let is_checked = phase == UpgradePhase::Checking;
    status.phase = phase;
    status.phase_since = since.or_else(|| (!is_checked).then(|| now.to_string()));
}

fn forget_failure(status: &mut UpgradeStatus) {
    status.failure = None;
    status.failed_version = None;
    status.failed_retry = None;
}

fn sooner(plan: &mut Plan, again: Option<Duration>) {
    plan.requeue_after = plan.requeue_after.into_iter().chain(again).min();
}

/// An Event where something else is found than before.
fn notice(
    after: &UpgradeStatus,
    before: Option<&UpgradeStatus>,
    findings: &[Finding],
    may_begin: bool,
) -> Option<Notice> {
    let same = |before: &UpgradeStatus| {
        before.blockers == after.blockers && before.warnings == after.warnings
    };
    if before.is_some_and(same) || findings.is_empty() {
        return None;
    }
    let all = match after.blockers.is_empty() {
        true => &after.warnings,
        false => &after.blockers,
    };
    let message = format!(
        "from Kubernetes {} to {}: {}",
        after.from,
        after.to,
        sentences(all)
    );
    match may_begin {
        true => Some(Notice::normal(Reason::UpgradeWarned, message)),
        false => Some(Notice::warning(reason(findings), message)),
    }
}

/// When to look again.
fn pause(findings: &[Finding], observed: &Observed, now: Timestamp) -> Duration {
    let waits = findings.iter().any(|f| f.check == Check::Rest);
    let left = until_calm(observed, now).filter(|left| waits && !left.is_zero());
    let second = Duration::from_secs(1);
    left.map_or(PAUSE, |left| (left + second).min(PAUSE))
}
