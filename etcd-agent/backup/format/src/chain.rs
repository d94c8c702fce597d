//! Following deltas from a full snapshot on.
//!
//! Invariant: what is followed has no hole, neither in numbers nor in revisions, and each link is the
//! one that the next was written after.

use crate::damage::{Damage, Flaw};
use crate::digest::Digest;
use crate::header::{Header, Kind};
use crate::names::Name;

/// How far deltas were followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Position {
    /// Number of the delta that comes next.
    pub next: u64,
    /// The last revision that is had.
    pub revision: u64,
    /// Sum of the delta before the next one; None where none is before it.
    pub previous: Option<Digest>,
}

/// Where a chain ends although there is more.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Broken {
    /// Deltas that are not there.
    #[error("deltas {from} to {to} are missing after revision {after}")]
    Missing {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
        /// The last revision before.
        after: u64,
    },
    /// Revisions that no delta has, because the store had compacted them.
    #[error("the chain is broken between revisions {after} and {before}")]
    Hole {
        /// The last revision before the hole.
        after: u64,
        /// The first one after it.
        before: u64,
    },
    /// An object that is not what was written.
    #[error(transparent)]
    Damaged(#[from] Damage),
}

impl Position {
    /// Follows one delta; true when it has revisions that were not had.
    ///
    /// # Errors
    /// [`Broken`]; then nothing was followed.
    pub fn follow(&mut self, header: &Header, digest: Digest) -> Result<bool, Broken> {
        let Kind::Delta {
            number,
            first,
            last,
            ..
        } = header.kind
        else {
            return Err(Flaw::Misnamed(header.name().to_string())
                .of(Name::Delta(self.next))
                .into());
        };
        let name = Name::Delta(number);
        if number > self.next {
            return Err(Broken::Missing {
                from: self.next,
                to: number - 1,
                after: self.revision,
            });
        }
        if number < self.next {
            return Err(Flaw::Misnamed(name.to_string())
                .of(Name::Delta(self.next))
                .into());
        }
        match (header.previous, self.previous) {
            (Some(wanted), Some(found)) if wanted != found => {
                return Err(Flaw::Follows { wanted, found }.of(name).into());
            }
            (Some(_), Some(_)) | (None, None) => {}
            (Some(_), None) | (None, Some(_)) => return Err(Flaw::FollowsNothing.of(name).into()),
        }
        if first > self.revision + 1 {
            return Err(Broken::Hole {
                after: self.revision,
                before: first,
            });
        }
        let more = last > self.revision;
        *self = Self {
            next: number + 1,
            revision: self.revision.max(last),
            previous: Some(digest),
        };
        Ok(more)
    }
}

#[cfg(test)]
mod tests;
