//! Servers that read whom they believe when they start, holders that read what they show when they like, and tokens that
//! they signed.
//!
//! Invariant: at every moment every server that runs believes what every holder shows, and every token that lasts.

use std::collections::BTreeSet;

use kit_objects::known::Known;
use proptest::prelude::*;

use super::super::facts::Facts;
use super::super::plan::{MOST, Step, decide};

const SERVERS: usize = 3;
const HOLDERS: usize = 3;

#[derive(Clone, Debug)]
struct World {
    wanted: Option<u32>,
    hold: bool,
    believed: BTreeSet<u32>,
    dropped: BTreeSet<u32>,
    /// What a server reads that starts now.
    published: BTreeSet<u32>,
    /// What each server read.
    servers: [BTreeSet<u32>; SERVERS],
    signs: u32,
    /// The generation that signed what each holder shows.
    holders: [u32; HOLDERS],
    /// The generations that signed tokens which have not ended.
    tokens: BTreeSet<u32>,
    most: usize,
}

/// What happens.
#[derive(Clone, Debug)]
enum Event {
    /// A server is replaced, or starts again by itself.
    Starts(usize),
    /// A holder is given what the one that signs now signed.
    Reads(usize),
    /// A holder signs a token.
    Signs(usize),
    /// Tokens end that one generation signed, the oldest or the next.
    Ends(usize),
    /// What is to be believed is written for servers.
    Publishes,
    /// The rotation is looked at: servers and holders may not be seen, and what is done may be lost.
    Looks {
        servers: bool,
        holders: bool,
        is_lost: bool,
        is_busy: bool,
    },
    /// The user asks for another generation, so far above or below the newest.
    Asks(Option<i64>),
    /// The user has it stay, or go on.
    Holds(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..SERVERS).prop_map(Event::Starts),
        4 => (0..HOLDERS).prop_map(Event::Reads),
        2 => (0..HOLDERS).prop_map(Event::Signs),
        2 => (0..2_usize).prop_map(Event::Ends),
        3 => Just(Event::Publishes),
        6 => any::<(bool, bool, bool, bool)>().prop_map(|(servers, holders, is_lost, is_busy)| {
            Event::Looks { servers, holders, is_lost, is_busy }
        }),
        6 => Just(Event::Looks { servers: true, holders: true, is_lost: false, is_busy: false }),
        2 => prop::option::weighted(0.9, -3_i64..=2).prop_map(Event::Asks),
        1 => any::<bool>().prop_map(Event::Holds),
    ]
}

impl World {
    fn new() -> Self {
        let first = BTreeSet::from([1]);
        Self {
            wanted: None,
            hold: false,
            believed: first.clone(),
            dropped: BTreeSet::new(),
            published: first.clone(),
            servers: [first.clone(), first.clone(), first],
            signs: 1,
            holders: [1; HOLDERS],
            tokens: BTreeSet::new(),
            most: 1,
        }
    }

    fn newest(&self) -> u32 {
        let all = self.believed.iter().chain(&self.dropped);
        all.max().copied().unwrap_or_default()
    }

    fn facts(&self) -> Facts {
        let agree = |servers: &BTreeSet<u32>| *servers == self.believed;
        let all = self.published == self.believed && self.servers.iter().all(agree);
        Facts {
            wanted: self.wanted,
            hold: self.hold,
            believed: self.believed.clone(),
            dropped: self.dropped.clone(),
            signs: self.signs,
            verifiers: Known::Known(all),
            holders: Known::Known(self.holders.iter().all(|shown| *shown == self.signs)),
            outstanding: match self.tokens.iter().any(|signer| *signer != self.signs) {
                true => Known::Known("a token".to_owned()),
                false => Known::Absent,
            },
            untold: Known::Absent,
            is_spreading: !all,
            busy: None,
        }
    }

    fn carry_out(&mut self, step: Step) {
        match step {
            Step::Make(generation) => {
                self.believed.insert(generation);
            }
            Step::Sign(generation) => self.signs = generation,
            Step::Drop(others) => {
                self.believed
                    .retain(|generation| !others.contains(generation));
                self.dropped.extend(others);
            }
        }
        self.most = self.most.max(self.believed.len());
    }

    fn happens(&mut self, event: &Event) {
        match event {
            Event::Starts(number) => self.servers[*number] = self.published.clone(),
            Event::Reads(number) => self.holders[*number] = self.signs,
            Event::Signs(number) => {
                self.tokens.insert(self.holders[*number]);
            }
            Event::Ends(number) => {
                let ends = self.tokens.iter().nth(*number).copied();
                self.tokens.retain(|signer| Some(*signer) != ends);
            }
            Event::Publishes => self.published = self.believed.clone(),
            Event::Looks {
                servers,
                holders,
                is_lost,
                is_busy,
            } => {
                let (mut facts, why) = (self.facts(), "hidden");
                if !servers {
                    facts.verifiers = Known::Unknown { why };
                }
                if !holders {
                    facts.holders = Known::Unknown { why };
                }
                facts.busy = is_busy.then_some("something else");
                if let Some(step) = decide(&facts).step.filter(|_| !is_lost) {
                    self.carry_out(step);
                }
            }
            Event::Asks(by) => {
                let newest = i64::from(self.newest());
                self.wanted = by.and_then(|by| u32::try_from((newest + by).max(1)).ok());
            }
            Event::Holds(hold) => self.hold = *hold,
        }
    }

    fn is_lawful(&self) -> Result<(), TestCaseError> {
        for server in &self.servers {
            for generation in self.holders.iter().chain(&self.tokens) {
                prop_assert!(server.contains(generation), "refused: {self:?}");
            }
        }
        prop_assert!(self.believed.contains(&self.signs), "{self:?}");
        prop_assert!(self.believed.is_disjoint(&self.dropped), "{self:?}");
        prop_assert!(self.most <= MOST, "{self:?}");
        Ok(())
    }

    /// Everything happens once.
    fn goes_round(&mut self) {
        self.happens(&Event::Publishes);
        (0..SERVERS).for_each(|number| self.happens(&Event::Starts(number)));
        (0..HOLDERS).for_each(|number| self.happens(&Event::Reads(number)));
        self.tokens.clear();
        let all_is_seen = Event::Looks {
            servers: true,
            holders: true,
            is_lost: false,
            is_busy: false,
        };
        self.happens(&all_is_seen);
    }
}

proptest! {
    #[test]
    fn whatever_is_shown_is_believed_and_what_is_asked_for_comes_about(
        events in prop::collection::vec(event(), 0..80),
        by in 0_u32..=1,
    ) {
        let mut world = World::new();
        for event in &events {
            world.happens(event);
            world.is_lawful()?;
        }
        // Left alone, with something that can be had, it comes to an end, and then to rest.
        world.hold = false;
        world.wanted = Some(match by {
            0 => world.signs,
            by => world.newest() + by,
        });
        let wanted = world.wanted;
        for _ in 0..8 {
            world.goes_round();
            world.is_lawful()?;
            let is_made = wanted.is_some_and(|wanted| world.believed.contains(&wanted));
            if !is_made && world.believed.len() == MOST {
                // As the message says: to one of them first.
                world.wanted = Some(world.signs);
                world.goes_round();
                world.goes_round();
                world.wanted = wanted;
            }
        }
        let only = BTreeSet::from([wanted.unwrap_or_default()]);
        prop_assert_eq!(Some(world.signs), wanted);
        for server in &world.servers {
            prop_assert_eq!(server, &only);
        }
        let last = decide(&world.facts());
        prop_assert_eq!((last.step, last.wait), (None, None));
    }
}
