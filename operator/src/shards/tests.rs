//! Laws of sharing: at every time at most one has a key in hand; within 30 s after whatever happened each has one again; what
//! moves is what becomes a newcomer's, or was that of one that went.
//!
//! The world is played: seats on a server, replicas with the real elector, roster and shards, and time in steps. Every list
//! arrives late and shows what there was when it was asked for. Nobody deletes Leases: as in any election, who is cut off from
//! the server then works on until its Lease would have run out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kit::lease::plan::{Elector, Record, Step};
use kit::lease::{Claim, Timing};
use tokio::time::Instant;

use super::Shards;
use super::plan::{INSTALLATION, Member, Roster, Seat, Seats, View, owner, read, written};

const SEATS: [&str; 3] = ["covey-operator", "covey-operator-1", "covey-operator-2"];
const STEP: Duration = Duration::from_millis(200);
const BOUND: Duration = Duration::from_secs(30);

fn member(seat: &str, incarnation: &str) -> Member {
    Member {
        seat: seat.to_owned(),
        incarnation: incarnation.to_owned(),
    }
}

fn members(seats: &[&str]) -> BTreeSet<Member> {
    seats.iter().map(|seat| member(seat, "1")).collect()
}

fn keys(number: u32) -> Vec<String> {
    (0..number).map(|number| format!("team-{number}")).collect()
}

#[test]
fn shares_are_even_and_nothing_moves_but_to_a_newcomer() {
    let keys = keys(3000);
    for number in 1..SEATS.len() {
        let (few, more) = (members(&SEATS[..number]), members(&SEATS[..=number]));
        let mut moved = 0;
        for key in &keys {
            let (before, after) = (owner(&few, key).unwrap(), owner(&more, key).unwrap());
            if before != after {
                assert_eq!(after.seat, SEATS[number], "{key} moved to an old one");
                moved += 1;
            }
        }
        let share = keys.len() / (number + 1);
        let even = share * 8 / 10..=share * 12 / 10;
        assert!(even.contains(&moved), "{moved} of {share} moved");
    }
    assert_eq!(owner(&BTreeSet::new(), INSTALLATION), None);
}

#[test]
fn members_are_read_as_they_were_written() {
    for all in [members(&[]), members(&SEATS[..1]), members(&SEATS)] {
        assert_eq!(read(&written(&all)), Some(all));
    }
    assert_eq!(read("no-incarnation"), None);
}

/// A seat that is held, as it was read.
fn seat(name: &str, shares_with: Option<BTreeSet<Member>>) -> Seat {
    Seat {
        name: name.to_owned(),
        is_held: true,
        incarnation: shares_with.as_ref().map(|_| "1".to_owned()),
        shares_with,
        lasts: None,
        resource_version: "1".to_owned(),
    }
}

#[test]
fn nobody_works_before_all_others_know_of_it() {
    let (mine, other) = (SEATS[0], SEATS[1]);
    let (both, now) = (members(&SEATS[..2]), Instant::now());
    let ready = |seats: Vec<Seat>| {
        let seats_seen = Seats::new(Timing::default().duration);
        let mut roster = Roster::new(member(mine, "1"), seats_seen);
        roster.observe(now, now, seats).is_ready
    };
    let alone = members(&SEATS[..1]);
    let said = |members: &BTreeSet<Member>| Some(members.clone());
    assert!(
        ready(vec![seat(mine, said(&alone))]),
        "there is nobody else"
    );
    assert!(
        !ready(vec![seat(mine, said(&members(&[])))]),
        "it has not said so"
    );
    assert!(ready(vec![
        seat(mine, said(&both)),
        seat(other, said(&both))
    ]));
    // It has to say with whom, and the other one to know of it.
    assert!(!ready(vec![
        seat(mine, said(&alone)),
        seat(other, said(&both))
    ]));
    let unaware = said(&members(&SEATS[1..2]));
    assert!(!ready(vec![seat(mine, said(&both)), seat(other, unaware)]));
    // One that has seen nobody yet sees this one before it works.
    assert!(ready(vec![
        seat(mine, said(&both)),
        seat(other, said(&members(&[])))
    ]));
    // An operator of another version, or one that works alone.
    assert!(!ready(vec![seat(mine, said(&alone)), seat(other, None)]));
}

#[test]
fn work_of_another_is_stopped_at_once_and_given_away_once_it_has_ended() {
    let shards = Shards::default();
    assert!(shards.owns("team-1"), "all is its own where nobody shares");
    shards.share();
    assert!(!shards.owns("team-1"));
    let (me, one, both) = (
        member(SEATS[0], "1"),
        members(&SEATS[..1]),
        members(&SEATS[..2]),
    );
    let moves = keys(50);
    let moves = moves.iter().find(|key| owner(&both, key) != Some(&me));
    let moves = moves.unwrap();
    let view = |members| View {
        members,
        is_ready: true,
    };
    shards.sit_down(me);
    let alone = view(one);
    assert!(shards.aim(&alone));
    assert!(!shards.owns(moves), "what others wrote was not read yet");
    shards.take_up(&alone);
    let claim = shards.claim(moves).unwrap();
    assert!(shards.is_drained());
    assert!(shards.aim(&view(both)));
    assert!(claim.is_revoked() && !shards.owns(moves) && shards.claim(moves).is_none());
    assert!(!shards.is_drained(), "it has not ended");
    // It comes back before it was given away: begun anew, beside what has not ended.
    shards.aim(&alone);
    assert!(!shards.owns(moves), "somebody else may have had it");
    shards.take_up(&alone);
    let again = shards.claim(moves).unwrap();
    assert!(claim.is_revoked() && !again.is_revoked());
    drop(claim);
    assert!(shards.is_drained());
}

/// The server's record of a seat.
#[derive(Clone, Default)]
struct Stored {
    holder: Option<String>,
    incarnation: String,
    shares_with: BTreeSet<Member>,
    version: u64,
}

struct Replica {
    name: String,
    incarnation: String,
    electors: Vec<Elector>,
    /// Index of its seat, once it has one.
    seat: Option<usize>,
    /// What it has read before it had one.
    seats: Seats<Instant>,
    roster: Option<Roster<Instant>>,
    shards: Shards,
    view: View,
    says: BTreeSet<Member>,
    /// When it looks, or tries for a seat, next.
    next: Instant,
    /// What it asked for, when, and when that arrives.
    asked: Option<(Instant, Instant, Vec<Seat>)>,
    /// When it has read anew what others wrote.
    reads: Option<Instant>,
    in_hand: BTreeMap<String, (Claim, Instant)>,
    cut_off: Option<Instant>,
}

struct World {
    now: Instant,
    chance: u64,
    version: u64,
    begun: u32,
    server: BTreeMap<usize, Stored>,
    replicas: Vec<Replica>,
    keys: Vec<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            now: Instant::now(),
            chance: seed,
            version: 0,
            begun: 0,
            server: BTreeMap::new(),
            replicas: Vec::new(),
            keys: keys(4)
                .into_iter()
                .chain([INSTALLATION.to_owned()])
                .collect(),
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        // Constants of Knuth's MMIX.
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005);
        self.chance = self.chance.wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) % end
    }

    fn within(&mut self, millis: u64) -> Duration {
        Duration::from_millis(self.below(millis))
    }

    fn start(&mut self, name: &str) {
        self.begun += 1;
        let shards = Shards::default();
        shards.share();
        let elector = || Elector::new(name, Timing::default());
        let replica = Replica {
            name: name.to_owned(),
            incarnation: format!("{name}.{}", self.begun),
            electors: SEATS.iter().map(|_| elector()).collect(),
            seat: None,
            seats: Seats::new(Timing::default().duration),
            roster: None,
            shards,
            view: View::default(),
            says: BTreeSet::new(),
            next: self.now + self.within(2000),
            asked: None,
            reads: None,
            in_hand: BTreeMap::new(),
            cut_off: None,
        };
        self.replicas.push(replica);
    }

    fn record(stored: &Stored) -> Record {
        Record {
            holder: stored.holder.clone(),
            duration: Some(Timing::default().duration),
            resource_version: stored.version.to_string(),
            transitions: 0,
            renewed: None,
            gap: None,
        }
    }

    fn listed(&self) -> Vec<Seat> {
        let seats = self.server.iter().map(|(seat, stored)| Seat {
            name: SEATS[*seat].to_owned(),
            is_held: stored.holder.is_some(),
            incarnation: Some(stored.incarnation.clone()),
            shares_with: Some(stored.shares_with.clone()),
            lasts: Some(Timing::default().duration),
            resource_version: stored.version.to_string(),
        });
        seats.collect()
    }

    /// One try for that seat, or one renewal of it.
    fn write(&mut self, replica: &mut Replica, seat: usize) {
        let lease = self.server.get(&seat).map(Self::record);
        let step = replica.electors[seat].observe(self.now, lease);
        if step == Step::Wait {
            return;
        }
        self.version += 1;
        let stored = Stored {
            holder: Some(replica.name.clone()),
            incarnation: replica.incarnation.clone(),
            shares_with: replica.says.clone(),
            version: self.version,
        };
        replica.electors[seat].wrote(self.now, Self::record(&stored));
        self.server.insert(seat, stored);
    }

    /// One step of one replica; false where its process ends.
    fn act(&mut self, replica: &mut Replica) -> bool {
        let now = self.now;
        let leads = |replica: &Replica| {
            let seat = replica.seat.map(|seat| &replica.electors[seat]);
            seat.and_then(Elector::leads_until)
                .is_some_and(|until| now < until)
        };
        if replica.seat.is_some() && !leads(replica) {
            return false;
        }
        replica.cut_off = replica.cut_off.filter(|until| now < *until);
        let is_due = now >= replica.next && replica.cut_off.is_none();
        if is_due {
            replica.next = now + Timing::default().retry;
            match replica.seat {
                Some(seat) => self.write(replica, seat),
                None => self.take(replica),
            }
            if replica.seat.is_some() && !leads(replica) {
                return false;
            }
            let is_idle = replica.asked.is_none() && replica.reads.is_none();
            if replica.seat.is_some() && is_idle {
                replica.asked = Some((now, now + self.within(500), self.listed()));
            }
        }
        if let Some((asked, _, seats)) = replica.asked.take_if(|(_, due, _)| now >= *due) {
            let roster = replica.roster.as_mut().unwrap();
            replica.view = roster.observe(asked, now, seats);
            replica.shards.aim(&replica.view);
            let held = replica.shards.held();
            if replica.view.is_ready && !held.is_all_of(&replica.view) {
                replica.reads = Some(now + self.within(1000));
            }
        }
        if replica.reads.take_if(|due| now >= *due).is_some() {
            replica.shards.take_up(&replica.view);
        }
        replica.in_hand.retain(|_, (_, end)| now < *end);
        for key in self.keys.clone() {
            if !replica.in_hand.contains_key(&key)
                && let Some(claim) = replica.shards.claim(&key)
            {
                let end = now + self.within(2000);
                replica.in_hand.insert(key, (claim, end));
            }
        }
        // What it says is written at once.
        let has_looked = !replica.view.members.is_empty();
        if has_looked && replica.shards.is_drained() && replica.says != replica.view.members {
            replica.says = replica.view.members.clone();
            if let Some(seat) = replica.seat.filter(|_| replica.cut_off.is_none()) {
                self.write(replica, seat);
            }
        }
        true
    }

    fn take(&mut self, replica: &mut Replica) {
        replica.seats.observe(self.now, self.now, self.listed());
        for (seat, name) in SEATS.iter().enumerate() {
            self.write(replica, seat);
            if replica.electors[seat].leads_until().is_some() {
                let me = member(name, &replica.incarnation);
                replica.seat = Some(seat);
                replica.shards.sit_down(me.clone());
                replica.roster = Some(Roster::new(me, replica.seats.clone()));
                return;
            }
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        let mut ended = Vec::new();
        for mut replica in std::mem::take(&mut self.replicas) {
            match self.act(&mut replica) {
                true => self.replicas.push(replica),
                // Its container is started again.
                false => ended.push(replica.name),
            }
        }
        for name in ended {
            self.start(&name);
        }
        for key in &self.keys {
            let mut having = self.replicas.iter();
            let first = having.find(|replica| replica.in_hand.contains_key(key));
            let second = having.find(|replica| replica.in_hand.contains_key(key));
            if let (Some(first), Some(second)) = (first, second) {
                panic!(
                    "{} and {} have {key:?}",
                    first.incarnation, second.incarnation
                );
            }
        }
    }

    /// Something happens.
    fn event(&mut self) {
        let number = u64::try_from(self.replicas.len()).unwrap();
        match self.below(5) {
            0 | 1 if number < 4 => {
                let name = format!("pod-{}", self.begun);
                self.start(&name);
            }
            // It dies.
            2 if number > 0 => {
                let which = self.below(number);
                self.replicas.remove(usize::try_from(which).unwrap());
            }
            // It stops, and gives its seat back.
            3 if number > 0 => {
                let which = self.below(number);
                let replica = self.replicas.remove(usize::try_from(which).unwrap());
                self.version += 1;
                let version = self.version;
                let seat = replica.seat.filter(|_| replica.cut_off.is_none());
                if let Some(stored) = seat.and_then(|seat| self.server.get_mut(&seat)) {
                    stored.holder = None;
                    stored.version = version;
                }
            }
            4 if number > 0 => {
                let which = usize::try_from(self.below(number)).unwrap();
                let until = self.now + Duration::from_secs(3 + self.below(25));
                self.replicas[which].cut_off = Some(until);
            }
            _ => {}
        }
    }
}

#[test]
fn at_most_one_has_a_key_and_one_has_it_soon_whatever_happens() {
    for seed in 0..24 {
        let mut world = World::new(seed);
        world.start("pod-a");
        world.start("pod-b");
        for _ in 0..12 {
            let pause = world.below(120);
            for _ in 0..pause {
                world.step();
            }
            world.event();
        }
        // From now on nothing happens.
        for replica in &mut world.replicas {
            replica.cut_off = None;
        }
        if world.replicas.is_empty() {
            world.start("pod-z");
        }
        let mut alone: BTreeSet<String> = world.keys.iter().cloned().collect();
        let end = world.now + BOUND;
        while world.now < end {
            world.step();
            let in_force = world.replicas.iter().flat_map(|replica| &replica.in_hand);
            for (key, _) in in_force.filter(|(_, (claim, _))| !claim.is_revoked()) {
                alone.remove(key);
            }
        }
        assert!(alone.is_empty(), "seed {seed}: nobody took {alone:?}");
        let end = world.now + BOUND;
        while world.now < end {
            world.step();
        }
        for key in &world.keys {
            let owners = world.replicas.iter().filter(|r| r.shards.owns(key));
            assert_eq!(owners.count(), 1, "seed {seed}: owners of {key:?}");
        }
    }
}
