//! Snapshots of volumes that a tenant cluster, brought back, does not know, and its VolumeSnapshotContents that point
//! nowhere. No I/O, no clock, no chance. What becomes of them is decided with volumes ([`super::volumes`]).
//!
//! Laws (tests of [`super::volumes`]): those of volumes. A snapshot whose content or VolumeSnapshot inside may still be on
//! its way is known.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// What the stock snapshotter puts before the UID of the VolumeSnapshot that it asks for a snapshot for
/// (external-snapshotter, `--snapshot-name-prefix`).
const REQUEST_PREFIX: &str = "snapshot-";
/// What the stock snapshot controller puts before the same UID in the name of the content that it makes
/// (external-snapshotter, `GetDynamicSnapshotContentNameForSnapshot`).
const CONTENT_PREFIX: &str = "snapcontent-";

/// A snapshot: a VolumeSnapshot in the tenant namespace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// As it was seen.
    pub version: String,
    /// When it was made; none where it does not say so.
    pub created: Option<Timestamp>,
    /// The name under which the tenant cluster asked for it.
    pub asked_as: String,
    /// The volume that it is of, by its claim in the tenant namespace.
    pub volume: String,
    /// It is being deleted.
    pub is_going: bool,
}

/// A VolumeSnapshotContent of the tenant cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Content {
    /// Its name.
    pub name: String,
    /// The snapshots that it names: the one that it was made for, and the one that it was given.
    pub handles: BTreeSet<String>,
    /// UID of the VolumeSnapshot that has it; none where nobody has it yet.
    pub request: Option<String>,
    /// Whether Covey's driver is to have it, and it is to stay.
    pub is_ours: bool,
    /// The VolumeSnapshot that has it, as namespace and name.
    pub snapshot: Option<String>,
}

/// All that is there. Read in this order, so that whatever is made meanwhile is known: snapshots, VolumeSnapshots of the
/// tenant cluster, its VolumeSnapshotContents, names of snapshots once more.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// Snapshots in the tenant namespace.
    pub snapshots: Vec<Snapshot>,
    /// UIDs of the VolumeSnapshots of the tenant cluster.
    pub requests: BTreeSet<String>,
    /// Its VolumeSnapshotContents.
    pub contents: Vec<Content>,
    /// Names of snapshots that came while that was read.
    pub later: BTreeSet<String>,
}

impl Seen {
    /// Snapshots that the tenant cluster does not know, by name. `since`: when the restore began.
    #[must_use]
    pub fn orphans(&self, since: Timestamp) -> Vec<&Snapshot> {
        let contents = || self.contents.iter();
        let handles: BTreeSet<&str> = contents()
            .flat_map(|content| &content.handles)
            .map(String::as_str)
            .collect();
        let mut uids: BTreeSet<&str> = self.requests.iter().map(String::as_str).collect();
        uids.extend(contents().filter_map(|content| content.request.as_deref()));
        uids.extend(contents().filter_map(|content| content.name.strip_prefix(CONTENT_PREFIX)));
        let is_asked = |snapshot: &Snapshot| {
            let uid = snapshot.asked_as.strip_prefix(REQUEST_PREFIX);
            uid.is_some_and(|uid| uids.contains(uid))
        };
        // One that came later is of the tenant cluster as it is now: its content may be on its way.
        let is_of_before = |snapshot: &Snapshot| snapshot.created.is_some_and(|at| at < since);
        let orphans = self.snapshots.iter().filter(|snapshot| {
            is_of_before(snapshot)
                && !snapshot.is_going
                && !handles.contains(snapshot.name.as_str())
                && !is_asked(snapshot)
        });
        let by_name: BTreeMap<_, _> = orphans.map(|found| (&found.name, found)).collect();
        by_name.into_values().collect()
    }

    /// VolumeSnapshotContents that have no snapshot behind them, by name.
    #[must_use]
    pub fn missing(&self) -> Vec<&Content> {
        let there: BTreeSet<&str> = self.snapshots.iter().map(|s| s.name.as_str()).collect();
        let is_there = |handle: &String| {
            there.contains(handle.as_str()) || self.later.contains(handle.as_str())
        };
        let missing = self.contents.iter().filter(|content| {
            // One that names none is being made.
            content.is_ours && !content.handles.is_empty() && !content.handles.iter().any(is_there)
        });
        let by_name: BTreeMap<_, _> = missing.map(|found| (&found.name, found)).collect();
        by_name.into_values().collect()
    }
}
