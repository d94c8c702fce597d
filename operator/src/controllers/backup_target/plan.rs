//! Whether a BackupTarget is to be checked, and what its status says. No I/O, no clock, no chance.
//!
//! Invariant: nothing is remembered but in Jobs: what one says holds until another says otherwise, or until the spec is
//! another one. A check that stands still is as good as one that failed. While a target is checked again, what was said
//! of it stays; the words of one failure stay, too, whatever the store adds to them each time.

use api::{
    BackupTarget, BackupTargetStatus, ConditionStatus, ConditionType, Reason, set_condition,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// How soon a target that was usable is checked again: what goes wrong meanwhile, its backups tell.
const USABLE_LASTS: SignedDuration = SignedDuration::from_hours(24);
/// How soon one that was not is: whoever mends a Secret waits for it.
const UNUSABLE_LASTS: SignedDuration = SignedDuration::from_mins(5);
/// How long a check may take. The program itself gives up long before.
const LONGEST: SignedDuration = SignedDuration::from_mins(5);

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The checks of this target that there are.
    pub checks: Vec<Check>,
    /// Name of the one that the spec wants.
    pub wanted: String,
}

/// A Job that checks the target.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// As it was seen.
    pub resource_version: String,
    /// Whether it is being deleted.
    pub is_going: bool,
    /// How far it is.
    pub progress: Progress,
    /// What it says, where it failed.
    pub report: Option<Report>,
    /// Why its pod does not run.
    pub waits_for: Option<String>,
}

/// How far a check is, and since when.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// It was made, and is not over.
    Runs(Timestamp),
    /// The target is usable.
    Succeeded(Timestamp),
    /// It is not.
    Failed(Timestamp),
}

/// What a check says that failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// The call, and why it failed: the same words each time.
    pub why: String,
    /// What else was said, which may differ each time.
    pub detail: String,
}

/// A Job that is to end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Doomed {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// As it was seen.
    pub resource_version: String,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The status as it should be.
    pub status: BackupTargetStatus,
    /// Whether the wanted Job is made.
    pub make: bool,
    /// Jobs that go.
    pub delete: Vec<Doomed>,
    /// When to look again, unless something happens.
    pub again: Option<SignedDuration>,
}

/// What is said of the target.
enum Said {
    /// As before, if that was said of this spec.
    Unchanged,
    Is(ConditionStatus, Reason, String),
}

/// Decides.
#[must_use]
pub fn plan(target: &BackupTarget, observed: &Observed, now: Timestamp) -> Plan {
    let before = target.status.clone().unwrap_or_default();
    if target.metadata.deletion_timestamp.is_some() {
        // Its Jobs are its own, and go with it.
        return Plan {
            status: before,
            make: false,
            delete: Vec::new(),
            again: None,
        };
    }
    let is_wanted = |check: &&Check| check.name == observed.wanted;
    let mut delete: Vec<_> = observed
        .checks
        .iter()
        .filter(|check| !is_wanted(check) && !check.is_going)
        .map(doomed)
        .collect();
    let current = observed.checks.iter().find(is_wanted);
    let (said, left) = match current {
        None => (Said::Unchanged, None),
        Some(check) if check.is_going => (Said::Unchanged, None),
        Some(check) => judged(check, now),
    };
    let is_over = left.is_some_and(|left| left <= SignedDuration::ZERO);
    if let Some(check) = current.filter(|_| is_over) {
        delete.push(doomed(check));
    }
    Plan {
        status: status(target, &before, said, now),
        make: current.is_none(),
        delete,
        again: left.filter(|_| !is_over),
    }
}

fn doomed(check: &Check) -> Doomed {
    Doomed {
        name: check.name.clone(),
        uid: check.uid.clone(),
        resource_version: check.resource_version.clone(),
    }
}

/// What a check says, and for how long that holds.
fn judged(check: &Check, now: Timestamp) -> (Said, Option<SignedDuration>) {
    // A clock that was ahead makes nothing last longer than it would from now.
    let left = |since: Timestamp, lasts: SignedDuration| {
        Some((lasts - now.duration_since(since)).min(lasts))
    };
    match check.progress {
        Progress::Succeeded(at) => {
            let said = Said::Is(
                ConditionStatus::True,
                Reason::TargetAnswers,
                "an object was created, not written over, read, listed and deleted".to_owned(),
            );
            (said, left(at, USABLE_LASTS))
        }
        Progress::Failed(at) => {
            let said = match &check.report {
                Some(report) => unusable(report),
                None => not_run(check),
            };
            (said, left(at, UNUSABLE_LASTS))
        }
        Progress::Runs(since) => {
            let left = left(since, LONGEST);
            let is_stuck = left.is_some_and(|left| left <= SignedDuration::ZERO);
            let said = match is_stuck {
                true => not_run(check),
                false => Said::Unchanged,
            };
            (said, left)
        }
    }
}

fn unusable(report: &Report) -> Said {
    let message = match report.detail.as_str() {
        "" => report.why.clone(),
        detail => format!("{} ({detail})", report.why),
    };
    Said::Is(ConditionStatus::False, Reason::TargetUnusable, message)
}

fn not_run(check: &Check) -> Said {
    let message = match &check.waits_for {
        Some(why) => why.clone(),
        None => format!("Job {} ended or waits, and says nothing", check.name),
    };
    Said::Is(ConditionStatus::Unknown, Reason::CheckNotRun, message)
}

fn status(
    target: &BackupTarget,
    before: &BackupTargetStatus,
    said: Said,
    now: Timestamp,
) -> BackupTargetStatus {
    let mut status = before.clone();
    let generation = target.metadata.generation;
    status.observed_generation = generation;
    let known = before
        .conditions
        .iter()
        .find(|condition| condition.type_ == ConditionType::Usable.as_str())
        .filter(|condition| condition.observed_generation == generation);
    let (value, reason, message) = match said {
        Said::Is(value, reason, message) => (value, reason, message),
        Said::Unchanged if known.is_some() => return status,
        Said::Unchanged => (
            ConditionStatus::Unknown,
            Reason::CheckingTarget,
            String::new(),
        ),
    };
    if known.is_some_and(|known| says_as_much(known, value, reason, &message)) {
        return status;
    }
    set_condition(
        &mut status.conditions,
        ConditionType::Usable,
        value,
        reason,
        &message,
        generation,
        Time(now),
    );
    status
}

/// Whether it is said already, but for what a store adds to it: an identifier of the request, say, would be a write
/// each time.
fn says_as_much(known: &Condition, value: ConditionStatus, reason: Reason, message: &str) -> bool {
    let gist = |text: &str| text.split(" (").next().unwrap_or_default().to_owned();
    known.status == value.as_str()
        && known.reason == reason
        && (known.message == message
            || reason == Reason::TargetUnusable && gist(&known.message) == gist(message))
}
