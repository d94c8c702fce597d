//! What nobody has any more, and costs all the same. Pure.
//!
//! Invariant: only what bears this installation's UID, of lists that miss nothing, whose Machine is not there, is old,
//! and was seen so twice; where that is much at once nothing is deleted, because rather the Machines are missing (a
//! management cluster that was restored half), and nothing that was made in a time of doubt ([`crate::doubt`]), unless a
//! person has confirmed it. Volumes are told and never deleted: there may be data on them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::doubt::{self, Doubt, Standing};

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
    /// A disk that was made with a server, and has nothing but its system on it.
    Disk,
    /// An interface of a network, where that is a thing of its own.
    Interface,
    /// An address.
    Address,
    /// A volume.
    Volume,
}

/// One thing that an installation has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Thing<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its ID.
    pub id: u64,
    /// Its name.
    pub name: &'a str,
    /// UID of the Machine that it was made for. Something of ours that does not say it has lost a label, and is nobody's to
    /// delete by itself.
    pub machine_uid: Option<&'a str>,
    /// When it was made, in RFC 3339.
    pub created: Option<&'a str>,
    /// It may be deleted: nobody uses it, works on it or has protected it.
    pub deletable: bool,
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
    /// When it was made, by the cloud's clock.
    pub made: Timestamp,
    /// Whether it may be somebody's all the same.
    pub standing: Standing,
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
    /// So much that nothing is deleted but what a person has confirmed.
    pub held: bool,
}

/// What nobody has of `all`. `machines`: UIDs of all Machines, read after everything was listed, so that none is newer;
/// `doubts`: of which times it is not known who made what.
#[must_use]
pub fn leaks(
    all: &[Thing<'_>],
    machines: &BTreeSet<String>,
    doubts: &[Doubt],
    suspects: &mut Suspects,
    now: Timestamp,
) -> Outcome {
    let total = all.len();
    let mut outcome = Outcome::default();
    let mut known = Suspects::new();
    for thing in all {
        let Some(made) = time_of(thing.created).filter(|made| is_old(*made, now)) else {
            continue;
        };
        if thing.machine_uid.is_none_or(|uid| machines.contains(uid)) {
            continue;
        }
        let key = (thing.kind, thing.id);
        let standing = doubt::standing(doubts, made);
        let deletable = thing.deletable && standing != Standing::Doubted;
        let since = *suspects.get(&key).unwrap_or(&now);
        known.insert(key, since);
        if now.duration_since(since) >= APART && deletable {
            outcome.delete.push(key);
        }
        outcome.leaks.push(Leak {
            kind: thing.kind,
            id: thing.id,
            name: thing.name.to_owned(),
            machine_uid: thing.machine_uid.map(str::to_owned),
            since,
            made,
            standing,
        });
    }
    *suspects = known;
    let many = outcome
        .leaks
        .iter()
        .filter(|leak| leak.kind != Kind::Volume && leak.standing != Standing::Confirmed);
    let many = many.count();
    if many > MOST || (many > 1 && many * PART > total) {
        outcome.held = true;
        let confirmed = outcome.leaks.iter();
        let confirmed = confirmed.filter(|leak| leak.standing == Standing::Confirmed);
        let confirmed: BTreeSet<_> = confirmed.map(|leak| (leak.kind, leak.id)).collect();
        outcome.delete.retain(|each| confirmed.contains(each));
    }
    outcome
}

fn time_of(created: Option<&str>) -> Option<Timestamp> {
    created.and_then(|text| text.parse().ok())
}

fn is_old(made: Timestamp, now: Timestamp) -> bool {
    now.duration_since(made) >= AGE
}
