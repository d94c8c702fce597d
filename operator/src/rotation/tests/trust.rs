//! Nodes that keep what they were told when they joined, and servers that show what one generation signed, with a
//! cross-certificate by the oldest one beside it; or without one, because a key of before was stolen.
//!
//! Invariant: at every moment every node believes what every server shows.

use std::collections::{BTreeMap, BTreeSet};

use api::tenant_cluster::RotationPhase;
use kit_objects::known::Known;
use proptest::prelude::*;

use super::super::facts::Facts;
use super::super::plan::{MOST, Step, decide};

const SERVERS: usize = 2;
const NODES: usize = 4;

/// What a server shows: who signed, and by whom that one is certified, too.
type Shown = (u32, Option<u32>);

/// What a node was told, and of which it was noted by then that machines believe it.
type Node = (BTreeSet<u32>, BTreeSet<u32>);

#[derive(Clone, Debug)]
struct World {
    /// Whether a key of before was stolen.
    is_stolen: bool,
    wanted: Option<u32>,
    hold: bool,
    believed: BTreeSet<u32>,
    dropped: BTreeSet<u32>,
    /// Who certified each when it was made.
    crossed: BTreeMap<u32, BTreeSet<u32>>,
    /// What nodes are told that join now.
    told: BTreeSet<u32>,
    noted: BTreeSet<u32>,
    signs: u32,
    servers: [Shown; SERVERS],
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
enum Event {
    /// A server reads its certificates again.
    Reads(usize),
    /// What is believed is told.
    Tells,
    Joins,
    Leaves(usize),
    /// The rotation is looked at; what is done may be lost.
    Looks {
        is_lost: bool,
    },
    /// The user asks for another generation, so far above or below the newest.
    Asks(Option<i64>),
    Holds(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..SERVERS).prop_map(Event::Reads),
        3 => Just(Event::Tells),
        3 => Just(Event::Joins),
        2 => (0..NODES).prop_map(Event::Leaves),
        8 => prop::bool::weighted(0.3).prop_map(|is_lost| Event::Looks { is_lost }),
        2 => prop::option::weighted(0.9, -3_i64..=2).prop_map(Event::Asks),
        1 => any::<bool>().prop_map(Event::Holds),
    ]
}

impl World {
    fn new(is_stolen: bool) -> Self {
        let first = BTreeSet::from([1]);
        Self {
            is_stolen,
            wanted: None,
            hold: false,
            believed: first.clone(),
            dropped: BTreeSet::new(),
            crossed: BTreeMap::new(),
            told: first.clone(),
            noted: first.clone(),
            signs: 1,
            servers: [(1, None); SERVERS],
            nodes: vec![(first.clone(), first)],
        }
    }

    fn newest(&self) -> u32 {
        let all = self.believed.iter().chain(&self.dropped);
        all.max().copied().unwrap_or_default()
    }

    fn shows(&self) -> Shown {
        let oldest = self.believed.first().copied();
        let certified = self.crossed.get(&self.signs);
        let by = oldest.filter(|oldest| *oldest != self.signs);
        (
            self.signs,
            by.filter(|by| certified.is_some_and(|all| all.contains(by))),
        )
    }

    fn is_told(&self) -> bool {
        self.told == self.believed
    }

    fn facts(&self) -> Facts {
        let is_noted = self.believed.is_subset(&self.noted);
        let are_shown = self.servers.iter().all(|shown| *shown == self.shows());
        let is_oldest = self.believed.first() == Some(&self.signs);
        let is_before = |node: &&Node| !node.1.contains(&self.signs);
        let before = self.nodes.iter().find(is_before).filter(|_| !is_oldest);
        Facts {
            wanted: self.wanted,
            hold: self.hold,
            believed: self.believed.clone(),
            dropped: self.dropped.clone(),
            signs: self.signs,
            verifiers: Known::Known(is_noted && are_shown),
            holders: Known::Known(are_shown),
            outstanding: Known::found(before.map(|_| "a node".to_owned())),
            untold: Known::found(self.untold()),
            is_spreading: !are_shown || !self.is_told(),
            busy: None,
        }
    }

    /// Nodes that would not believe the wanted one, or that believe others than the last.
    fn untold(&self) -> Option<String> {
        let wanted = self.wanted.filter(|wanted| *wanted != self.signs);
        let is_untold = |node: &Node| match wanted {
            Some(wanted) => !node.1.contains(&wanted),
            None => self.believed.len() == 1 && node.0 != self.believed,
        };
        let is_any = self.is_stolen && self.nodes.iter().any(is_untold);
        is_any.then(|| "a node".to_owned())
    }

    fn happens(&mut self, event: &Event) {
        match event {
            Event::Reads(number) => self.servers[*number] = self.shows(),
            Event::Tells => self.told = self.believed.clone(),
            Event::Joins if self.nodes.len() < NODES => {
                self.nodes.push((self.told.clone(), self.noted.clone()));
            }
            Event::Leaves(number) if *number < self.nodes.len() => {
                self.nodes.remove(*number);
            }
            Event::Joins | Event::Leaves(_) | Event::Looks { is_lost: true } => {}
            Event::Looks { is_lost: false } => {
                // That is written before it counts.
                if !self.believed.is_subset(&self.noted) && self.is_told() && !self.hold {
                    self.noted.extend(&self.believed);
                    return;
                }
                match decide(&self.facts()).step {
                    Some(Step::Make(generation)) => {
                        if !self.is_stolen {
                            self.crossed.insert(generation, self.believed.clone());
                        }
                        self.believed.insert(generation);
                    }
                    Some(Step::Sign(generation)) => self.signs = generation,
                    Some(Step::Drop(others)) => {
                        self.believed.retain(|it| !others.contains(it));
                        self.dropped.extend(others);
                    }
                    None => {}
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
        for (told, _) in &self.nodes {
            for (signer, by) in &self.servers {
                let is_certified = by.is_some_and(|by| told.contains(&by));
                prop_assert!(told.contains(signer) || is_certified, "cut off: {self:?}");
            }
        }
        Ok(())
    }

    /// Everything happens once, and nodes of before are replaced.
    fn goes_round(&mut self) {
        self.happens(&Event::Tells);
        (0..SERVERS).for_each(|number| self.happens(&Event::Reads(number)));
        self.nodes.clear();
        self.happens(&Event::Joins);
        self.happens(&Event::Looks { is_lost: false });
    }
}

proptest! {
    #[test]
    fn nobody_is_cut_off_who_was_told_any_generation_that_is_believed(
        events in prop::collection::vec(event(), 0..100),
        is_stolen: bool,
    ) {
        let mut world = World::new(is_stolen);
        for event in &events {
            world.happens(event);
            world.is_lawful()?;
        }
        // Left alone it comes to an end; where there are too many, to one of them first.
        world.hold = false;
        let first = world.signs;
        let last = world.newest() + 1;
        for wanted in [first, last] {
            world.wanted = Some(wanted);
            for _ in 0..2 * MOST + 4 {
                world.goes_round();
                world.is_lawful()?;
            }
            prop_assert_eq!(&world.believed, &BTreeSet::from([wanted]));
            prop_assert_eq!(world.signs, wanted);
            let last = decide(&world.facts());
            prop_assert_eq!((last.phase, last.wait), (RotationPhase::Idle, None));
            for (told, _) in &world.nodes {
                prop_assert!(!is_stolen || told.iter().eq([&wanted]), "{world:?}");
            }
        }
    }
}
