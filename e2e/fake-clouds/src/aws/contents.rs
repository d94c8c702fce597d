//! All that there is, in all accounts.
//!
//! Invariant: an ID is given once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::behaviour::Behaviour;
use super::rates::Rates;
use super::thing::{Instance, Part, Place};
use crate::faults::Script;
use crate::journal::Journal;
use crate::late::Late;
use crate::serve::later;

/// All of it.
#[derive(Debug, Default)]
pub struct Contents {
    /// Who may be let in, by key.
    pub principals: BTreeMap<String, Principal>,
    /// Roles that may be taken on, by ARN.
    pub roles: BTreeMap<String, Role>,
    /// Instances, by ID.
    pub instances: BTreeMap<String, Instance>,
    /// Disks and interfaces, by ID.
    pub parts: BTreeMap<String, Part>,
    /// What was asked for under which token.
    pub(super) tokens: BTreeMap<(Place, String), Requested>,
    /// Rights that calls needed, ever.
    pub used: BTreeSet<String>,
    /// How it behaves.
    pub behaviour: Behaviour,
    /// What goes wrong.
    pub script: Script,
    /// What happened.
    pub journal: Journal,
    /// What is done later.
    pub(super) late: Vec<Late>,
    /// Requests that are left.
    pub(super) rates: Rates,
    /// The last ID that was given.
    pub(super) next_id: u64,
}

/// What was asked for under a token.
#[derive(Clone, Debug)]
pub(super) struct Requested {
    /// All that it was asked for with.
    pub(super) form: Vec<(String, String)>,
    /// The instance that it made.
    pub(super) made: String,
}

/// Who may be let in.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Its account.
    pub account: String,
    /// Its secret.
    pub secret: String,
    /// Of a session: its token, and when it ends.
    pub session: Option<(String, Timestamp)>,
    /// What it may do; none: everything.
    pub actions: Option<BTreeSet<String>>,
}

/// A role.
#[derive(Clone, Debug)]
pub struct Role {
    /// Its account, whose users may take it on.
    pub account: String,
    /// What it asks them for.
    pub external_id: String,
    /// Another's token that it trusts.
    pub web_token: Option<String>,
}

impl Contents {
    /// A new ID.
    pub(super) fn id(&mut self, prefix: &str) -> String {
        self.next_id += 1;
        // All of it is far from what fits 32 bits, as of those that there are.
        format!("{prefix}-0a1b2c3d{:09x}", self.next_id)
    }

    /// A spot instance is marked: it ends in two minutes.
    pub fn mark(&mut self, id: &str, now: Timestamp) {
        if let Some(instance) = self.instances.get_mut(id) {
            instance.marked = Some(now);
            instance.ends = Some(later(now, std::time::Duration::from_secs(120)));
            instance.reason = Some("Server.SpotInstanceTermination");
        }
    }
}
