//! What becomes of volumes and snapshots that a tenant cluster, brought back, does not know, and what is said of them and of
//! its PersistentVolumes and VolumeSnapshotContents that point nowhere. No I/O, no clock, no chance.
//!
//! Laws (`tests`): what is not known whole decides nothing, and no volume or snapshot goes by it; none goes before that was
//! decided and confirmed and the tenant cluster serves, nor a volume that is attached, a snapshot that a volume is being
//! made of, one that anything inside names or asks for, or that came after the restore began; nothing is made anew for what
//! points nowhere; a plan made again is the same.

use std::collections::{BTreeMap, BTreeSet};

use api::restore::{Missing, Orphan, Orphans};
use api::{ConditionStatus, ConditionType, Reason, Restore};
use jiff::Timestamp;

use super::begin::ended;
use super::snapshots::{self, Content, Snapshot};

#[cfg(test)]
mod tests;

/// Most orphans, and most objects that point nowhere, that are named in a status.
pub const NAMED: usize = 100;
/// Kind of a volume among orphans.
pub const CLAIM: &str = "PersistentVolumeClaim";
/// Kind of a snapshot among them.
pub const SNAPSHOT: &str = "VolumeSnapshot";
/// Kind of a PersistentVolume among what points nowhere.
const VOLUME: &str = "PersistentVolume";
/// Kind of a content among it.
const CONTENT: &str = "VolumeSnapshotContent";
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
    /// The snapshot that it is still being made of.
    pub made_of: Option<String>,
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
    /// The same of snapshots; nothing where tenant clusters are offered none.
    pub snapshots: snapshots::Seen,
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

    /// Whether a volume is still being made of a snapshot.
    fn is_needed(&self, snapshot: &Snapshot) -> bool {
        let mut volumes = self.volumes.iter().filter(|volume| !volume.is_going);
        volumes.any(|volume| volume.made_of.as_ref() == Some(&snapshot.name))
    }

    /// For whom the volume of a snapshot was made, where it is still there.
    fn made_for(&self, snapshot: &Snapshot) -> Option<String> {
        let mut volumes = self.volumes.iter();
        let volume = volumes.find(|volume| volume.name == snapshot.volume)?;
        volume.made_for.clone()
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

/// Whether what is named in `status.orphans` is a volume or a snapshot.
#[must_use]
pub fn is_storage(orphan: &Orphan) -> bool {
    orphan.kind == CLAIM || orphan.kind == SNAPSHOT
}

/// What is to be deleted now.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Goes<'a> {
    /// Snapshots, before volumes: some storage keeps a volume while it has any.
    pub snapshots: Vec<&'a Snapshot>,
    /// Volumes.
    pub volumes: Vec<&'a Volume>,
}

impl Goes<'_> {
    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.volumes.is_empty()
    }
}

/// What is to be deleted now.
#[must_use]
pub fn to_delete<'a>(restore: &Restore, look: &'a Listed, since: Timestamp) -> Goes<'a> {
    let Ok(seen) = look else {
        return Goes::default();
    };
    let spec = &restore.spec;
    let is_decided = spec.orphans == Orphans::Delete
        && spec.confirmed
        && !spec.dry_run
        && restore.metadata.deletion_timestamp.is_none()
        && ended(restore) == Some(true);
    if !is_decided {
        return Goes::default();
    }
    let volumes = seen.orphans(since).into_iter();
    let snapshots = seen.snapshots.orphans(since).into_iter();
    Goes {
        snapshots: snapshots.filter(|found| !seen.is_needed(found)).collect(),
        volumes: volumes.filter(|volume| !volume.is_attached).collect(),
    }
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
    /// What points nowhere; none where that is not known.
    pub missing: Option<Vec<Missing>>,
}

/// Says it.
#[must_use]
pub fn said(restore: &Restore, look: &Listed, since: Timestamp) -> Said {
    let seen = match look {
        Ok(seen) => seen,
        Err(why) => {
            return Said {
                status: ConditionStatus::Unknown,
                reason: Reason::LookingForVolumes,
                message: format!("{why}; all volumes are kept, and all snapshots"),
                orphans: None,
                missing: None,
            };
        }
    };
    let (volumes, snapshots) = (seen.orphans(since), seen.snapshots.orphans(since));
    let (status, reason, message) = decided(restore, seen, &volumes, &snapshots);
    let (nowhere, empty) = (seen.missing(), seen.snapshots.missing());
    let both = [message, pointless(nowhere.len(), empty.len())].into_iter();
    let both: Vec<_> = both.filter(|text| !text.is_empty()).collect();
    let of_snapshots = snapshots.into_iter().map(|found| Orphan {
        kind: SNAPSHOT.to_owned(),
        name: found.name.clone(),
        made_for: seen.made_for(found),
        addresses: Vec::new(),
    });
    let contents = empty.into_iter().map(without_snapshot);
    let missing = nowhere.into_iter().map(nowhere_to).chain(contents);
    Said {
        status,
        reason,
        message: both.join("; "),
        orphans: Some(volumes.into_iter().map(told).chain(of_snapshots).collect()),
        missing: Some(missing.take(NAMED).collect()),
    }
}

/// What becomes of orphans.
fn decided(
    restore: &Restore,
    seen: &Seen,
    volumes: &[&Volume],
    snapshots: &[&Snapshot],
) -> (ConditionStatus, Reason, String) {
    use ConditionStatus::{False, True};
    let found = many(volumes.len(), snapshots.len());
    let attached = volumes.iter().filter(|volume| volume.is_attached).count();
    let needed = snapshots.iter().filter(|found| seen.is_needed(found));
    let needed = needed.count();
    let free = (volumes.len() - attached, snapshots.len() - needed);
    let used = match (attached, needed) {
        (0, 0) => String::new(),
        (attached, 0) => format!("{attached} volumes are attached to machines"),
        (0, needed) => format!("volumes are being made of {needed} snapshots"),
        (attached, needed) => format!(
            "{attached} volumes are attached to machines, volumes are being made of {needed} snapshots"
        ),
    };
    match restore.spec.orphans {
        _ if volumes.is_empty() && snapshots.is_empty() => {
            (False, Reason::NoOrphans, String::new())
        }
        Orphans::Keep => {
            let message = format!("{found} that the tenant cluster does not know are kept");
            (True, Reason::VolumesKept, message)
        }
        Orphans::Report => {
            let message = format!(
                "{found} that the tenant cluster does not know are kept until spec.orphans is Keep or Delete"
            );
            (True, Reason::VolumesFound, message)
        }
        Orphans::Delete if free == (0, 0) => {
            let message = format!(
                "{found} that the tenant cluster does not know are in use, and kept: {used}"
            );
            (True, Reason::VolumesKept, message)
        }
        Orphans::Delete => {
            let when = match restore.spec.confirmed {
                true => "are being deleted",
                false => "are deleted once this is confirmed",
            };
            let but = match used.as_str() {
                "" => String::new(),
                used => format!("; more are in use, and kept: {used}"),
            };
            let free = many(free.0, free.1);
            let message = format!("{free} that the tenant cluster does not know {when}{but}");
            (True, Reason::VolumesDeleted, message)
        }
    }
}

/// So many, in words.
fn many(volumes: usize, snapshots: usize) -> String {
    match (volumes, snapshots) {
        (volumes, 0) => format!("{volumes} volumes"),
        (0, snapshots) => format!("{snapshots} snapshots"),
        (volumes, snapshots) => format!("{volumes} volumes and {snapshots} snapshots"),
    }
}

/// What points nowhere, in words.
fn pointless(volumes: usize, contents: usize) -> String {
    let volumes = match volumes {
        0 => None,
        many => Some(format!(
            "{many} PersistentVolumes of the tenant cluster have no volume behind them"
        )),
    };
    let contents = match contents {
        0 => None,
        many => Some(format!(
            "{many} VolumeSnapshotContents of the tenant cluster have no snapshot behind them"
        )),
    };
    let both: Vec<_> = volumes.into_iter().chain(contents).collect();
    match both.is_empty() {
        true => String::new(),
        false => format!("{} (status.missing)", both.join(", ")),
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
        kind: VOLUME.to_owned(),
        name: known.name.clone(),
        claim: known.claim.clone(),
        volume: known.handle.clone().unwrap_or_default(),
    }
}

fn without_snapshot(content: &Content) -> Missing {
    Missing {
        kind: CONTENT.to_owned(),
        name: content.name.clone(),
        claim: content.snapshot.clone(),
        volume: content.handles.first().cloned().unwrap_or_default(),
    }
}

/// Whether nothing is left to be said, decided or done about volumes and snapshots, as its status says of its spec of now: then what was
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
