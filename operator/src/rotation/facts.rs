//! What a rotation is decided by.
//!
//! Invariant: what could not be looked at is not known, and nothing follows from it but to wait.

use std::collections::BTreeSet;

use kit_objects::known::Known;

/// What is seen of one thing that is turned.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Facts {
    /// The generation that is asked for; none where nobody asks for one: then it stays where it is.
    pub wanted: Option<u32>,
    /// Whether the user has it stay where it is.
    pub hold: bool,
    /// Generations that were made and not dropped: verifiers are to believe all of them.
    pub believed: BTreeSet<u32>,
    /// Generations that were dropped.
    pub dropped: BTreeSet<u32>,
    /// The one of [`Self::believed`] that signs, as holders were told last.
    pub signs: u32,
    /// Whether every verifier that runs, or ends, believes all of [`Self::believed`] and nothing else. Absent where there
    /// is no verifier.
    pub verifiers: Known<bool>,
    /// Whether all that holders have, and would be given now, is of the one that signs.
    pub holders: Known<bool>,
    /// What the others signed that is in use yet and that Covey cannot replace, for people; absent where there is nothing.
    pub outstanding: Known<String>,
    /// Who has to be told of the wanted one before it signs, or that nothing but it is believed any more after the others were
    /// dropped, for people; absent where that is nobody.
    pub untold: Known<String>,
    /// Whether verifiers are to be replaced, or are being replaced, that believe something else.
    pub is_spreading: bool,
    /// What else changes the tenant cluster now, for people: nothing is begun beside it.
    pub busy: Option<&'static str>,
}
