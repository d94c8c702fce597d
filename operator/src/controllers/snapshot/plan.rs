//! What is to be asked for a Snapshot, and what is said of it. No I/O, no clock, no chance.
//!
//! Laws: a snapshot is asked for only once the status says after which one it comes; what it then turns out to be begins
//! after the Snapshot was made, so it has all that was written before. Erased reasons and phases are said again. What is
//! not known takes nothing back.

use std::sync::Arc;

use api::{
    ConditionStatus, ConditionType, Reason, Snapshot, SnapshotStatus, TenantCluster, set_condition,
};
use backup_format::FullName;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::controllers::tenant_backup::report::{Answer, Description, Full, Report, to_the_second};
use crate::status::one_line;

/// How soon it is looked again while a snapshot is written.
const SOON: SignedDuration = SignedDuration::from_secs(2);
/// How soon while the process does not answer, or it was not read again.
const LATER: SignedDuration = SignedDuration::from_secs(15);
/// How soon one that is at rest is: retention lets snapshots go.
const AT_REST: SignedDuration = SignedDuration::from_hours(1);
/// In the status: that there was no snapshot before.
const NONE: &str = "none";
/// Most characters of what the process says of a snapshot.
const MOST: usize = 1024;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The TenantCluster of the name in its namespace.
    pub cluster: Option<Arc<TenantCluster>>,
    /// What the process says; none where it does not answer.
    pub report: Option<Report>,
    /// What it says of the snapshot that the status names.
    pub answer: Option<Answer>,
}

/// What is asked of the process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ask {
    /// A full snapshot after this one, or any.
    Full {
        /// The newest that there was.
        after: Option<String>,
    },
    /// That one is kept.
    Keep {
        /// Which.
        full: String,
        /// Until when, in milliseconds since 1970.
        until_ms: u64,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The status as it should be. It is written before anything is asked.
    pub status: SnapshotStatus,
    /// What is asked, once the status says that.
    pub ask: Option<Ask>,
    /// When to look again, unless something happens.
    pub again: Option<SignedDuration>,
}

/// The status, with what is said in it.
struct Words {
    status: SnapshotStatus,
    generation: Option<i64>,
    now: Timestamp,
}

impl Words {
    fn say(&mut self, type_: ConditionType, value: ConditionStatus, reason: Reason, message: &str) {
        let (list, now) = (&mut self.status.conditions, Time(self.now));
        set_condition(list, type_, value, reason, message, self.generation, now);
    }

    fn ready(mut self, value: ConditionStatus, reason: Reason, message: &str) -> Self {
        self.say(ConditionType::Ready, value, reason, message);
        self
    }

    fn then(self, ask: Option<Ask>, again: Option<SignedDuration>) -> Plan {
        Plan {
            status: self.status,
            ask,
            again,
        }
    }
}

/// Decides.
#[must_use]
pub fn plan(snapshot: &Snapshot, observed: &Observed, now: Timestamp) -> Plan {
    let mut words = Words {
        status: snapshot.status.clone().unwrap_or_default(),
        generation: snapshot.metadata.generation,
        now,
    };
    words.status.observed_generation = words.generation;
    match words.status.name.is_some() {
        true => taken(snapshot, observed, words),
        false => wanted(snapshot, observed, words),
    }
}

fn wanted(snapshot: &Snapshot, observed: &Observed, mut words: Words) -> Plan {
    use ConditionStatus::{False, Unknown};
    let name = &snapshot.spec.cluster_name;
    let Some(cluster) = &observed.cluster else {
        let message = format!("there is no TenantCluster {name} in this namespace");
        let reason = Reason::SnapshotWithoutCluster;
        return words.ready(False, reason, &message).then(None, None);
    };
    if cluster.spec.backup.is_none() {
        let message = format!(
            "TenantCluster {name} has no spec.backup, so there is no backup to take one into"
        );
        let reason = Reason::SnapshotWithoutBackup;
        return words.ready(False, reason, &message).then(None, None);
    }
    let Some(report) = &observed.report else {
        let message = "the process that backs the tenant cluster up does not answer";
        let reason = Reason::SnapshotUnanswered;
        return words
            .ready(Unknown, reason, message)
            .then(None, Some(LATER));
    };
    let waits = |words: Words, message, ask| {
        let words = words.ready(False, Reason::TakingSnapshot, message);
        words.then(ask, Some(SOON))
    };
    let (Some(id), true) = (&report.cluster, report.looked) else {
        return waits(words, "the backup looks at its target", None);
    };
    let is_of_it = words.status.cluster_uid.as_deref() == Some(cluster.identity_uid())
        && words.status.cluster_id.as_ref() == Some(id);
    let newest = report.full.as_ref().and_then(read);
    match words.status.after.clone().filter(|_| is_of_it) {
        Some(after) => {
            let after = Some(after).filter(|after| after != NONE);
            let before = after
                .as_ref()
                .and_then(|after| after.parse::<FullName>().ok());
            match newest.filter(|newest| Some(*newest) > before) {
                Some(full) => {
                    is_taken(&mut words, full);
                    words.then(None, Some(SignedDuration::ZERO))
                }
                None => waits(words, "it is being taken", Some(Ask::Full { after })),
            }
        }
        // One that has begun may lack what was written since.
        None if report.taking => waits(
            words,
            "another one is being taken, which may be older",
            None,
        ),
        None => {
            words.status.cluster_uid = Some(cluster.identity_uid().to_owned());
            words.status.cluster_id = Some(one_line(id, 16));
            words.status.after = Some(newest.map_or_else(|| NONE.to_owned(), |n| n.to_string()));
            waits(words, "it is being taken", None)
        }
    }
}

fn read(full: &Full) -> Option<FullName> {
    full.name.parse().ok()
}

fn is_taken(words: &mut Words, full: FullName) {
    words.status.name = Some(full.to_string());
    words.status.revision = i64::try_from(full.revision).ok();
    words.status.taken = to_the_second(full.taken_ms).map(|at| at.to_string());
    let (ready, verified) = (ConditionType::Ready, ConditionType::Verified);
    words.say(ready, ConditionStatus::True, Reason::SnapshotTaken, "");
    let unknown = ConditionStatus::Unknown;
    words.say(verified, unknown, Reason::NotReadAgain, "");
}

fn taken(snapshot: &Snapshot, observed: &Observed, mut words: Words) -> Plan {
    let uid = observed.cluster.as_ref();
    let uid = uid.map(|cluster| cluster.identity_uid().to_owned());
    let Some(report) = &observed.report else {
        // What was said stands: the objects do not depend on who wrote them.
        let again = observed.cluster.as_ref().map(|_| AT_REST);
        return words.then(None, again);
    };
    if words.status.cluster_uid != uid || words.status.cluster_id != report.cluster {
        // Of an etcd that was before this one, and lies in another folder.
        return words.then(None, Some(AT_REST));
    }
    match &observed.answer {
        None | Some(Answer::Unknown(_)) => words.then(None, Some(LATER)),
        Some(Answer::Gone) => {
            let message = "it is not in the backup any more";
            let (unknown, reason) = (ConditionStatus::Unknown, Reason::SnapshotGone);
            words.say(ConditionType::Verified, unknown, reason, message);
            words
                .ready(ConditionStatus::False, reason, message)
                .then(None, Some(AT_REST))
        }
        Some(Answer::Is(said)) => {
            let ours = words.status.name.as_ref();
            let ours = ours.and_then(|name| name.parse::<FullName>().ok());
            let is_newest = report.full.as_ref().and_then(read) <= ours;
            described(&mut words, said);
            let keep = wish(snapshot);
            let message = match keep {
                Some(None) => "spec.keepUntil is no day of the calendar, so retention decides",
                _ => "",
            };
            let words = words.ready(ConditionStatus::True, Reason::SnapshotTaken, message);
            let until_ms = keep
                .flatten()
                .filter(|until| said.kept_until_ms < Some(*until));
            let full = words.status.name.clone().unwrap_or_default();
            let ask = until_ms.map(|until_ms| Ask::Keep { full, until_ms });
            let again = match (&ask, said.verified || !is_newest) {
                (Some(_), _) => SOON,
                (None, false) => LATER,
                (None, true) => AT_REST,
            };
            words.then(ask, Some(again))
        }
    }
}

/// Until when somebody wants it kept; none inside where that is no time.
fn wish(snapshot: &Snapshot) -> Option<Option<u64>> {
    let text = snapshot.spec.keep_until.as_ref()?;
    let until = text.parse::<Timestamp>().ok();
    Some(until.and_then(|until| u64::try_from(until.as_millisecond()).ok()))
}

fn described(words: &mut Words, said: &Description) {
    let status = &mut words.status;
    let text = |text: &str, most| Some(one_line(text, most)).filter(|text| !text.is_empty());
    status.key = text(&said.key, MOST);
    status.bytes = i64::try_from(said.bytes).ok();
    status.hash = text(&said.database, 64);
    status.etcd_version = text(&said.etcd, 64);
    status.kubernetes_version = text(&said.kubernetes, 64);
    status.kept_until = said
        .kept_until_ms
        .and_then(to_the_second)
        .map(|at| at.to_string());
    let (value, reason) = match said.verified {
        true => (ConditionStatus::True, Reason::SnapshotWhole),
        false => (ConditionStatus::Unknown, Reason::NotReadAgain),
    };
    words.say(ConditionType::Verified, value, reason, "");
}
