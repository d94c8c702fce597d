//! How far watches have told what there is, so that an answer that is older than that is not believed.
//!
//! Invariant: what a watch has told of, or of what came after, no answer brings back; a list tells nothing
//! before its end, because it has no order.

use std::collections::BTreeMap;

/// Up to which `resourceVersion` the watch of each kind has told everything. Versions of one resource are
/// ordered (KEP-5504), and those of a watch's events only grow; versions of different kinds say nothing of
/// each other.
#[derive(Clone, Debug)]
pub struct Told<K> {
    up_to: BTreeMap<K, u64>,
    /// The newest version in a list that is not over.
    listing: BTreeMap<K, u64>,
}

impl<K> Default for Told<K> {
    fn default() -> Self {
        Self {
            up_to: BTreeMap::new(),
            listing: BTreeMap::new(),
        }
    }
}

impl<K: Copy + Ord> Told<K> {
    /// The watch of this kind begins to list anew.
    pub fn begin(&mut self, kind: K) {
        self.listing.insert(kind, 0);
    }

    /// A watch told of an object, which is at this version or was when it went.
    pub fn note(&mut self, kind: K, version: u64) {
        let newest = match self.listing.get_mut(&kind) {
            Some(newest) => newest,
            None => self.up_to.entry(kind).or_default(),
        };
        *newest = version.max(*newest);
    }

    /// The list of this kind is over: what it did not name is gone.
    pub fn end(&mut self, kind: K) {
        if let Some(newest) = self.listing.remove(&kind) {
            self.note(kind, newest);
        }
    }

    /// Whether the watch of this kind knows better than an answer at this version.
    #[must_use]
    pub fn knows_better(&self, kind: K, version: u64) -> bool {
        self.up_to.get(&kind).is_some_and(|told| version <= *told)
    }
}

#[cfg(test)]
mod tests;
