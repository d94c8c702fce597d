//! One Machine to be looked at in a cloud, as its status says it.
//!
//! Invariant: nothing is in here that is not stored, so that whoever begins anew asks the same.

use jiff::Timestamp;

use crate::identity::Owner;

/// How far a Machine's creation is, as its status says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asked {
    /// Nothing was asked for.
    Never,
    /// It was asked for, and nobody has seen it.
    Pending {
        /// When the Machine was deleted; none: it is wanted. It was asked for until then.
        deleted: Option<Timestamp>,
    },
    /// It was seen.
    Seen,
}

/// One Machine to be looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Subject {
    /// Whose machine it is.
    pub owner: Owner,
    /// How far its creation is.
    pub asked: Asked,
    /// ID of the machine, as the cloud has it, that it was known to have: where somebody took its labels off, it is still the Machine's.
    pub instance: Option<u64>,
    /// The Machine goes: nothing of it may be left.
    pub is_going: bool,
    /// Its node is Ready; none: not known.
    pub node_ready: Option<bool>,
}
