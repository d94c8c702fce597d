//! What a look at a machine gives: it is there, it is proven gone, or nobody knows.
//!
//! Invariant: that it was not found, and that nobody could ask, are never one value; who says that a machine is
//! gone has to say by what proof.

use crate::absence::Proof;
use crate::description::{Description, Listed};

/// What is there of a machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Presence {
    /// It is there, or something of it.
    Present(Box<Description>),
    /// Nothing at all is left of it.
    Absent(Proof),
    /// It may be there. Nothing is deleted, replaced or made anew by that.
    Unknown {
        /// Why, for people.
        why: &'static str,
    },
}

impl Presence {
    /// What is there of it; none where nothing is and where nobody knows alike.
    #[must_use]
    pub fn present(self) -> Option<Description> {
        match self {
            Self::Present(description) => Some(*description),
            Self::Absent(_) | Self::Unknown { .. } => None,
        }
    }
}

/// Where machines are listed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Scope {
    /// One namespace of the management cluster.
    TenantNamespace(String),
}

/// Machines of a [`Scope`], whether or not there is a Machine for each.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Inventory {
    /// Sorted by name.
    pub machines: Vec<Listed>,
    /// Nothing is missing: every page of every part was read. A list that misses something proves nobody's
    /// absence.
    pub complete: bool,
}
