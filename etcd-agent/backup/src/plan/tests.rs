//! Lives of a backup over a store of names, with a clock, crashes and compactions made up.

mod kept;

use super::*;
use backup_format::Name;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SETTINGS: Settings = Settings {
    delta_every_ms: 4_000,
    delta_bytes: 1000,
    full_every_ms: HOUR_MS,
    full_after_bytes: 100_000,
    full_after_revisions: 500,
    retention: Retention {
        hours: 3,
        days: 1,
        weeks: 1,
        months: 0,
    },
    grace_ms: HOUR_MS,
    pause_ms: 5_000,
};

/// What happens to a backup.
#[derive(Clone, Copy, Debug)]
enum Event {
    Writes(u64),
    Passes(u64),
    Compaction,
    /// The process dies; whether what it wrote just now arrived is decided by the store.
    Crash,
    /// The full snapshot that is being written is finished.
    Finished,
    /// It failed.
    Failed,
    /// The tenant cluster's identity is another one.
    Identity,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (1..40_u64).prop_map(Event::Writes),
        3 => (0..10_000_u64).prop_map(Event::Passes),
        2 => (0..3 * HOUR_MS).prop_map(Event::Passes),
        1 => Just(Event::Compaction),
        1 => Just(Event::Crash),
        3 => Just(Event::Finished),
        1 => Just(Event::Failed),
        1 => Just(Event::Identity),
    ];
    vec(event, 1..120)
}

/// Memory of the process: what a crash takes.
#[derive(Clone, Default)]
struct Memory {
    listing: Option<Listing>,
    tip: Option<Tip>,
    watch: Option<Watch>,
    /// The revision that the watch gives next.
    position: u64,
    pending: Option<(u64, u64)>,
    since_ms: u64,
    taking: Option<FullName>,
    identity: Option<IdentityName>,
}

struct Life {
    // The world.
    now_ms: u64,
    revision: u64,
    compacted: u64,
    stored: Listing,
    /// First and last revision of each delta.
    ranges: BTreeMap<u64, (u64, u64)>,
    /// The same, with those that were deleted.
    written: BTreeMap<u64, (u64, u64)>,
    /// Every snapshot that ever was finished.
    finished: BTreeSet<FullName>,
    /// The identity that is told, and the one that was in the store when each snapshot was finished.
    identity: Option<IdentityName>,
    identities: BTreeMap<FullName, IdentityName>,
    memory: Memory,
}

impl Life {
    fn new() -> Self {
        Self {
            now_ms: 1_795_723_200_000,
            revision: 1,
            compacted: 0,
            stored: Listing::default(),
            ranges: BTreeMap::new(),
            written: BTreeMap::new(),
            finished: BTreeSet::new(),
            identity: None,
            identities: BTreeMap::new(),
            memory: Memory::default(),
        }
    }

    fn next(&self) -> Step {
        let memory = &self.memory;
        let idle = Pending {
            first: match memory.watch {
                Some(Watch::Open) => memory.position,
                _ => 0,
            },
            ..Pending::default()
        };
        plan(
            &SETTINGS,
            &Observed {
                listing: memory.listing.as_ref(),
                tip: memory.tip,
                watch: memory.watch.unwrap_or(Watch::Closed),
                pending: memory.pending.map_or(idle, |(first, last)| Pending {
                    first,
                    revisions: last + 1 - first,
                    bytes: (last + 1 - first) as usize * 10,
                    since_ms: memory.since_ms,
                }),
                writing: false,
                verifying: false,
                taking: memory
                    .taking
                    .map_or(Taking::Nothing, |full| Taking::From(full.revision)),
                wanted: false,
                spoilt: None,
                identity: self.identity.filter(|told| memory.identity != Some(*told)),
                met_another: false,
                not_before_ms: 0,
                full_not_before_ms: 0,
                now_ms: self.now_ms,
            },
        )
    }

    fn store(&mut self, name: Name) {
        self.stored.insert(name, 100);
        if let Some(listing) = &mut self.memory.listing {
            listing.insert(name, 100);
        }
    }

    /// As the header of the newest delta says, also of those that were deleted before it.
    fn tip(&self) -> Option<Tip> {
        let (number, (first, last)) = self.ranges.last_key_value()?;
        let mut since = *first;
        for (first, last) in self.written.values().rev() {
            if *last + 1 == since {
                since = *first;
            }
        }
        Some(Tip {
            number: *number,
            digest: Digest::of(b""),
            last: Some(*last),
            since,
        })
    }

    /// What the watch brings.
    fn receive(&mut self) {
        let memory = &mut self.memory;
        if memory.watch == Some(Watch::Open) && memory.position <= self.revision {
            let first = memory.pending.map_or(memory.position, |(first, _)| first);
            if memory.pending.is_none() {
                memory.since_ms = self.now_ms;
            }
            memory.pending = Some((first, self.revision));
            memory.position = self.revision + 1;
        }
    }

    /// Does what is planned until there is nothing to do; whatever it does stays bounded.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.receive();
            let step = self.next();
            if let Step::Wait(until) = step {
                assert!(until > self.now_ms, "a wait that is over");
                return;
            }
            self.carry_out(step);
        }
        panic!("it never comes to rest: {:?}", self.next());
    }

    fn carry_out(&mut self, step: Step) {
        match step {
            Step::List => self.memory.listing = Some(self.stored.clone()),
            Step::ReadTip(number) => {
                self.memory.tip = self.tip();
                assert_eq!(self.memory.tip.map(|tip| tip.number), Some(number));
            }
            Step::OpenWatch(from) => {
                self.memory.pending = None;
                self.memory.position = from;
                self.memory.watch = Some(match from <= self.compacted {
                    true => Watch::Compacted(from),
                    false => Watch::Open,
                });
            }
            Step::TakeFull(_) => {
                assert_eq!(self.memory.taking, None, "two at once");
                let full = FullName {
                    revision: self.revision,
                    next: self.memory.tip.map_or(0, |tip| tip.number + 1),
                    taken_ms: self.now_ms,
                };
                self.memory.taking = Some(full);
                self.store(Name::Part(full, 0));
            }
            Step::WriteDelta => {
                let (first, last) = self
                    .memory
                    .pending
                    .take()
                    .expect("there is something to write");
                let number = self.memory.tip.map_or(0, |tip| tip.number + 1);
                self.ranges.insert(number, (first, last));
                self.written.insert(number, (first, last));
                self.store(Name::Delta(number));
                self.memory.tip = self.tip();
            }
            Step::WriteIdentity(identity) => {
                self.store(Name::Identity(identity));
                self.memory.identity = Some(identity);
            }
            Step::DeleteIdentity(identity) => self.forget(|listing| {
                assert!(listing.identities.remove(&identity));
            }),
            Step::Verify(full) => self.store(Name::Verified(full, self.now_ms)),
            Step::Bury(full) => self.store(Name::Tombstone(full, self.now_ms)),
            Step::DeleteFull(full) => self.forget(|listing| listing.remove_full(&full)),
            Step::DeleteDelta(number) => {
                self.forget(|listing| {
                    listing.deltas.remove(&number);
                });
                self.ranges.remove(&number);
            }
            Step::DeleteMarks(full) => self.forget(|listing| {
                let marks: Vec<_> = listing.marks_of(full).collect();
                assert!(!marks.is_empty());
                marks.iter().for_each(|mark| {
                    listing.marks.remove(mark);
                });
            }),
            Step::Stop | Step::Wait(_) => panic!("{step:?}"),
        }
    }

    fn forget(&mut self, act: impl Fn(&mut Listing)) {
        act(&mut self.stored);
        self.memory.listing.as_mut().map(act);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Writes(many) => self.revision += many,
            Event::Passes(ms) => self.now_ms += ms,
            Event::Compaction => {
                self.compacted = self.revision;
                // Events that were not read yet are lost with it.
                if self.memory.watch == Some(Watch::Open) && self.memory.position < self.compacted {
                    self.memory.watch = Some(Watch::Compacted(self.memory.position));
                }
            }
            Event::Crash => self.memory = Memory::default(),
            Event::Finished => {
                if let Some(full) = self.memory.taking.take() {
                    self.store(Name::Head(full));
                    self.finished.insert(full);
                    let identity = self.stored.identities.last().copied();
                    self.identities
                        .extend(identity.map(|identity| (full, identity)));
                }
            }
            Event::Failed => self.memory.taking = None,
            Event::Identity => {
                let before = self.identity.map_or(0, |before| before.sealed_ms);
                let sealed_ms = self.now_ms.max(before + 1);
                let digest = Digest::of(&sealed_ms.to_le_bytes());
                self.identity = Some(IdentityName { sealed_ms, digest });
            }
        }
    }

    /// From this snapshot every later revision until `last` can be had.
    fn reaches(&self, full: FullName, last: u64) -> bool {
        let mut reached = full.revision;
        for (_, (first, until)) in self.ranges.range(full.next..) {
            if *first > reached + 1 {
                return false;
            }
            reached = reached.max(*until);
        }
        reached >= last
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn in_the_end_every_revision_is_in_the_store_whatever_happened(events in events()) {
        let mut life = Life::new();
        for event in events {
            life.happen(event);
            life.settle();
        }
        for _ in 0..3 {
            life.happen(Event::Finished);
            life.happen(Event::Passes(5_000));
            life.settle();
        }
        let newest = life.stored.newest_full().expect("a snapshot");
        prop_assert!(life.reaches(newest, life.revision), "{:?} {:?}", newest, life.ranges);
        prop_assert_eq!(life.stored.identities.last(), life.identity.as_ref());
    }

    #[test]
    fn who_forgot_everything_plans_the_same_once_it_has_looked(events in events()) {
        let mut life = Life::new();
        for event in events {
            life.happen(event);
            life.settle();
            // What is under way is not in the store, and dies with the process.
            let mut before = Life { memory: life.memory.clone(), ..Life::new() };
            before.memory.taking = None;
            before.memory.pending = None;
            (before.now_ms, before.revision, before.compacted) =
                (life.now_ms, life.revision, life.compacted);
            (before.stored, before.ranges) = (life.stored.clone(), life.ranges.clone());
            let mut after = Life { memory: Memory::default(), ..Life::new() };
            (after.now_ms, after.revision, after.compacted) =
                (life.now_ms, life.revision, life.compacted);
            (after.stored, after.ranges) = (life.stored.clone(), life.ranges.clone());
            after.written = life.written.clone();
            (before.identity, after.identity) = (life.identity, life.identity);
            let mut looks = 0;
            while let Step::List | Step::ReadTip(_) | Step::OpenWatch(_) | Step::WriteIdentity(_) =
                after.next()
            {
                let step = after.next();
                after.carry_out(step);
                looks += 1;
                prop_assert!(looks < 8, "it looks and looks");
            }
            // How the watch stands is seen, too.
            before.memory.watch = after.memory.watch;
            before.memory.position = after.memory.position;
            prop_assert_eq!(before.next(), after.next());
        }
    }

    #[test]
    fn what_retention_deletes_is_needed_by_nothing_that_stays(events in events()) {
        let mut life = Life::new();
        for event in events {
            life.happen(event);
            life.settle();
            let fulls: Vec<_> = life.stored.fulls.iter().copied().collect();
            let Some(newest) = fulls.last() else { continue };
            // Between two snapshots that stay, and were taken one after the other, everything is there
            // that was ever written; and so it is after the newest one that was found whole.
            let verified = fulls.iter().rfind(|full| life.stored.is_verified(full));
            for (number, range) in &life.written {
                let before = life.finished.iter().rfind(|full| full.next <= *number);
                let after = life.finished.iter().find(|full| full.next > *number);
                let stays = |full: Option<&FullName>| full.is_some_and(|full| fulls.contains(full));
                let between = stays(before) && (after.is_none() || stays(after));
                let needed = between || verified.is_some_and(|full| *number >= full.next);
                prop_assert!(!needed || life.ranges.get(number) == Some(range), "{number}");
            }
            prop_assert!(life.stored.buried(newest).is_none());
            prop_assert!(life.tip() == life.memory.tip);
            // Keys of every moment that can be had are there.
            for full in &fulls {
                let identity = life.identities.get(full);
                prop_assert!(identity.is_none_or(|name| life.stored.identities.contains(name)));
            }
            let told = life.identity.as_ref();
            prop_assert!(told.is_none_or(|told| life.stored.identities.contains(told)));
        }
    }
}

#[test]
fn a_backup_at_rest_does_nothing_and_an_old_snapshot_goes_with_its_deltas() {
    let mut life = Life::new();
    life.settle();
    life.happen(Event::Finished);
    for _ in 0..30 {
        life.happen(Event::Writes(3));
        life.settle();
        life.happen(Event::Passes(HOUR_MS));
        life.settle();
        life.happen(Event::Finished);
        life.settle();
    }
    let fulls = life.stored.fulls.len();
    // Three hours, the first of the day and of the week, the newest, and what has its hour of grace.
    assert!((4..=8).contains(&fulls), "{fulls}: {:?}", life.stored.fulls);
    let oldest = life.stored.fulls.first().unwrap();
    assert!(
        life.stored
            .deltas
            .keys()
            .all(|number| *number >= oldest.next)
    );
    assert!(life.stored.deltas.len() < 30);
    assert!(matches!(life.next(), Step::Wait(_)));
}

#[test]
fn no_snapshot_is_due_because_a_delta_is_being_written() {
    let mut life = Life::new();
    life.settle();
    life.happen(Event::Finished);
    life.settle();
    let observed = |pending: Pending, writing| Observed {
        listing: life.memory.listing.as_ref(),
        tip: None,
        watch: Watch::Open,
        pending,
        writing,
        verifying: false,
        taking: Taking::Nothing,
        wanted: false,
        spoilt: None,
        identity: None,
        met_another: false,
        not_before_ms: 0,
        full_not_before_ms: 0,
        now_ms: life.now_ms,
    };
    // Revisions 2 to 11 are on their way, and 12 would be the next one.
    let pending = Pending {
        first: 12,
        ..Pending::default()
    };
    let next = plan(&SETTINGS, &observed(pending, true));
    assert!(matches!(next, Step::Wait(_)), "{next:?}");
    // Nobody writes them: they are lost.
    let next = plan(&SETTINGS, &observed(pending, false));
    assert_eq!(next, Step::TakeFull(Why::Hole));
}

#[test]
fn who_met_another_writer_stops() {
    let mut life = Life::new();
    life.settle();
    let world = Observed {
        listing: life.memory.listing.as_ref(),
        tip: None,
        watch: Watch::Open,
        pending: Pending::default(),
        writing: false,
        verifying: false,
        taking: Taking::Nothing,
        wanted: true,
        spoilt: None,
        identity: None,
        met_another: true,
        not_before_ms: 0,
        full_not_before_ms: 0,
        now_ms: 0,
    };
    assert_eq!(plan(&SETTINGS, &world), Step::Stop);
}
