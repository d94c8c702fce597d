//! What becomes of volumes that a tenant cluster, brought back, does not know, and what is said of them and of its
//! PersistentVolumes that point nowhere. No I/O, no clock, no chance.
//!
//! Laws (`tests`): what is not known whole decides nothing, and no volume goes by it; none goes before that was
//! decided and confirmed and the tenant cluster serves, nor one that is attached, that a PersistentVolume or a claim inside
//! names, or that came after the restore began; nothing is made anew for a PersistentVolume that points nowhere; a plan made
//! again is the same.

use std::collections::{BTreeMap, BTreeSet};

use api::restore::{Missing, Orphan, Orphans};
use api::{ConditionStatus, ConditionType, Reason, Restore};
use jiff::Timestamp;

use super::begin::ended;

#[cfg(test)]
mod tests;

/// Most orphans, and most PersistentVolumes that point nowhere, that are named in a status.
pub const NAMED: usize = 100;
/// Kind of a volume among orphans.
pub const CLAIM: &str = "PersistentVolumeClaim";
/// What the stock provisioner puts before the UID of the claim that it makes a volume for
/// (external-provisioner, `--volume-name-prefix`).
const REQUEST_PREFIX: &str = "pvc-";

/// A volume: a claim in the tenant namespace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Volume {
    /// Name of the claim.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// As it was seen: who attaches it changes this.
    pub version: String,
    /// When it was made; none where it does not say so.
    pub created: Option<Timestamp>,
    /// The name under which the tenant cluster asked for it.
    pub asked_as: String,
    /// For whom, as namespace and name, for people.
    pub made_for: Option<String>,
    /// A machine has it, or may have it.
    pub is_attached: bool,
    /// It is being deleted.
    pub is_going: bool,
    /// What it had is gone, and it never gets anything else (phase `Lost`).
    pub is_lost: bool,
}

/// A PersistentVolume of the tenant cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// The volume that it names; none of one of another kind.
    pub handle: Option<String>,
    /// Whether Covey's driver is to have it, and somebody uses it or may.
    pub is_ours: bool,
    /// The claim that has it, as namespace and name.
    pub claim: Option<String>,
}

/// All that is there. Read in this order, so that whatever is made meanwhile is known: volumes, claims of the tenant
/// cluster, its PersistentVolumes, names of volumes once more.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// Volumes in the tenant namespace.
    pub volumes: Vec<Volume>,
    /// UIDs of the claims of the tenant cluster.
    pub requests: BTreeSet<String>,
    /// Its PersistentVolumes.
    pub known: Vec<Known>,
    /// Names of volumes that came while that was read.
    pub later: BTreeSet<String>,
}

/// A look: none of it where anything could not be read whole; then why, in words that stay the same.
pub type Listed = Result<Seen, &'static str>;

impl Seen {
    /// Volumes that the tenant cluster does not know, by name. `since`: when the restore began.
    #[must_use]
    pub fn orphans(&self, since: Timestamp) -> Vec<&Volume> {
        let handles = self
            .known
            .iter()
            .filter_map(|known| known.handle.as_deref());
        let handles: BTreeSet<&str> = handles.collect();
        let names: BTreeSet<&str> = self.known.iter().map(|known| known.name.as_str()).collect();
        let is_asked = |volume: &Volume| {
            let uid = volume.asked_as.strip_prefix(REQUEST_PREFIX);
            uid.is_some_and(|uid| self.requests.contains(uid))
        };
        // One that came later is of the tenant cluster as it is now: its PersistentVolume may be on its way.
        let is_of_before = |volume: &Volume| volume.created.is_some_and(|at| at < since);
        let orphans = self.volumes.iter().filter(|volume| {
            is_of_before(volume)
                && !volume.is_going
                && !handles.contains(volume.name.as_str())
                // As the driver called it that it was adopted from.
                && !handles.contains(volume.asked_as.as_str())
                && !names.contains(volume.asked_as.as_str())
                && !is_asked(volume)
        });
        let by_name: BTreeMap<_, _> = orphans.map(|volume| (&volume.name, volume)).collect();
        by_name.into_values().collect()
    }

    /// PersistentVolumes that have no volume behind them, by name.
    #[must_use]
    pub fn missing(&self) -> Vec<&Known> {
        let there = self.volumes.iter().filter(|volume| !volume.is_lost);
        let there: BTreeSet<&str> = there.map(|volume| volume.name.as_str()).collect();
        let is_there = |handle: &str| there.contains(handle) || self.later.contains(handle);
        let missing = self.known.iter().filter(|known| {
            let handle = known.handle.as_deref().filter(|_| known.is_ours);
            handle.is_some_and(|handle| !is_there(handle))
        });
        let by_name: BTreeMap<_, _> = missing.map(|known| (&known.name, known)).collect();
        by_name.into_values().collect()
    }
}

/// Volumes to delete now.
#[must_use]
pub fn to_delete<'a>(restore: &Restore, look: &'a Listed, since: Timestamp) -> Vec<&'a Volume> {
    let Ok(seen) = look else {
        return Vec::new();
    };
    let spec = &restore.spec;
    let is_decided = spec.orphans == Orphans::Delete
        && spec.confirmed
        && !spec.dry_run
        && restore.metadata.deletion_timestamp.is_none()
        && ended(restore) == Some(true);
    let orphans = seen.orphans(since).into_iter();
    orphans
        .filter(|volume| is_decided && !volume.is_attached)
        .collect()
}

/// What is said.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Of the condition `OrphanedVolumes`.
    pub status: ConditionStatus,
    /// Of the condition.
    pub reason: Reason,
    /// Of the condition.
    pub message: String,
    /// Those that the tenant cluster does not know; none where that is not known.
    pub orphans: Option<Vec<Orphan>>,
    /// PersistentVolumes that point nowhere; none where that is not known.
    pub missing: Option<Vec<Missing>>,
}

/// Says it.
#[must_use]
pub fn said(restore: &Restore, look: &Listed, since: Timestamp) -> Said {
    use ConditionStatus::{False, True, Unknown};
    let seen = match look {
        Ok(seen) => seen,
        Err(why) => {
            return Said {
                status: Unknown,
                reason: Reason::LookingForVolumes,
                message: format!("{why}; all volumes are kept"),
                orphans: None,
                missing: None,
            };
        }
    };
    let (orphans, missing) = (seen.orphans(since), seen.missing());
    let found = orphans.len();
    let attached = orphans.iter().filter(|volume| volume.is_attached).count();
    let free = found - attached;
    let (status, reason, message) = match restore.spec.orphans {
        _ if found == 0 => (False, Reason::NoOrphans, String::new()),
        Orphans::Keep => {
            let message = format!("{found} volumes that the tenant cluster does not know are kept");
            (True, Reason::VolumesKept, message)
        }
        Orphans::Report => {
            let message = format!(
                "{found} volumes that the tenant cluster does not know are kept until spec.orphans is Keep or Delete"
            );
            (True, Reason::VolumesFound, message)
        }
        Orphans::Delete if free == 0 => {
            let message = format!(
                "{attached} volumes that the tenant cluster does not know are attached to machines, and kept"
            );
            (True, Reason::VolumesKept, message)
        }
        Orphans::Delete => {
            let when = match restore.spec.confirmed {
                true => "are being deleted",
                false => "are deleted once this is confirmed",
            };
            let but = match attached {
                0 => String::new(),
                attached => format!("; {attached} more are attached to machines, and kept"),
            };
            let message =
                format!("{free} volumes that the tenant cluster does not know {when}{but}");
            (True, Reason::VolumesDeleted, message)
        }
    };
    let nowhere = match missing.len() {
        0 => String::new(),
        many => format!(
            "{many} PersistentVolumes of the tenant cluster have no volume behind them (status.missing)"
        ),
    };
    let both = [message, nowhere].into_iter();
    let both: Vec<_> = both.filter(|text| !text.is_empty()).collect();
    Said {
        status,
        reason,
        message: both.join("; "),
        orphans: Some(orphans.into_iter().map(told).collect()),
        missing: Some(missing.into_iter().take(NAMED).map(nowhere_to).collect()),
    }
}

fn told(volume: &Volume) -> Orphan {
    Orphan {
        kind: CLAIM.to_owned(),
        name: volume.name.clone(),
        made_for: volume.made_for.clone(),
        addresses: Vec::new(),
    }
}

fn nowhere_to(known: &Known) -> Missing {
    Missing {
        name: known.name.clone(),
        claim: known.claim.clone(),
        volume: known.handle.clone().unwrap_or_default(),
    }
}

/// Whether nothing is left to be said, decided or done about volumes, as its status says of its spec of now: then what was
/// there before may go.
#[must_use]
pub fn are_settled(restore: &Restore) -> bool {
    let conditions = restore.status.iter().flat_map(|status| &status.conditions);
    let of_now = conditions
        .filter(|c| c.type_ == ConditionType::OrphanedVolumes.as_str())
        .find(|c| c.observed_generation == restore.metadata.generation);
    let is = |reasons: &[Reason]| {
        of_now.is_some_and(|said| reasons.iter().any(|reason| said.reason == *reason))
    };
    match restore.spec.orphans {
        // Nobody has to know which there are so that all stay.
        Orphans::Keep => of_now.is_some(),
        Orphans::Report => is(&[Reason::NoOrphans]),
        Orphans::Delete => is(&[Reason::NoOrphans, Reason::VolumesKept]),
    }
}
