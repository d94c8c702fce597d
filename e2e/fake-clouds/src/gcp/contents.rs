//! All that there is, in all projects.
//!
//! Invariant: an ID is given once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::behaviour::Behaviour;
use super::project::Project;
use crate::faults::Script;
use crate::journal::Journal;
use crate::late::Late;

/// All of it.
#[derive(Debug, Default)]
pub struct Contents {
    /// Projects, by name.
    pub projects: BTreeMap<String, Project>,
    /// Who may be let in, by e-mail.
    pub accounts: BTreeMap<String, Account>,
    /// Tokens that were given.
    pub tokens: BTreeMap<String, Access>,
    /// Permissions that calls needed, ever.
    pub used: BTreeSet<&'static str>,
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

/// A service account.
#[derive(Clone, Debug)]
pub struct Account {
    /// The projects in which it may do something.
    pub projects: Vec<String>,
    /// Its public key: DER of `RSAPublicKey`.
    pub public_key: Vec<u8>,
    /// What it may do; none: everything.
    pub permissions: Option<BTreeSet<String>>,
}

/// Whom a token is of.
#[derive(Clone, Debug)]
pub struct Access {
    /// The account, by e-mail.
    pub account: String,
    /// When it ends.
    pub until: Timestamp,
}

impl Contents {
    /// A new ID.
    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}
