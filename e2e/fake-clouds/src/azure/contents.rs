//! All that there is, in all subscriptions.
//!
//! Invariant: an ID is given once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::behaviour::Behaviour;
use super::rates::Rates;
use super::thing::{Change, Group, Kind};
use crate::faults::Script;
use crate::journal::Journal;
use crate::late::Late;
use crate::serve::later;

/// All of it.
#[derive(Debug, Default)]
pub struct Contents {
    /// Resource groups, by subscription and name.
    pub groups: BTreeMap<(String, String), Group>,
    /// Of which tenant a subscription is.
    pub tenants: BTreeMap<String, String>,
    /// Who may be let in, by ID.
    pub principals: BTreeMap<String, Principal>,
    /// Tokens that were given.
    pub tokens: BTreeMap<String, Access>,
    /// Actions that calls needed, ever, and where: `group` or `subscription`.
    pub used: BTreeSet<(&'static str, &'static str)>,
    /// How it behaves.
    pub behaviour: Behaviour,
    /// What goes wrong.
    pub script: Script,
    /// What happened.
    pub journal: Journal,
    /// What became of what was begun.
    pub(super) operations: BTreeMap<u64, Operation>,
    /// What is done later.
    pub(super) late: Vec<Late>,
    /// Requests that are left.
    pub(super) rates: Rates,
    /// The last ID that was given.
    pub(super) next_id: u64,
    /// What stands before a path in an address.
    pub(super) base: String,
}

/// Who may be let in.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Its tenant.
    pub tenant: String,
    /// Its secret.
    pub secret: String,
    /// The secret has reached its end.
    pub secret_ended: bool,
    /// Another's token that it may be let in by.
    pub federated: Option<String>,
    /// The subscriptions in which it may do something.
    pub subscriptions: Vec<String>,
    /// What it may do; none: everything.
    pub actions: Option<BTreeSet<String>>,
}

/// Whom a token is of.
#[derive(Clone, Debug)]
pub struct Access {
    /// The principal.
    pub principal: String,
    /// When it ends.
    pub until: Timestamp,
}

/// Something that is done and takes a while.
#[derive(Clone, Debug, Default)]
pub(super) struct Operation {
    pub(super) is_done: bool,
    /// How it failed: code and sentence.
    pub(super) error: Option<(&'static str, &'static str)>,
}

impl Contents {
    /// A new ID.
    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Begins to do something that ends then.
    pub(super) fn begin(&mut self, what: &'static str, until: Timestamp) -> Change {
        let operation = self.id();
        self.operations.insert(operation, Operation::default());
        Change {
            what,
            until,
            operation,
        }
    }

    /// Where it is told what becomes of it.
    pub(super) fn address_of(&self, subscription: &str, operation: u64) -> String {
        format!(
            "{}/subscriptions/{subscription}/providers/Microsoft.Compute/locations/westeurope/operations/{operation}?\
             api-version=2024-07-01",
            self.base
        )
    }

    /// A spot machine is taken back: it goes in half a minute.
    pub fn evict(&mut self, subscription: &str, name: &str, now: Timestamp) {
        let until = later(now, std::time::Duration::from_secs(30));
        let change = self.begin("evict", until);
        let key = (subscription.to_owned(), "workers".to_owned());
        let group = self.groups.get_mut(&key);
        let thing = group.and_then(|group| group.things.get_mut(&(Kind::Vm, name.to_owned())));
        if let Some(thing) = thing {
            thing.state = "Deleting";
            thing.change = Some(change);
        }
    }
}
