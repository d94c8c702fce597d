//! What is in a store, as its list says.
//!
//! Invariant: nothing here was read; a name is believed to be an object's until it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use backup_format::{FullName, IdentityName, Name};

/// Objects of one scope.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listing {
    /// Full snapshots with a head.
    pub fulls: BTreeSet<FullName>,
    /// Those without one: being written, given up, or being deleted.
    pub unfinished: BTreeSet<FullName>,
    /// Deltas by number, with their bytes.
    pub deltas: BTreeMap<u64, u64>,
    /// [`Name::Tombstone`], [`Name::Verified`] and [`Name::Kept`].
    pub marks: BTreeSet<Name>,
    /// Identities of the tenant cluster.
    pub identities: BTreeSet<IdentityName>,
}

/// A name that no object of a backup has; it is passed over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotOurs;

impl Listing {
    /// Adds an object by its name within the scope.
    ///
    /// # Errors
    /// [`NotOurs`].
    pub fn add(&mut self, name: &str, bytes: u64) -> Result<(), NotOurs> {
        self.insert(name.parse().map_err(|_| NotOurs)?, bytes);
        Ok(())
    }

    /// Adds an object.
    pub fn insert(&mut self, name: Name, bytes: u64) {
        match name {
            Name::Delta(number) => {
                self.deltas.insert(number, bytes);
            }
            Name::Head(full) => {
                self.unfinished.remove(&full);
                self.fulls.insert(full);
            }
            Name::Part(full, _) => {
                if !self.fulls.contains(&full) {
                    self.unfinished.insert(full);
                }
            }
            Name::Tombstone(..) | Name::Verified(..) | Name::Kept(..) => {
                self.marks.insert(name);
            }
            Name::Identity(identity) => {
                self.identities.insert(identity);
            }
        }
    }

    /// Takes a full snapshot out, head and parts.
    pub fn remove_full(&mut self, full: &FullName) {
        self.fulls.remove(full);
        self.unfinished.remove(full);
    }

    /// The marks of a snapshot.
    pub fn marks_of(&self, full: FullName) -> impl Iterator<Item = Name> + '_ {
        self.marks
            .iter()
            .copied()
            .filter(move |mark| of(mark) == Some(full))
    }

    /// Since when a snapshot is to be deleted.
    #[must_use]
    pub fn buried(&self, full: &FullName) -> Option<u64> {
        let since = self.marks_of(*full).filter_map(|mark| match mark {
            Name::Tombstone(_, since) => Some(since),
            _ => None,
        });
        since.min()
    }

    /// Whether a snapshot was found whole.
    #[must_use]
    pub fn is_verified(&self, full: &FullName) -> bool {
        self.marks_of(*full)
            .any(|mark| matches!(mark, Name::Verified(..)))
    }

    /// Until when somebody wants a snapshot kept, in milliseconds since 1970.
    #[must_use]
    pub fn kept_until(&self, full: &FullName) -> Option<u64> {
        let until = self.marks_of(*full).filter_map(|mark| match mark {
            Name::Kept(_, until) => Some(until),
            _ => None,
        });
        until.max()
    }

    /// The newest snapshot with a head.
    #[must_use]
    pub fn newest_full(&self) -> Option<FullName> {
        self.fulls.last().copied()
    }

    /// Number of the newest delta.
    #[must_use]
    pub fn newest_delta(&self) -> Option<u64> {
        self.deltas.last_key_value().map(|(number, _)| *number)
    }

    /// Bytes of the deltas from this number on.
    #[must_use]
    pub fn bytes_since(&self, number: u64) -> u64 {
        self.deltas.range(number..).map(|(_, bytes)| bytes).sum()
    }

    /// Snapshots of which nothing but marks is left.
    pub fn gone(&self) -> impl Iterator<Item = FullName> + '_ {
        let marked = self.marks.iter().filter_map(of);
        marked.filter(|full| !self.fulls.contains(full) && !self.unfinished.contains(full))
    }

    /// A delta that no snapshot which stays needs: between a snapshot that is gone and its neighbours,
    /// or before the first one. The newest of them first, so that what is left begins at a snapshot; but
    /// never the newest of all, which says where the chain goes on.
    #[must_use]
    pub fn unneeded_delta(&self) -> Option<u64> {
        let newest = self.newest_delta()?;
        let before = match (self.known().first(), self.fulls.first()) {
            (Some(known), Some(oldest)) => 0..known.next.min(oldest.next),
            _ => 0..0,
        };
        let ranges = std::iter::once(before).chain(self.gone().map(|full| self.around(full)));
        let last = |range: Range<u64>| {
            let range = range.start..range.end.min(newest);
            let there = (!range.is_empty()).then(|| self.deltas.range(range));
            there
                .and_then(|mut there| there.next_back())
                .map(|(number, _)| *number)
        };
        ranges.filter_map(last).max()
    }

    /// An identity that no snapshot which stays needs: another one followed it, so many milliseconds and more before
    /// the oldest of them was taken. What was written under its keys later is read with those of the later one.
    #[must_use]
    pub fn unneeded_identity(&self, grace_ms: u64) -> Option<IdentityName> {
        let oldest = self.fulls.iter().map(|full| full.taken_ms).min()?;
        let is_over = |next: &&IdentityName| next.sealed_ms.saturating_add(grace_ms) <= oldest;
        let last_needed = self.identities.iter().rfind(is_over)?;
        let first = self.identities.first()?;
        (first < last_needed).then_some(*first)
    }

    /// A snapshot that is gone with all that went with it, so that its marks may go.
    #[must_use]
    pub fn forgettable(&self) -> Option<FullName> {
        let empty = |full: &FullName| {
            let around = self.around(*full);
            around.is_empty() || self.deltas.range(around).next().is_none()
        };
        self.gone().find(empty)
    }

    /// Snapshots that are there, and those of which it is known that they were.
    fn known(&self) -> BTreeSet<FullName> {
        self.fulls.iter().copied().chain(self.gone()).collect()
    }

    /// Numbers of the deltas between a snapshot's neighbours. None while nothing is newer than it.
    fn around(&self, full: FullName) -> Range<u64> {
        let known = self.known();
        match known.range(full..).nth(1) {
            None => 0..0,
            Some(after) => {
                let before = known.range(..full).next_back();
                before.map_or(0, |before| before.next)..after.next
            }
        }
    }
}

fn of(mark: &Name) -> Option<FullName> {
    match mark {
        Name::Tombstone(full, _) | Name::Verified(full, _) | Name::Kept(full, _) => Some(*full),
        Name::Delta(_) | Name::Head(_) | Name::Part(..) | Name::Identity(_) => None,
    }
}
