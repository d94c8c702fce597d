//! What is said of a Restore. No I/O, no clock, no chance.
//!
//! Laws: only what the process found says that it can be had, or that it cannot; whatever else happens it is asked again.
//! Erased conditions are said again. That a tenant cluster is restored is said once it serves, and stays said. Of a load
//! balancer that nobody has looked at it is said neither that it is an orphan nor that it is none, and so it is of volumes.

use std::sync::Arc;

use api::restore::Orphan;
use api::tenant_cluster::RestoreProgress;
use api::{
    ConditionStatus, ConditionType, Reason, Restore, RestoreStatus, TenantCluster, set_condition,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::into::Into;
use super::orphans;
use crate::controllers::tenant_backup::report::{self, Choice, Report};
use crate::restoring::begin::{self, awaits, cluster_id, ended, moment, other, short, source};
use crate::restoring::into::lacks_kms;
use crate::restoring::volumes::{self, Listed, NAMED, is_storage};
use crate::restoring::{MARGIN, Mark};
use crate::status::one_line;

/// How soon it is asked again while the backup is read.
const SOON: SignedDuration = SignedDuration::from_secs(2);
/// How soon while nobody answers.
const LATER: SignedDuration = SignedDuration::from_secs(15);

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The TenantCluster of the name in its namespace.
    pub cluster: Option<Arc<TenantCluster>>,
    /// What the process found; none where it was not asked.
    pub choice: Option<Choice>,
    /// Of one that is to become another TenantCluster, how that stands.
    pub into: Option<Into>,
    /// A KMS that what comes back may be encrypted by, and that the operator's configuration does not have; none where there is
    /// no such.
    pub lacks_kms: Option<String>,
    /// The newest revision that the backup has; none where that is not known.
    pub durable: Option<u64>,
    /// Load balancers of the tenant namespace, by name; none where they were not looked for.
    pub balancers: Option<Vec<(Mark, Orphan)>>,
    /// Volumes, and when the restore began; none where they were not looked for.
    pub volumes: Option<(Listed, Timestamp)>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The status as it should be.
    pub status: RestoreStatus,
    /// When to look again, unless something happens.
    pub again: Option<SignedDuration>,
}

/// Whether nothing is to be done or said any more, whatever becomes of its TenantCluster.
#[must_use]
pub fn is_over(restore: &Restore) -> bool {
    match says_possible(restore) {
        Some(Reason::RestorePossible) => restore.spec.dry_run,
        Some(_) => true,
        None => false,
    }
}

/// Whether the process has to say what can be had.
#[must_use]
pub fn has_to_be_chosen(restore: &Restore, cluster: &TenantCluster) -> bool {
    let status = restore.status.as_ref();
    let of_now = status.and_then(|status| status.replaces.as_deref()) == cluster_id(cluster);
    let is_known = says_possible(restore) == Some(Reason::RestorePossible);
    // One that waited while another brought etcd back: what was found, or the raise, is of the one before.
    !is_known || (!of_now && taken(restore, cluster).is_none() && ended(restore).is_none())
}

/// Whether load balancers have to be looked at: from when members run on what was built until it is over, and said what
/// became of them.
#[must_use]
pub fn looks_for_orphans(restore: &Restore, cluster: &TenantCluster) -> bool {
    match taken(restore, cluster) {
        Some(facts) => facts.switched,
        None => ended(restore) == Some(true) && !orphans::is_said(restore),
    }
}

/// Whether volumes have to be looked at, and when the restore began: from when the tenant cluster serves what was built until
/// it is over.
#[must_use]
pub fn looks_for_volumes(restore: &Restore, cluster: &TenantCluster) -> Option<Timestamp> {
    let facts = taken(restore, cluster)?;
    let serves = ready(cluster).is_some_and(|c| c.status == ConditionStatus::True.as_str());
    let is_to_be = facts.prepared && facts.given_up.is_none() && serves;
    facts.since.parse().ok().filter(|_| is_to_be)
}

fn ready(cluster: &TenantCluster) -> Option<&Condition> {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|c| c.type_ == ConditionType::Ready.as_str());
    ready.next()
}

/// How far it is, where it is the one that goes ahead.
fn taken<'a>(restore: &Restore, cluster: &'a TenantCluster) -> Option<&'a RestoreProgress> {
    let progress = cluster.status.as_ref()?.restore.as_ref()?;
    (Some(&progress.uid) == restore.metadata.uid.as_ref()).then_some(progress)
}

fn says_possible(restore: &Restore) -> Option<Reason> {
    let mut conditions = restore.status.iter().flat_map(|status| &status.conditions);
    conditions.find_map(|condition| {
        let known = [Reason::RestorePossible, Reason::RestoreImpossible];
        known.into_iter().find(|reason| condition.reason == *reason)
    })
}

/// Decides.
#[must_use]
pub fn plan(restore: &Restore, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = match &observed.cluster {
        Some(cluster) if !has_to_be_chosen(restore, cluster) => Plan {
            status: restore.status.clone().unwrap_or_default(),
            again: None,
        },
        _ => choose(restore, observed, now),
    };
    plan.status.observed_generation = restore.metadata.generation;
    let possible = plan.status.conditions.iter();
    let mut possible = possible.filter(|c| c.reason == Reason::RestorePossible);
    if restore.spec.dry_run || possible.next().is_none() {
        return plan;
    }
    let (value, reason, message, again) = progress(restore, observed);
    plan.again = plan.again.into_iter().chain(again).min();
    tell_orphans(restore, observed, &mut plan, now);
    tell_volumes(restore, observed, &mut plan, now);
    set_condition(
        &mut plan.status.conditions,
        ConditionType::Restored,
        value,
        reason,
        &message,
        restore.metadata.generation,
        Time(now),
    );
    plan
}

/// That a member whose volume is left was of no use, as the end of a sentence.
fn left_aside(facts: &RestoreProgress) -> String {
    let salvaged = facts.salvaged.as_ref();
    let why = salvaged.and_then(|salvaged| salvaged.aside.as_ref());
    match (&facts.survivor, why) {
        (Some(member), Some(why)) => format!("; what is left of {member} was not used: {why}"),
        _ => String::new(),
    }
}

/// What became of load balancers, where that was looked for.
fn tell_orphans(restore: &Restore, observed: &Observed, plan: &mut Plan, now: Timestamp) {
    let (Some(cluster), Some(balancers)) = (&observed.cluster, &observed.balancers) else {
        return;
    };
    let said = orphans::said(restore, cluster, balancers);
    let told = &mut plan.status.orphans;
    told.retain(is_storage);
    drop(told.splice(..0, said.orphans));
    told.truncate(NAMED);
    if said.is_looked_for {
        plan.again = plan.again.into_iter().chain([LATER]).min();
    }
    set_condition(
        &mut plan.status.conditions,
        ConditionType::Orphans,
        said.status,
        said.reason,
        &said.message,
        restore.metadata.generation,
        Time(now),
    );
}

/// What becomes of volumes, where they were looked for.
fn tell_volumes(restore: &Restore, observed: &Observed, plan: &mut Plan, now: Timestamp) {
    let Some((look, since)) = &observed.volumes else {
        return;
    };
    let said = volumes::said(restore, look, *since);
    // What is not known now stays as it was said.
    if let Some(orphans) = said.orphans {
        let told = &mut plan.status.orphans;
        told.retain(|orphan| !is_storage(orphan));
        told.extend(orphans);
        told.truncate(NAMED);
    }
    if let Some(missing) = said.missing {
        plan.status.missing = missing;
    }
    let again = match said.reason {
        Reason::LookingForVolumes => Some(LATER),
        // No watch tells when they are gone.
        Reason::VolumesDeleted => restore.spec.confirmed.then_some(SOON),
        _ => None,
    };
    plan.again = plan.again.into_iter().chain(again).min();
    set_condition(
        &mut plan.status.conditions,
        ConditionType::OrphanedVolumes,
        said.status,
        said.reason,
        &said.message,
        restore.metadata.generation,
        Time(now),
    );
}

/// Whether people have to decide what becomes of volumes before it ends.
fn has_undecided_volumes(restore: &Restore, observed: &Observed) -> bool {
    let volumes = observed.volumes.as_ref();
    volumes.is_some_and(|(look, since)| {
        volumes::said(restore, look, *since).reason == Reason::VolumesFound
    })
}

/// How far one is that can be had.
fn progress(
    restore: &Restore,
    observed: &Observed,
) -> (ConditionStatus, Reason, String, Option<SignedDuration>) {
    use ConditionStatus::{False, True, Unknown};
    let Some(cluster) = &observed.cluster else {
        let name = &restore.spec.cluster_name;
        let message = format!("there is no TenantCluster {name} in this namespace");
        return (Unknown, Reason::RestoreWithoutCluster, message, None);
    };
    let kept = "what members of etcd had before is kept on their volumes until spec.confirmed is true, or this is deleted";
    let facts = match (taken(restore, cluster), ended(restore)) {
        (None, Some(true)) => return (True, Reason::Restored, String::new(), None),
        (None, Some(false)) => {
            let mut conditions = restore.status.iter().flat_map(|status| &status.conditions);
            let said = conditions.find(|c| c.reason == Reason::RestoreGivenUp);
            let said = said.map(|said| said.message.clone());
            return (
                False,
                Reason::RestoreGivenUp,
                said.unwrap_or_default(),
                None,
            );
        }
        (None, None) => {
            let other = cluster.status.as_ref();
            let other = other.and_then(|status| status.restore.as_ref());
            let message = match other {
                Some(other) => format!(
                    "Restore {} of the same TenantCluster goes ahead, until it is confirmed or deleted",
                    other.name
                ),
                None => "it is about to begin, or waits for an older one".to_owned(),
            };
            return (Unknown, Reason::RestoreWaiting, message, Some(LATER));
        }
        (Some(facts), _) => facts,
    };
    if let Some(why) = &facts.given_up {
        return (False, Reason::RestoreGivenUp, why.clone(), Some(LATER));
    }
    let ready = ready(cluster);
    let serves = ready.is_some_and(|ready| ready.status == True.as_str());
    if ended(restore) == Some(true) || (facts.prepared && serves) {
        let message = match restore.spec.confirmed {
            true if orphans::are_undecided(restore, cluster, observed.balancers.as_deref())
                || has_undecided_volumes(restore, observed) =>
            {
                "what members of etcd had before is removed once it is decided what becomes of load balancers and volumes: set spec.orphans to Keep or Delete"
            }
            true => "what members of etcd had before is being removed",
            false => kept,
        };
        let message = format!("{message}{}", left_aside(facts));
        let again = restore.spec.confirmed.then_some(LATER);
        return (True, Reason::Restored, message, again);
    }
    let said = ready.filter(|ready| ready.reason == Reason::Restoring);
    let message = match said {
        Some(said) => said.message.clone(),
        None if facts.prepared => "the control plane starts".to_owned(),
        None => "it has begun".to_owned(),
    };
    (False, Reason::Restoring, message, Some(SOON))
}

/// What can be had.
fn choose(restore: &Restore, observed: &Observed, now: Timestamp) -> Plan {
    use ConditionStatus::{False, True, Unknown};
    let mut status = restore.status.clone().unwrap_or_default();
    let generation = restore.metadata.generation;
    let name = &restore.spec.cluster_name;
    let is_dry = restore.spec.dry_run;
    let (value, reason, message, again) = match (&observed.cluster, &observed.choice) {
        (None, _) => {
            let message = format!("there is no TenantCluster {name} in this namespace");
            (Unknown, Reason::RestoreWithoutCluster, message, None)
        }
        (Some(cluster), _) if cluster.spec.backup.is_none() => {
            let message =
                format!("TenantCluster {name} has no spec.backup, so nothing reads its backup");
            (Unknown, Reason::RestoreWithoutBackup, message, None)
        }
        (Some(cluster), _) if let Some(why) = misfit(restore, cluster) => {
            (False, Reason::RestoreImpossible, why, None)
        }
        (Some(_), _) if let Some(Into::Refused(why)) = &observed.into => {
            let why = one_line(why, 1000);
            (False, Reason::RestoreRefused, why, Some(LATER))
        }
        (Some(_), _) if let Some(Into::Waits(why)) = &observed.into => {
            let why = one_line(why, 1000);
            (Unknown, Reason::RestoreUnanswered, why, Some(SOON))
        }
        (Some(_), _) if let Some(kms) = &observed.lacks_kms => {
            let why = one_line(&lacks_kms(kms), 1000);
            (False, Reason::RestoreRefused, why, Some(LATER))
        }
        _ if moment(restore).is_none() => {
            let message = "spec.at.time is no day of the calendar".to_owned();
            (False, Reason::RestoreImpossible, message, None)
        }
        (Some(_), Some(Choice::Reads)) => {
            let message = "the backup is being read".to_owned();
            (Unknown, Reason::ReadingBackup, message, Some(SOON))
        }
        (Some(_), None | Some(Choice::Unknown(_))) => {
            // The words of a failure differ each time, and each would be a write.
            let message =
                "the process that backs the tenant cluster up cannot say it now".to_owned();
            (Unknown, Reason::RestoreUnanswered, message, Some(LATER))
        }
        // How far watches have come is not known, so no raise is known to be enough.
        (Some(_), Some(Choice::Is(found)))
            if found.possible && !is_dry && bump(found, observed.durable).is_none() =>
        {
            let message =
                "the process that backs the tenant cluster up does not know how far it is";
            (
                Unknown,
                Reason::RestoreUnanswered,
                message.to_owned(),
                Some(LATER),
            )
        }
        (Some(cluster), Some(Choice::Is(found))) => {
            status.cluster_uid = Some(cluster.identity_uid().to_owned());
            status.cluster_id = source(restore, cluster).map(str::to_owned);
            status.replaces = cluster_id(cluster).map(str::to_owned);
            status.revision = found.revision.and_then(|n| i64::try_from(n).ok());
            status.time = found
                .time_ms
                .and_then(report::to_the_second)
                .map(|at| at.to_string());
            status.bump = bump(found, observed.durable).filter(|_| found.possible && !is_dry);
            status.full = found
                .full
                .as_deref()
                .filter(|_| found.possible)
                .map(|full| one_line(full, 80));
            match found.possible {
                true => (True, Reason::RestorePossible, String::new(), None),
                false => (
                    False,
                    Reason::RestoreImpossible,
                    impossible(found, &status),
                    None,
                ),
            }
        }
    };
    set_condition(
        &mut status.conditions,
        ConditionType::Possible,
        value,
        reason,
        &message,
        generation,
        Time(now),
    );
    Plan { status, again }
}

/// Why it can never be carried out into this TenantCluster, whatever is in the backup.
fn misfit(restore: &Restore, cluster: &TenantCluster) -> Option<String> {
    let name = &restore.spec.cluster_name;
    match (other(restore, cluster), awaits(cluster)) {
        (Some(uid), false) => Some(format!(
            "TenantCluster {name} has data of its own, or begins with none, and does not become {uid}: make another \
             TenantCluster with spec.etcd.bootstrap: Restore"
        )),
        (None, true) => Some(format!(
            "TenantCluster {name} waits for the data of another one: say in from.clusterUID of which"
        )),
        (Some(uid), true) if !begin::is_meant(cluster, uid) => Some(format!(
            "TenantCluster {name} is a copy of {} (spec.etcd.copyOf), and this reads the backup of {uid}: make another \
             Restore with from.clusterUID of that one, or another TenantCluster",
            cluster.spec.etcd.copy_of.as_deref().unwrap_or_default()
        )),
        (Some(_), true) | (None, false) => None,
    }
}

/// How far the backup of an etcd cluster is, as the process says that cares for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reached {
    /// At this revision.
    At(u64),
    /// It has not asked etcd since it began, so it does not know; the target does.
    Unasked,
    /// It has not looked at the target yet, or cares for another one.
    Unknown,
}

/// Reads it.
#[must_use]
pub fn reached(report: &Report, cluster: &str) -> Reached {
    match report.cluster.as_deref().map(short) {
        None => Reached::Unasked,
        Some(of) if of == cluster && report.looked && report.durable > 0 => {
            Reached::At(report.durable)
        }
        Some(_) => Reached::Unknown,
    }
}

/// The newest revision of a backup, where it was looked for.
#[must_use]
pub fn newest(found: &Choice) -> Option<u64> {
    match found {
        Choice::Is(found) => found.revision,
        Choice::Reads | Choice::Unknown(_) => None,
    }
}

/// How much revisions have to be raised to be above all that were ever told.
fn bump(found: &report::Moment, durable: Option<u64>) -> Option<i64> {
    let behind = durable?.saturating_sub(found.revision?);
    i64::try_from(behind.saturating_add(MARGIN)).ok()
}

/// What is wrong, and the nearest moment that can be had.
fn impossible(found: &report::Moment, status: &RestoreStatus) -> String {
    let why = one_line(found.why.as_deref().unwrap_or("nobody says why"), 1000);
    match (status.revision, &status.time) {
        (Some(revision), Some(time)) => {
            format!(
                "{why}; the nearest moment before it that can be had is {time}, revision {revision}"
            )
        }
        _ => format!("{why}; nothing before it can be had"),
    }
}
