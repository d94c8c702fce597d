//! What nobody has any more in a project, by the rule that all clouds have ([`providers::leaks`]). Pure.
//!
//! Invariant: what is protected, worked on or in use is told and not deleted; volumes are never deleted.

use std::collections::BTreeSet;

use jiff::Timestamp;
use providers::Doubt;
use providers::identity::MACHINE_UID;
use providers::leaks::{Kind, Outcome, Suspects, Thing};

use crate::schema::{PrimaryIp, Server, Volume};

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

/// What nobody has. `machines`: UIDs of all Machines, read after everything was listed, so that none is newer; `doubts`: of
/// which times it is not known who made what.
#[must_use]
pub fn leaks(
    found: &Found,
    machines: &BTreeSet<String>,
    doubts: &[Doubt],
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
    let all = servers.chain(addresses).chain(volumes);
    let all: Vec<_> = all
        .map(|(kind, id, name, labels, created, deletable)| Thing {
            kind,
            id,
            name,
            machine_uid: labels.get(MACHINE_UID).map(String::as_str),
            created: created.as_deref(),
            deletable,
        })
        .collect();
    providers::leaks::leaks(&all, machines, doubts, suspects, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Labels;
    use providers::Standing;

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
        let young = leaks(&found, &machines, &[], &mut suspects, at(599));
        assert_eq!(young, Outcome::default());
        let first = leaks(&found, &machines, &[], &mut suspects, at(600));
        assert_eq!((first.leaks.len(), first.delete.len()), (1, 0));
        let soon = leaks(&found, &machines, &[], &mut suspects, at(700));
        assert!(soon.delete.is_empty());
        let then = leaks(&found, &machines, &[], &mut suspects, at(720));
        assert_eq!(then.delete, [(Kind::Server, 0)]);
    }

    #[test]
    fn orphan_whose_machine_comes_back_begins_anew() {
        let found = many(20);
        let mut suspects = Suspects::new();
        let _ = leaks(&found, &machines(1..20), &[], &mut suspects, at(600));
        let _ = leaks(&found, &machines(0..20), &[], &mut suspects, at(660));
        let outcome = leaks(&found, &machines(1..20), &[], &mut suspects, at(720));
        assert!(outcome.delete.is_empty());
    }

    #[test]
    fn many_at_once_are_held() {
        let mut suspects = Suspects::new();
        let found = many(20);
        let _ = leaks(&found, &BTreeSet::new(), &[], &mut suspects, at(600));
        let outcome = leaks(&found, &BTreeSet::new(), &[], &mut suspects, at(720));
        assert!(outcome.held && outcome.delete.is_empty());
        assert_eq!(outcome.leaks.len(), 20);
        let few = many(4);
        let mut suspects = Suspects::new();
        let _ = leaks(&few, &machines(0..2), &[], &mut suspects, at(600));
        let outcome = leaks(&few, &machines(0..2), &[], &mut suspects, at(720));
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
        let _ = leaks(&found, &machines, &[], &mut suspects, at(600));
        let outcome = leaks(&found, &machines, &[], &mut suspects, at(720));
        assert_eq!(outcome.delete, [(Kind::Address, 101)]);
        assert_eq!(outcome.leaks.len(), 4);
        assert!(!outcome.held);
    }

    fn doubt(from: Option<i64>, to: i64, is_confirmed: bool) -> Doubt {
        Doubt {
            from: from.map(at),
            to: at(to),
            is_confirmed,
        }
    }

    /// Twice, far enough apart.
    fn looked(found: &Found, machines: &BTreeSet<String>, doubts: &[Doubt]) -> Outcome {
        let mut suspects = Suspects::new();
        let _ = leaks(found, machines, doubts, &mut suspects, at(50_000));
        leaks(found, machines, doubts, &mut suspects, at(50_120))
    }

    #[test]
    fn what_was_made_after_the_state_that_was_brought_back_is_told_and_stays_until_it_is_confirmed()
    {
        // One that was left behind before, two of Machines that nobody remembers, one of a Machine since.
        let mut found = many(30);
        for (id, created) in [(0, 1_000), (1, 11_000), (2, 19_000), (3, 30_000)] {
            found.servers[id].created = Some(at(created).to_string());
        }
        let known = machines(4..30);
        let outcome = looked(&found, &known, &[doubt(Some(10_000), 20_000, false)]);
        assert_eq!(outcome.leaks.len(), 4);
        assert_eq!(outcome.delete, [(Kind::Server, 0), (Kind::Server, 3)]);
        let doubted = |outcome: &Outcome| {
            let all = outcome.leaks.iter();
            all.filter(|leak| leak.standing == Standing::Doubted)
                .count()
        };
        assert_eq!(doubted(&outcome), 2);
        let outcome = looked(&found, &known, &[doubt(Some(10_000), 20_000, true)]);
        assert_eq!((outcome.delete.len(), doubted(&outcome)), (4, 0));
    }

    #[test]
    fn many_that_a_person_confirmed_go_and_many_others_are_held_all_the_same() {
        let confirmed = [doubt(None, 1_000, true)];
        let mut found = many(20);
        let outcome = looked(&found, &BTreeSet::new(), &confirmed);
        assert!(!outcome.held);
        assert_eq!(outcome.delete.len(), 20);
        for server in &mut found.servers[0..8] {
            server.created = Some(at(10_000).to_string());
        }
        let outcome = looked(&found, &BTreeSet::new(), &confirmed);
        assert!(outcome.held);
        assert_eq!(outcome.delete.len(), 12);
    }
}
