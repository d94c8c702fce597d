//! Worlds of Services that come, go and change while others are looked at, in any order.
//!
//! Invariant: a Service is looked at only when a change triggers it; nobody polls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use proptest::prelude::*;
use serde_json::json;

use super::super::mirrors::ports;
use super::{State, age};
use crate::cache::Cache;
use crate::cache::events::{Change, WatchEvent, Write};
use crate::cache::triggers::{Key, triggered};
use crate::limits::{Capacity, Limits, Over, Taken};
use crate::settings::Settings;

/// What happens.
#[derive(Clone, Debug)]
enum Step {
    /// A Service is made, or changed, with so many ports.
    Put(u8, usize),
    /// A Service is deleted.
    Delete(u8),
    /// One of those that are triggered is looked at, and its mirror is written.
    Look(prop::sample::Index, Answer),
    /// The oldest write reaches the watch.
    Arrive,
    /// Another process takes over.
    Restart,
}

/// What comes of a write.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Done,
    Refused,
    /// Nobody answers, and nothing was written.
    Lost,
    /// Nobody answers, and it is written all the same; a watch tells it.
    Late,
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        12 => Just(Answer::Done),
        1 => Just(Answer::Refused),
        1 => Just(Answer::Lost),
        1 => Just(Answer::Late),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..12_u8, 1..6_usize).prop_map(|(name, ports)| Step::Put(name, ports)),
        2 => (0..12_u8).prop_map(Step::Delete),
        6 => (any::<prop::sample::Index>(), any_answer()).prop_map(|(of, answer)| Step::Look(of, answer)),
        3 => Just(Step::Arrive),
        1 => Just(Step::Restart),
    ]
}

struct World {
    settings: Arc<Settings>,
    cache: Cache,
    /// By UID: ports of what the tenant has.
    services: BTreeMap<String, (i64, usize)>,
    /// By UID: ports of what the management cluster has, whatever the cache knows.
    mirrors: BTreeMap<String, usize>,
    /// By UID: the version of that.
    versions: BTreeMap<String, u64>,
    /// Written, as it was then, and not told by a watch yet. None: it is gone.
    written: Vec<(String, Option<Service>)>,
    /// Who is to be looked at.
    queue: BTreeSet<String>,
    made: i64,
    /// By name: how many of that name were deleted.
    deleted: BTreeMap<u8, usize>,
    version: u64,
}

impl World {
    fn new(limits: Limits) -> Self {
        let settings = Arc::new(Settings {
            limits,
            ..Settings::default()
        });
        Self {
            cache: Cache::new(Arc::clone(&settings)),
            settings,
            services: Default::default(),
            mirrors: Default::default(),
            versions: Default::default(),
            written: Vec::new(),
            queue: BTreeSet::new(),
            made: 0,
            deleted: BTreeMap::new(),
            version: 0,
        }
    }

    /// The UID of the Service of that name. Who comes back under a name has another one: no API gives one
    /// twice, and a mirror that is still being deleted would be taken for that of the new one.
    fn uid(&self, name: u8) -> String {
        match self.deleted.get(&name) {
            None => format!("{name:02}"),
            Some(before) => format!("{name:02}-{before}"),
        }
    }

    fn on_change(&mut self, changes: &[Change]) {
        for (key, _) in self.cache.read(|state| triggered(state, changes)) {
            if let Key::Service(uid) = key {
                self.queue.insert(uid);
            }
        }
    }

    fn put(&mut self, uid: &str) {
        self.version += 1;
        let (made, ports) = self.services[uid];
        let created = jiff::Timestamp::from_second(made).unwrap();
        let ports: Vec<_> = (0..ports)
            .map(|port| json!({ "port": port + 1, "nodePort": 30000 + port }))
            .collect();
        let service = json!({
            "metadata": {
                "name": uid, "namespace": "default", "uid": uid, "creationTimestamp": created.to_string(),
                "resourceVersion": self.version.to_string(),
            },
            "spec": { "type": "LoadBalancer", "ports": ports },
        });
        let changes = self.cache.put(WatchEvent::Service(
            serde_json::from_value(service).unwrap(),
        ));
        self.on_change(&changes);
    }

    /// The API takes a mirror with so many ports in.
    fn write(&mut self, uid: &str, ports: usize) {
        self.version += 1;
        self.mirrors.insert(uid.to_owned(), ports);
        self.versions.insert(uid.to_owned(), self.version);
        let written = (uid.to_owned(), Some(self.mirror(uid)));
        self.written.push(written);
    }

    fn mirror(&self, uid: &str) -> Service {
        let ports: Vec<_> = (0..self.mirrors[uid])
            .map(|port| json!({ "port": port + 1 }))
            .collect();
        let labels = json!({
            api::names::LABEL_TENANT_UID: self.settings.cluster_uid,
            crate::names::LABEL_SERVICE_UID: uid,
        });
        serde_json::from_value(json!({
            "metadata": {
                "name": format!("lb-{uid}"), "uid": format!("lb-{uid}"), "labels": labels,
                "resourceVersion": self.versions[uid].to_string(),
            },
            "spec": { "type": "LoadBalancer", "ports": ports },
        }))
        .unwrap()
    }

    fn arrive(&mut self) {
        if self.written.is_empty() {
            return;
        }
        let (uid, written) = self.written.remove(0);
        let changes = match written {
            Some(mirror) => self.cache.put(WatchEvent::Mirror(mirror)),
            None => self
                .cache
                .observe_write(Write::MirrorGone(format!("lb-{uid}"))),
        };
        self.on_change(&changes);
    }

    /// One reconcile, as far as places are concerned.
    fn look(&mut self, uid: &str, answer: Answer) -> Option<Over> {
        self.queue.remove(uid);
        if self.cache.read(|state| state.is_doubted(uid)) {
            if self.mirrors.contains_key(uid) {
                let mirror = Write::Mirror(Arc::new(self.mirror(uid)));
                let changes = self.cache.observe_write(mirror);
                self.on_change(&changes);
            }
            self.cache.settle(uid);
        }
        let (over, room) = self.cache.admit(uid);
        self.on_change(room.as_slice());
        match self.services.get(uid) {
            None => {
                if self.mirrors.remove(uid).is_some() {
                    self.written.push((uid.to_owned(), None));
                }
            }
            Some(_) if over.is_some() => {}
            Some((_, ports)) if answer == Answer::Done => {
                let ports = *ports;
                if self.mirrors.get(uid) != Some(&ports) {
                    // Who wrote believes the answer at once; watches tell it later.
                    self.write(uid, ports);
                    let mirror = Write::Mirror(Arc::new(self.mirror(uid)));
                    let changes = self.cache.observe_write(mirror);
                    self.on_change(&changes);
                }
            }
            // It is tried again.
            Some((_, ports)) => {
                let ports = *ports;
                match answer {
                    Answer::Refused => {
                        let room = self.cache.release(uid);
                        self.on_change(room.as_slice());
                    }
                    Answer::Late => {
                        self.write(uid, ports);
                        self.cache.doubt(uid);
                    }
                    Answer::Lost => self.cache.doubt(uid),
                    Answer::Done => {}
                }
                self.queue.insert(uid.to_owned());
            }
        }
        over
    }

    fn restart(&mut self) {
        self.cache = Cache::new(Arc::clone(&self.settings));
        self.written.clear();
        for uid in self.mirrors.keys().cloned().collect::<Vec<_>>() {
            let mirror = self.mirror(&uid);
            drop(self.cache.put(WatchEvent::Mirror(mirror)));
        }
        for uid in self.services.keys().cloned().collect::<Vec<_>>() {
            self.put(&uid);
        }
        self.queue.extend(self.mirrors.keys().cloned());
        self.queue.extend(self.services.keys().cloned());
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Put(name, ports) => {
                let uid = self.uid(*name);
                self.made += 1;
                let made = self.services.get(&uid).map_or(self.made, |(made, _)| *made);
                self.services.insert(uid.clone(), (made, *ports));
                self.put(&uid);
            }
            Step::Delete(name) => {
                let uid = self.uid(*name);
                if self.services.remove(&uid).is_some() {
                    *self.deleted.entry(*name).or_default() += 1;
                    let service = json!({
                        "metadata": { "name": uid, "namespace": "default", "uid": uid },
                    });
                    let gone = WatchEvent::Service(serde_json::from_value(service).unwrap());
                    let changes = self.cache.remove(gone.kind(), gone.meta());
                    self.on_change(&changes);
                }
            }
            Step::Look(of, answer) => {
                let queue: Vec<_> = self.queue.iter().cloned().collect();
                if !queue.is_empty() {
                    let uid: &String = of.get(&queue);
                    self.look(uid, *answer);
                }
            }
            Step::Arrive => self.arrive(),
            Step::Restart => self.restart(),
        }
    }

    fn taken(&self) -> (usize, usize) {
        (self.mirrors.len(), self.mirrors.values().sum())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn limits_hold_at_any_time_and_nobody_waits_for_a_place_that_is_free(
        limits in (0..5_usize, 0..14_usize),
        steps in prop::collection::vec(any_step(), 0..80),
    ) {
        let limits = Limits { services: limits.0, ports: limits.1, endpoints: 1 };
        let mut world = World::new(limits);
        for step in &steps {
            let before: Vec<_> = world.mirrors.keys().cloned().collect();
            world.step(step);
            world.cache.read(check)?;
            let (services, ports) = world.taken();
            prop_assert!(services <= limits.services, "{services} after {step:?}");
            prop_assert!(ports <= limits.ports, "{ports} ports after {step:?}");
            for uid in before {
                let kept = world.mirrors.contains_key(&uid);
                prop_assert!(kept || !world.services.contains_key(&uid), "{uid} lost its load balancer");
            }
        }
        // Until nothing is left to do.
        let mut over = BTreeMap::new();
        for _ in 0..1000 {
            if let Some(uid) = world.queue.first().cloned() {
                over.insert(uid.clone(), world.look(&uid, Answer::Done));
            } else if !world.written.is_empty() {
                world.arrive();
            }
        }
        prop_assert!(world.queue.is_empty() && world.written.is_empty());
        let (services, ports) = world.taken();
        for (uid, (_, wants)) in &world.services {
            let has = world.mirrors.get(uid).copied();
            let more = wants.saturating_sub(has.unwrap_or_default());
            if has == Some(*wants) {
                continue;
            }
            let fits = (has.is_some() || services < limits.services) && ports + more <= limits.ports;
            prop_assert!(!fits, "{uid} waits, although it fits");
        }
    }
}

#[test]
fn a_limit_that_is_lowered_deletes_nothing() {
    let mut world = World::new(Limits::default());
    for name in 0..4 {
        world.step(&Step::Put(name, 1));
    }
    while let Some(uid) = world.queue.first().cloned() {
        assert_eq!(world.look(&uid, Answer::Done), None);
    }
    world.settings = Arc::new(Settings {
        limits: Limits {
            services: 2,
            ports: 2,
            ..Limits::default()
        },
        ..Settings::default()
    });
    world.restart();
    world.step(&Step::Put(9, 1));
    let told: Vec<_> = std::iter::from_fn(|| {
        world
            .queue
            .first()
            .cloned()
            .map(|uid| world.look(&uid, Answer::Done))
    })
    .collect();
    assert_eq!(world.mirrors.len(), 4);
    assert_eq!(told.iter().flatten().count(), 1, "the new one alone");
}

/// Of all who ask for something, whether they are over a limit, when everything is counted anew.
fn counted(state: &State) -> BTreeMap<String, bool> {
    let mut taken = Taken::default();
    for uid in state.mirrors.uids() {
        taken.services += 1;
        taken.ports += state.mirrors.get(&uid).map_or(0, |mirror| ports(mirror));
    }
    for (uid, given) in &state.places.given {
        let made = state.mirrors_of(uid);
        let most = made.iter().map(|mirror| ports(mirror)).max();
        taken.services += usize::from(made.is_empty());
        taken.ports += given.saturating_sub(most.unwrap_or_default());
    }
    let services: Vec<_> = state.services.values().collect();
    let ages: Vec<_> = services.iter().map(|service| age(service)).collect();
    let wishes = ages.iter().zip(services);
    let asking = wishes.filter_map(|(age, service)| state.asking(age, state.wanted(service)?));
    let mut asking: Vec<_> = asking.collect();
    asking.sort_unstable();
    let mut room = Capacity::new(taken, state.settings.limits);
    let turns = asking.into_iter();
    turns
        .map(|turn| (turn.uid.to_owned(), room.give(&turn).is_some()))
        .collect()
}

/// What is told of one of them without a look at all is what a look at all tells.
fn check(state: &State) -> Result<(), TestCaseError> {
    let counted = counted(state);
    for uid in state.services.keys() {
        let over = counted.get(uid).copied().unwrap_or_default();
        prop_assert_eq!(state.over(uid).is_some(), over, "{}", uid);
    }
    let waiting = state.places.waiting.iter();
    let free = waiting.filter(|uid| counted.get(*uid) == Some(&false));
    let mut told = state.admissible();
    told.sort_unstable();
    prop_assert_eq!(told, free.cloned().collect::<Vec<_>>());
    Ok(())
}

#[test]
fn ports_that_a_mirror_gives_up_are_told_by_the_answer_to_who_waits_for_them() {
    let mut world = World::new(Limits {
        services: 5,
        ports: 5,
        endpoints: 1,
    });
    world.step(&Step::Put(0, 4));
    world.step(&Step::Put(1, 3));
    assert_eq!(world.look("00", Answer::Done), None);
    assert_eq!(world.look("01", Answer::Done), Some(Over::Ports));
    world.arrive();
    world.queue.clear();
    world.step(&Step::Put(0, 1));
    assert_eq!(world.look("00", Answer::Done), None);
    assert!(world.queue.contains("01"), "nobody tells who waits");
    // The watch tells what the answer told already, so nobody else will.
    world.arrive();
    assert_eq!(world.look("01", Answer::Done), None);
    assert_eq!(world.taken(), (2, 4));
}

/// Services `a` and `b` with three ports each, of which five are to be had: `a` has their place, and nobody
/// answered when its load balancer was written.
fn unanswered(answer: Answer) -> World {
    let mut world = World::new(Limits {
        services: 5,
        ports: 5,
        endpoints: 1,
    });
    for name in 0..2 {
        world.step(&Step::Put(name, 3));
    }
    assert_eq!(world.look("00", answer), None);
    assert_eq!(world.look("01", Answer::Done), Some(Over::Ports));
    world
}

#[test]
fn place_of_a_write_that_nobody_answered_and_that_had_no_effect_is_free_once_its_service_grew_over_the_limit()
 {
    let mut world = unanswered(Answer::Lost);
    world.step(&Step::Put(0, 9));
    assert_eq!(world.look("00", Answer::Done), Some(Over::Ports));
    assert!(world.queue.contains("01"), "nobody tells who waits");
    assert_eq!(world.look("01", Answer::Done), None);
    assert_eq!(world.taken(), (1, 3));
}

#[test]
fn place_of_a_write_that_nobody_answered_and_that_had_effect_is_nobody_elses() {
    let mut world = unanswered(Answer::Late);
    world.step(&Step::Put(0, 9));
    assert_eq!(world.look("00", Answer::Done), Some(Over::Ports));
    assert_eq!(world.look("01", Answer::Done), Some(Over::Ports));
    assert_eq!(world.taken(), (1, 3), "a watch has not told it yet");
}
