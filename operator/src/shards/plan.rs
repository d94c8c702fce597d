//! Who does the work of which key (a user's namespace; [`INSTALLATION`] for what is nobody's), as one replica sees it.
//!
//! Each replica holds a seat, which is a Lease, and says in it who it is (its incarnation, another one each time that it
//! starts) and with which others it shares the work. A key is of the member with the highest weight for it, so when one
//! comes or goes nothing moves but what becomes its, or was.
//!
//! Why no two work on a key at a time, whatever they see and however late. Let `a` have the higher weight of two that both
//! think that a key is theirs. Then `b` does not count `a` as a member. Either it saw `a`'s seat unchanged for longer than a
//! Lease lasts, or given back: then `a` has ended, and never works again under that incarnation
//! (`kit::lease::Candidate::campaign_for_a_seat`). Or `a` took its seat after `b` looked: then `a` sees `b`, waits until `b`
//! says that it shares with `a`, and `b` says so only once nothing of its own runs any more that becomes `a`'s. That `b`
//! began at the same time and has not said anything yet is no way out: nobody works before a list that it asked for after
//! it said with whom it shares shows the same ones.
//!
//! Who says nothing of shares works alone (an operator of another version, or the only replica): whoever sees it waits.
//!
//! Invariant: no I/O, no clock, no chance. Times are local and monotonic; those of Leases are for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Sub;
use std::time::Duration;

/// The key of what is of the whole installation.
pub const INSTALLATION: &str = "";

/// A replica.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Member {
    /// Name of the Lease that it holds.
    pub seat: String,
    /// Which of those that had that seat it is. Neither `=` nor `,` is in it.
    pub incarnation: String,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.seat, self.incarnation)
    }
}

/// Members as they are written into a Lease.
#[must_use]
pub fn written(members: &BTreeSet<Member>) -> String {
    let each: Vec<_> = members.iter().map(Member::to_string).collect();
    each.join(",")
}

/// What [`written`] wrote; none where it did not.
#[must_use]
pub fn read(text: &str) -> Option<BTreeSet<Member>> {
    let each = text.split(',').filter(|member| !member.is_empty());
    let each = each.map(|member| {
        let (seat, incarnation) = member.split_once('=')?;
        Some(Member {
            seat: seat.to_owned(),
            incarnation: incarnation.to_owned(),
        })
    });
    each.collect()
}

/// The Lease of a seat, as it was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seat {
    /// Its name.
    pub name: String,
    /// Whether anybody holds it.
    pub is_held: bool,
    /// Who; none for one that says nothing of shares.
    pub incarnation: Option<String>,
    /// With whom it shares the work, itself among them; empty until it has seen who there is, none where that cannot be read.
    pub shares_with: Option<BTreeSet<Member>>,
    /// How long it promises to be heard of again, if it says so.
    pub lasts: Option<Duration>,
    /// Changes with each write.
    pub resource_version: String,
}

/// What one replica knows of all. `M` is a moment of a clock that is its own and never goes back.
#[derive(Clone, Debug)]
pub struct Roster<M> {
    me: Member,
    patience: Duration,
    seats: BTreeMap<String, (Seat, M)>,
    has_entered: bool,
}

/// Among whom the work is shared, as one replica sees it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct View {
    /// All who may work, this one among them.
    pub members: BTreeSet<Member>,
    /// Whether all others know of this one, so that it may work.
    pub is_ready: bool,
}

impl View {
    /// Whether the work of `key` is this one's, which is `me`.
    #[must_use]
    pub fn owns(&self, me: &Member, key: &str) -> bool {
        self.is_ready && owner(&self.members, key) == Some(me)
    }
}

impl<M: Copy + Sub<Output = Duration>> Roster<M> {
    /// That of a replica that has just got its seat. `patience`: how long a Lease lasts at least.
    #[must_use]
    pub const fn new(me: Member, patience: Duration) -> Self {
        Self {
            me,
            patience,
            seats: BTreeMap::new(),
            has_entered: false,
        }
    }

    /// Takes in a whole list of the seats. It shows at least everything that was written before `asked`, and arrived `now`.
    pub fn observe(&mut self, asked: M, now: M, listed: Vec<Seat>) -> View {
        let names: BTreeSet<_> = listed.iter().map(|seat| seat.name.clone()).collect();
        for seat in listed {
            let known = self.seats.get(&seat.name);
            let since = known.filter(|(known, _)| *known == seat);
            let since = since.map_or(now, |(_, since)| *since);
            self.seats.insert(seat.name.clone(), (seat, since));
        }
        let patience = self.patience;
        let is_alive = |(seat, since): &(Seat, M)| {
            let lasts = seat.lasts.unwrap_or_default().max(patience);
            seat.is_held && asked - *since <= lasts
        };
        // One that is not listed any more was deleted by somebody, and its holder may not know yet. One that has ended stays
        // known while it is listed: forgotten, the same seat in the next list would look like one just heard of.
        self.seats
            .retain(|name, known| names.contains(name) || is_alive(known));
        let others = || {
            let alive = self.seats.values().filter(|known| is_alive(known));
            let seats = alive.map(|(seat, _)| seat);
            seats.filter(|seat| seat.name != self.me.seat)
        };
        let mut members: BTreeSet<_> = others().filter_map(Seat::member).collect();
        members.insert(self.me.clone());
        let knows_me = |seat: &Seat| match (&seat.incarnation, &seat.shares_with) {
            // It has seen nobody yet, and sees this one before it works.
            (Some(_), Some(members)) if members.is_empty() => true,
            (Some(_), Some(members)) => members.contains(&self.me),
            _ => false,
        };
        let is_known = others().all(knows_me);
        let said = self.seats.get(&self.me.seat).map(|(seat, _)| seat);
        let said = said.filter(|seat| seat.incarnation.as_ref() == Some(&self.me.incarnation));
        let has_said = said.is_some_and(|seat| seat.shares_with.as_ref() == Some(&members));
        let is_ready = is_known && (self.has_entered || has_said);
        self.has_entered |= is_ready;
        View { members, is_ready }
    }
}

impl Seat {
    fn member(&self) -> Option<Member> {
        Some(Member {
            seat: self.name.clone(),
            incarnation: self.incarnation.clone()?,
        })
    }
}

/// Whose work `key` is; none where there is nobody.
#[must_use]
pub fn owner<'a>(members: &'a BTreeSet<Member>, key: &str) -> Option<&'a Member> {
    members
        .iter()
        .max_by_key(|member| (weight(&member.seat, key), &member.seat))
}

/// How much a key is a seat's. FNV-1a of both, mixed as MurmurHash3 does at its end. Replicas of two versions share the work
/// while one follows the other, so it never changes: another one needs other annotations of seats, of which this one knows
/// nothing.
fn weight(seat: &str, key: &str) -> u64 {
    let bytes = seat.bytes().chain([0]).chain(key.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
