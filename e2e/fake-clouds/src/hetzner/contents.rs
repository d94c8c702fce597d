//! All that there is, in all projects.
//!
//! Invariant: an ID is given once.

use std::collections::BTreeMap;

use super::behaviour::Behaviour;
use super::project::Project;
use crate::faults::Script;
use crate::journal::Journal;
use crate::late::Late;

/// All of it.
#[derive(Debug, Default)]
pub struct Contents {
    /// Projects, by the token that lets one in.
    pub projects: BTreeMap<String, Project>,
    /// Tokens that may only read, and whose project they are for.
    pub readers: BTreeMap<String, String>,
    /// How it behaves.
    pub behaviour: Behaviour,
    /// What goes wrong.
    pub script: Script,
    /// What happened.
    pub journal: Journal,
    /// What is done later.
    pub(super) late: Vec<Late>,
    /// The last ID that was given.
    pub(super) next_id: u64,
}

impl Contents {
    /// A new ID.
    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}
