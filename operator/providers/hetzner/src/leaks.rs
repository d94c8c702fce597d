//! What nobody has any more, and costs all the same. Pure.
//!
//! Invariant: only what bears this installation's UID, of lists that miss nothing, whose Machine is not there, is old,
//! and was seen so twice; where that is much at once nothing is deleted, because rather the Machines are missing (a
//! management cluster that was restored half). Volumes are told and never deleted: there may be data on them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::identity::MACHINE_UID;
use crate::schema::{Labels, PrimaryIp, Server, Volume};

/// How far apart something has to be seen twice.
const APART: SignedDuration = SignedDuration::from_mins(2);
/// How old something has to be.
const AGE: SignedDuration = SignedDuration::from_mins(10);
/// More than so many at once are too many.
const MOST: usize = 5;
/// And so is more than this part of all.
const PART: usize = 5;

/// What something is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// A server.
    Server,
    /// A primary IP.
    Address,
    /// A volume.
    Volume,
}

/// All that an installation has in a project.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Servers.
    pub servers: Vec<Server>,
    /// Primary IPs.
    pub addresses: Vec<PrimaryIp>,
    /// Volumes.
    pub volumes: Vec<Volume>,
}

/// Something that nobody has any more.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leak {
    /// What it is.
    pub kind: Kind,
    /// Its ID.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// UID of the Machine that it was made for; none where it does not say.
    pub machine_uid: Option<String>,
    /// Since when it is known.
    pub since: Timestamp,
}

/// What was found before, and since when.
pub type Suspects = BTreeMap<(Kind, u64), Timestamp>;

/// What came of a look.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Outcome {
    /// What nobody has any more, those to be deleted among it.
    pub leaks: Vec<Leak>,
    /// What to delete.
    pub delete: Vec<(Kind, u64)>,
    /// So much that nothing is deleted before somebody has looked.
    pub held: bool,
}

/// What nobody has. `machines`: UIDs of all Machines, read after everything was listed, so that none is newer.
#[must_use]
pub fn leaks(
    found: &Found,
    machines: &BTreeSet<String>,
    suspects: &mut Suspects,
    now: Timestamp,
) -> Outcome {
    let servers = found.servers.iter().map(|s| {
        let idle = s.status != "deleting" && !s.locked && !s.protection.delete;
        (Kind::Server, s.id, &s.name, &s.labels, &s.created, idle)
    });
    let addresses = found.addresses.iter().map(|a| {
        let idle = a.assignee_id.is_none() && !a.protection.delete;
        (Kind::Address, a.id, &a.name, &a.labels, &a.created, idle)
    });
    let volumes = found
        .volumes
        .iter()
        .map(|v| (Kind::Volume, v.id, &v.name, &v.labels, &v.created, false));
    let all: Vec<_> = servers.chain(addresses).chain(volumes).collect();
    let total = all.len();
    let mut outcome = Outcome::default();
    let mut known = Suspects::new();
    for (kind, id, name, labels, created, deletable) in all {
        if is_owned(labels, machines) || !is_old(created.as_deref(), now) {
            continue;
        }
        let since = *suspects.get(&(kind, id)).unwrap_or(&now);
        known.insert((kind, id), since);
        if now.duration_since(since) >= APART && deletable {
            outcome.delete.push((kind, id));
        }
        outcome.leaks.push(Leak {
            kind,
            id,
            name: name.clone(),
            machine_uid: labels.get(MACHINE_UID).cloned(),
            since,
        });
    }
    *suspects = known;
    let many = outcome
        .leaks
        .iter()
        .filter(|leak| leak.kind != Kind::Volume);
    let many = many.count();
    if many > MOST || (many > 1 && many * PART > total) {
        outcome.held = true;
        outcome.delete.clear();
    }
    outcome
}

/// Something of ours without a Machine's UID has lost a label, and is nobody's to delete by itself.
fn is_owned(labels: &Labels, machines: &BTreeSet<String>) -> bool {
    labels
        .get(MACHINE_UID)
        .is_none_or(|uid| machines.contains(uid))
}

fn is_old(created: Option<&str>, now: Timestamp) -> bool {
    let created = created.and_then(|text| text.parse::<Timestamp>().ok());
    created.is_some_and(|created| now.duration_since(created) >= AGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn labels(uid: &str) -> Labels {
        Labels::from([(MACHINE_UID.to_owned(), uid.to_owned())])
    }

    fn server(id: u64, uid: &str, created: i64) -> Server {
        Server {
            id,
            status: "running".to_owned(),
            created: Some(at(created).to_string()),
            labels: labels(uid),
            ..Server::default()
        }
    }

    fn many(count: u64) -> Found {
        Found {
            servers: (0..count)
                .map(|id| server(id, &format!("m{id}"), 0))
                .collect(),
            ..Found::default()
        }
    }

    fn machines(range: std::ops::Range<u64>) -> BTreeSet<String> {
        range.map(|id| format!("m{id}")).collect()
    }

    #[test]
    fn orphan_goes_when_it_is_old_and_was_seen_twice() {
        let (found, machines) = (many(20), machines(1..20));
        let mut suspects = Suspects::new();
        let young = leaks(&found, &machines, &mut suspects, at(599));
        assert_eq!(young, Outcome::default());
        let first = leaks(&found, &machines, &mut suspects, at(600));
        assert_eq!((first.leaks.len(), first.delete.len()), (1, 0));
        let soon = leaks(&found, &machines, &mut suspects, at(700));
        assert!(soon.delete.is_empty());
        let then = leaks(&found, &machines, &mut suspects, at(720));
        assert_eq!(then.delete, [(Kind::Server, 0)]);
    }

    #[test]
    fn orphan_whose_machine_comes_back_begins_anew() {
        let found = many(20);
        let mut suspects = Suspects::new();
        let _ = leaks(&found, &machines(1..20), &mut suspects, at(600));
        let _ = leaks(&found, &machines(0..20), &mut suspects, at(660));
        let outcome = leaks(&found, &machines(1..20), &mut suspects, at(720));
        assert!(outcome.delete.is_empty());
    }

    #[test]
    fn many_at_once_are_held() {
        let mut suspects = Suspects::new();
        let found = many(20);
        let _ = leaks(&found, &BTreeSet::new(), &mut suspects, at(600));
        let outcome = leaks(&found, &BTreeSet::new(), &mut suspects, at(720));
        assert!(outcome.held && outcome.delete.is_empty());
        assert_eq!(outcome.leaks.len(), 20);
        let few = many(4);
        let mut suspects = Suspects::new();
        let _ = leaks(&few, &machines(0..2), &mut suspects, at(600));
        let outcome = leaks(&few, &machines(0..2), &mut suspects, at(720));
        assert!(outcome.held, "half of all");
    }

    #[test]
    fn what_is_protected_assigned_a_volume_or_says_nothing_stays() {
        let mut found = many(40);
        found.servers[0].protection.delete = true;
        found.servers[1].labels.clear();
        found.addresses.push(PrimaryIp {
            id: 100,
            assignee_id: Some(7),
            created: Some(at(0).to_string()),
            labels: labels("gone"),
            ..PrimaryIp::default()
        });
        found.addresses.push(PrimaryIp {
            id: 101,
            created: Some(at(0).to_string()),
            labels: labels("gone"),
            ..PrimaryIp::default()
        });
        found.volumes.push(Volume {
            id: 200,
            created: Some(at(0).to_string()),
            labels: labels("gone"),
            ..Volume::default()
        });
        let mut suspects = Suspects::new();
        let machines = machines(2..40);
        let _ = leaks(&found, &machines, &mut suspects, at(600));
        let outcome = leaks(&found, &machines, &mut suspects, at(720));
        assert_eq!(outcome.delete, [(Kind::Address, 101)]);
        assert_eq!(outcome.leaks.len(), 4);
        assert!(!outcome.held);
    }
}
