//! Which snapshots may lead to what is asked for. Pure.

use backup_format::FullName;

use crate::plan::listing::Listing;

/// The moment that is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum At {
    /// The newest there is.
    Latest,
    /// The last revision whose event came by then, in milliseconds since 1970.
    Time(u64),
    /// This revision.
    Revision(u64),
}

impl At {
    /// Whether a revision of that time belongs to what is asked for.
    #[must_use]
    pub fn has(self, revision: u64, time_ms: u64) -> bool {
        match self {
            Self::Latest => true,
            Self::Time(at) => time_ms <= at,
            Self::Revision(at) => revision <= at,
        }
    }
}

/// Snapshots that are not younger, as far as their names say; the newest first.
#[must_use]
pub fn candidates(listing: &Listing, at: At) -> Vec<FullName> {
    let old_enough = listing
        .fulls
        .iter()
        .filter(|full| at.has(full.revision, full.taken_ms));
    old_enough.rev().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_that_are_old_enough_come_newest_first() {
        let full = |revision| FullName {
            revision,
            next: 0,
            taken_ms: revision * 10,
        };
        let mut listing = Listing::default();
        listing.fulls.extend([3, 9, 6].map(full));
        let revisions = |at| {
            candidates(&listing, at)
                .iter()
                .map(|f| f.revision)
                .collect::<Vec<_>>()
        };
        assert_eq!(revisions(At::Latest), [9, 6, 3]);
        assert_eq!(revisions(At::Revision(8)), [6, 3]);
        assert_eq!(revisions(At::Time(60)), [6, 3]);
        assert_eq!(revisions(At::Time(29)), [0_u64; 0]);
    }
}
