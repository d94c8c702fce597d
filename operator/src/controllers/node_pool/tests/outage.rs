//! Pools of which a whole location is lost: played seconds, in which kubelets speak every ten, a node that is silent is not
//! ready after fifty, and a machine that is made is a node after sixty.
//!
//! Long because all that can happen to a location is played on one stage.
//! Invariant: what the operator knows is what it saw or stored; [`Played::restart`] takes the rest away.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use placement::budget::{Micros, Price};

use super::*;
use crate::cloud_limits::costs::Cost;
use crate::controllers::node_pool::observed::is_going;
use crate::node_silence::{Heard, Node};

mod signals;

/// A node speaks so often, in seconds.
const RENEW: i64 = 10;
/// It is not ready after so much silence.
const GRACE: i64 = 50;
/// From a Machine to a ready node.
const BOOT: i64 = 60;
/// From a deletion to nothing.
const DRAIN: i64 = 20;

/// When a machine was made, and when its node spoke last.
struct Life {
    made: i64,
    spoke: Option<i64>,
    /// Since when it speaks without a break.
    since: i64,
    gone: Option<i64>,
}

struct Played {
    world: World,
    second: i64,
    cut: Vec<&'static str>,
    /// Machines that are gone alone.
    dead: Vec<String>,
    lives: BTreeMap<String, Life>,
    /// Listens since then.
    listens: i64,
    /// Names in the order in which they were made, and when.
    made: Vec<(String, i64)>,
}

fn spec(locations: &Value, more: &Value) -> Value {
    let mut spec = json!({ "provider": null, "locations": locations });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

fn inside(names: &[&str]) -> Value {
    let at = |name: &&str| json!({ "name": name, "weight": 1, "provider": { "kubevirt": {} } });
    names.iter().map(at).collect()
}

/// By the published endpoint.
fn cloud(name: &str) -> Value {
    json!({ "name": name, "weight": 1, "provider": { "hetzner": { "configName": name, "types": ["cx22"] } } })
}

impl Played {
    /// A pool that has had all its machines for ten minutes.
    fn settled(replicas: i32, spec: &Value) -> Self {
        let mut played = Self {
            world: World::new(replicas, spec),
            second: 0,
            cut: Vec::new(),
            dead: Vec::new(),
            lives: BTreeMap::new(),
            listens: 0,
            made: Vec::new(),
        };
        played.pass(600);
        assert_eq!(played.world.ready(), usize::try_from(replicas).unwrap());
        played.made.clear();
        played
    }

    fn pass(&mut self, seconds: i64) {
        // Nobody's time is shorter than ten seconds; short ones are looked at more closely.
        let step = if seconds > 300 { 10 } else { 5 };
        for _ in 0..seconds / step {
            self.tick(step);
            self.world.settle();
            self.note();
        }
    }

    /// Seconds pass, and nobody looks.
    fn tick(&mut self, seconds: i64) {
        self.second += seconds;
        let now = self.second;
        let passed = SignedDuration::from_secs(seconds);
        self.world.now = self.world.now.checked_add(passed).unwrap();
        for machine in self.world.machines.clone() {
            let name = machine.name_any();
            let life = self.lives.entry(name.clone()).or_insert(Life {
                made: now,
                spoke: None,
                since: now,
                gone: None,
            });
            if is_going(&machine) {
                life.gone.get_or_insert(now);
            }
            let location = machine.spec.location.clone().unwrap_or_default();
            let is_cut = self.cut.iter().any(|cut| *cut == location) || self.dead.contains(&name);
            let joins = life.spoke.is_none() && now - life.made >= BOOT;
            let renews = life.spoke.is_some_and(|at| now - at >= RENEW);
            if !is_cut && (joins || renews) {
                if joins || life.spoke.is_some_and(|at| now - at >= 25) {
                    life.since = now;
                }
                life.spoke = Some(now);
                let status = self.world.machine(&name).status.get_or_insert_default();
                status.node_name = Some(name.clone());
                self.world.says(&name, MachinePhase::Running, Some(true));
            } else if life.spoke.is_some_and(|at| now - at >= GRACE) {
                self.world.says(&name, MachinePhase::Running, Some(false));
            }
        }
        let lives = &self.lives;
        self.world.machines.retain(|m| {
            let life = &lives[&m.name_any()];
            life.gone.is_none_or(|at| now - at < DRAIN)
        });
        self.hear();
    }

    fn hear(&mut self) {
        let s = |n: i64| Duration::from_secs(u64::try_from(n).unwrap_or_default());
        let now = self.second;
        let mut nodes = BTreeMap::new();
        let mut last = 0;
        for (name, life) in &self.lives {
            let is_there = self.world.machines.iter().any(|m| m.name_any() == *name);
            let Some(spoke) = life.spoke.filter(|_| is_there) else {
                continue;
            };
            last = last.max(spoke);
            let quiet = now - spoke.max(self.listens);
            let is_fresh = now - spoke < 25 && spoke > self.listens;
            let fresh = is_fresh.then(|| s(now - life.since.max(self.listens)));
            nodes.insert(
                name.clone(),
                Node {
                    unchanged_for: s(quiet),
                    fresh_for: fresh,
                },
            );
        }
        self.world.heard = Heard {
            is_trusted: now - self.listens >= 30 && now - last < 15,
            nodes,
        };
    }

    fn note(&mut self) {
        for machine in &self.world.machines {
            let name = machine.name_any();
            if !self.made.iter().any(|(known, _)| *known == name) && !self.lives.contains_key(&name)
            {
                self.made.push((name, self.second));
            }
        }
    }

    fn restart(&mut self) {
        self.listens = self.second;
        self.hear();
    }

    fn state(&self, name: &str) -> String {
        let status = self.world.pool.status.clone().unwrap();
        let at = status.locations.into_iter().find(|at| at.name == name);
        at.unwrap().state.unwrap_or_else(|| "Healthy".to_owned())
    }

    fn reason(&self, name: &str) -> Option<String> {
        let status = self.world.pool.status.clone().unwrap();
        let at = status.locations.into_iter().find(|at| at.name == name);
        at.unwrap().reason
    }

    fn of(&self, location: &str) -> Vec<String> {
        let there = self.world.machines.iter();
        let there = there.filter(|m| m.spec.location.as_deref() == Some(location) && !is_going(m));
        there.map(ResourceExt::name_any).collect()
    }

    fn spread(&self) -> String {
        self.world.pool.status.clone().unwrap().spread.unwrap()
    }
}

#[test]
fn lost_location_is_replaced_within_a_minute_and_its_machines_are_there_when_it_is_back() {
    let mut played = Played::settled(9, &spec(&inside(&["a", "b", "c"]), &json!({})));
    let before = played.world.live();
    assert_eq!(played.spread(), "a 3/3, b 3/3, c 3/3");
    played.cut = vec!["a"];
    let lost_at = played.second;
    played.pass(60);
    let asked: Vec<_> = played.made.iter().map(|(_, at)| at - lost_at).collect();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked.iter().all(|after| *after <= 40), "{asked:?}");
    assert_eq!(played.state("a"), "Out");
    let said = played.world.condition("LocationsHealthy");
    assert!(is(said, "False", "LocationOut"));
    played.pass(3600);
    assert_eq!(played.spread(), "a 0/0 Out (3 silent), b 5/5, c 4/4");
    assert_eq!(played.made.len(), 3, "health replaces none of them");
    assert!(before.iter().all(|name| played.world.live().contains(name)));

    played.cut.clear();
    played.pass(300);
    assert_eq!(played.state("a"), "Recovering");
    assert_eq!(played.world.live().len(), 12);
    for _ in 0..240 {
        played.pass(5);
        assert!(played.world.ready() >= 9);
        assert!(played.world.going().len() <= 1, "they go one by one");
    }
    assert_eq!(played.state("a"), "Healthy");
    assert_eq!(played.world.live(), before, "the machines of before");
    assert!(is(
        played.world.condition("LocationsHealthy"),
        "True",
        "AllLocationsHealthy"
    ));
    assert!(is(
        played.world.condition("Progressing"),
        "False",
        "AsDesired"
    ));
}

/// M6 of the acceptance.
#[test]
fn two_hours_of_flapping_cost_what_was_lost_once() {
    let mut played = Played::settled(9, &spec(&inside(&["a", "b", "c"]), &json!({})));
    let before = played.world.live();
    let mut was_out = false;
    for _ in 0..40 {
        for cut in [true, false] {
            played.cut = if cut { vec!["a"] } else { Vec::new() };
            played.pass(90);
            was_out |= played.state("a") == "Out";
            assert!(!was_out || played.state("a") != "Healthy");
        }
    }
    assert_eq!(played.made.len(), 3);
    assert!(before.iter().all(|name| played.world.live().contains(name)));
    played.pass(3 * 3600);
    assert_eq!(played.world.live(), before);
}

/// M3.
#[test]
fn api_that_does_not_answer_replaces_nobody_and_new_machines_go_elsewhere() {
    let mut played = Played::settled(4, &spec(&json!([cloud("a"), cloud("b")]), &json!({})));
    played.world.answers = BTreeMap::from([("a".to_owned(), false), ("b".to_owned(), true)]);
    played.pass(600);
    assert!(played.made.is_empty(), "{:?}", played.made);
    assert_eq!(played.state("a"), "Suspect");
    assert!(is(
        played.world.condition("LocationsHealthy"),
        "False",
        "LocationSuspected"
    ));
    played.world.pool.spec.replicas = 6;
    played.pass(5);
    assert_eq!((played.of("a").len(), played.of("b").len()), (2, 4));
    // A restart knows nothing of the API, and goes on from what is stored.
    played.world.answers.clear();
    played.restart();
    played.world.pool.spec.replicas = 7;
    played.pass(5);
    assert_eq!((played.of("a").len(), played.of("b").len()), (2, 5));
    played.world.answers = BTreeMap::from([("a".to_owned(), true), ("b".to_owned(), true)]);
    played.pass(30);
    assert_eq!(played.state("a"), "Healthy");
}

#[test]
fn location_whose_credentials_are_refused_gets_nothing_new_and_loses_nothing_until_they_let_in() {
    for mode in ["Automatic", "Never"] {
        let placement = json!({ "placement": { "failover": { "mode": mode } } });
        let mut played = Played::settled(4, &spec(&json!([cloud("a"), cloud("b")]), &placement));
        let before = played.world.live();
        played.world.let_in = BTreeMap::from([("a".to_owned(), false), ("b".to_owned(), true)]);
        played.pass(600);
        assert_eq!(played.world.live(), before, "{mode}");
        assert_eq!(played.state("a"), "Excluded");
        let status = played.world.pool.status.clone().unwrap();
        let reason = status.locations[0].reason.as_deref();
        assert_eq!(reason, Some("CredentialsRefused"), "{mode}");
        let said = played.world.condition("LocationsHealthy");
        assert!(is(said, "False", "LocationExcluded"), "{mode}");
        played.world.pool.spec.replicas = 6;
        played.pass(5);
        let spread = |played: &Played| (played.of("a").len(), played.of("b").len());
        assert_eq!(spread(&played), (2, 4), "{mode}");
        // Who was started anew, or gets no answer, goes on from what is stored.
        played.world.let_in.clear();
        played.restart();
        played.world.pool.spec.replicas = 7;
        played.pass(5);
        assert_eq!(spread(&played), (2, 5), "{mode}");
        played.pass(120);
        let writes = played.world.writes;
        played.pass(60);
        assert_eq!(
            played.world.writes, writes,
            "{mode}: nothing is written again"
        );
        played.world.let_in = BTreeMap::from([("a".to_owned(), true), ("b".to_owned(), true)]);
        played.world.pool.spec.replicas = 8;
        played.pass(30);
        assert_eq!(played.state("a"), "Healthy", "{mode}");
        assert_eq!(spread(&played), (3, 5), "{mode}");
        assert!(before.iter().all(|name| played.world.live().contains(name)));
    }
}

/// M17.
#[test]
fn budget_that_is_reached_in_an_outage_makes_nothing_and_lets_go_of_nothing() {
    let placement = json!({ "placement": { "budget": { "hourly": "4.50", "currency": "EUR" } } });
    let mut played = Played::settled(9, &spec(&inside(&["a", "b", "c"]), &json!({})));
    played.world.pool.spec.placement = read(placement["placement"].clone());
    let half = Price {
        hourly: Micros(500_000),
        currency: "EUR".to_owned(),
    };
    for location in ["a", "b", "c"] {
        let cost = Cost::Known(half.clone());
        played.world.cost.insert(location.to_owned(), cost);
    }
    let before = played.world.live();
    played.cut = vec!["a"];
    played.pass(600);
    assert_eq!(played.state("a"), "Out");
    assert!(played.made.is_empty(), "{:?}", played.made);
    assert_eq!(played.world.live(), before);
    assert!(is(
        played.world.condition("Budget"),
        "False",
        "LimitReached"
    ));
    let status = played.world.pool.status.clone().unwrap();
    let mut said = status.conditions.iter().filter(|c| c.type_ == "Budget");
    let said = said.next().unwrap().message.clone();
    assert!(said.contains("4.50 EUR an hour"), "{said}");
    played.cut.clear();
    played.pass(1800);
    assert_eq!(played.world.live(), before);
    assert!(is(played.world.condition("Budget"), "True", "WithinLimits"));
}

/// M5, and everything silent.
#[test]
fn silence_of_all_that_come_by_one_endpoint_replaces_nobody() {
    let mut locations = inside(&["k"]);
    let list = locations.as_array_mut().unwrap();
    list.extend([cloud("a"), cloud("b")]);
    let health = json!({ "health": { "notReadyTimeout": "5m" } });
    for cut in [vec!["a", "b"], vec!["a", "b", "k"]] {
        let mut played = Played::settled(6, &spec(&locations, &health));
        played.cut = cut;
        played.pass(1800);
        assert!(played.made.is_empty(), "{:?}", played.made);
        assert!(played.world.going().is_empty());
        played.cut.clear();
        played.pass(120);
        assert_eq!(played.state("a"), "Healthy");
    }
}

#[test]
fn one_node_that_is_lost_is_healths_and_no_outage() {
    let mut played = Played::settled(4, &spec(&inside(&["a", "b"]), &json!({})));
    let lost = played.of("a")[0].clone();
    played.dead.push(lost.clone());
    for _ in 0..15 {
        played.pass(60);
        assert_eq!(played.state("a"), "Healthy");
    }
    assert_eq!(played.made.len(), 1);
    assert!(!played.world.live().contains(&lost));
}

/// M8 of this path: whoever comes after a crash at any write makes none twice, and none goes.
#[test]
fn operator_that_dies_at_any_write_replaces_what_was_lost_once() {
    for writes in 0..8 {
        let mut played = Played::settled(9, &spec(&inside(&["a", "b", "c"]), &json!({})));
        let before = played.world.live();
        played.cut = vec!["a"];
        let mut budget = writes;
        for _ in 0..(60 / 5) {
            played.tick(5);
            if !played.world.reconcile(&mut budget) {
                break;
            }
            played.note();
        }
        played.note();
        played.restart();
        played.pass(900);
        assert_eq!(played.made.len(), 3, "died after {writes}");
        assert!(played.world.going().is_empty());
        assert_eq!(played.state("a"), "Out");
        played.cut.clear();
        played.pass(1800);
        assert_eq!(played.world.live(), before, "died after {writes}");
    }
}

#[test]
fn no_more_are_made_than_may_be_above_replicas_and_that_is_said() {
    let failover = json!({ "placement": { "failover": { "maxExtra": 1 } } });
    let mut played = Played::settled(6, &spec(&inside(&["a", "b"]), &failover));
    played.cut = vec!["a"];
    played.pass(600);
    assert_eq!(played.made.len(), 1);
    let status = played.world.pool.status.clone().unwrap();
    let said = status
        .conditions
        .iter()
        .find(|c| c.type_ == "LocationsHealthy");
    assert!(said.unwrap().message.contains("maxExtra"), "{said:?}");
}

#[test]
fn with_never_a_silent_location_is_nobodys_but_healths() {
    let never = json!({ "placement": { "failover": { "mode": "Never" } } });
    let mut played = Played::settled(6, &spec(&inside(&["a", "b"]), &never));
    played.cut = vec!["a"];
    played.pass(300);
    assert!(played.made.is_empty());
    let status = played.world.pool.status.clone().unwrap();
    assert!(
        status
            .conditions
            .iter()
            .all(|c| c.type_ != "LocationsHealthy")
    );
}

#[test]
fn pool_that_wants_none_keeps_none_of_a_lost_location() {
    let mut played = Played::settled(6, &spec(&inside(&["a", "b"]), &json!({})));
    played.cut = vec!["a"];
    played.pass(120);
    played.world.pool.spec.replicas = 0;
    played.pass(60);
    assert!(played.world.live().is_empty());
}

#[test]
fn machines_that_do_not_come_back_are_given_up_and_one_shows_when_the_location_is_back() {
    let soon = json!({ "placement": { "failover": { "giveUpAfter": "1h" } } });
    let mut played = Played::settled(6, &spec(&inside(&["a", "b"]), &soon));
    let of_a = played.of("a");
    played.cut = vec!["a"];
    played.pass(2 * 3600);
    assert!(of_a.iter().all(|name| !played.world.live().contains(name)));
    // One at a time tries to come up there, half an hour each.
    assert!(played.of("a").len() <= 1);
    let tries = played.made.len() - 3;
    assert!((2..=6).contains(&tries), "{tries} tried");
    played.cut.clear();
    played.pass(2 * 3600);
    assert_eq!(played.state("a"), "Healthy");
    assert_eq!(played.world.live().len(), 6);
}

#[test]
fn rollout_leaves_a_lost_location_alone_and_goes_on_elsewhere() {
    let mut played = Played::settled(6, &spec(&inside(&["a", "b", "c"]), &json!({})));
    let of_a = played.of("a");
    played.cut = vec!["a"];
    played.pass(120);
    played.world.pool.spec.version = Some("1.34.4".to_owned());
    played.pass(1800);
    assert_eq!(played.of("a"), of_a);
    let others = played.world.machines.iter();
    let mut others = others.filter(|m| m.spec.location.as_deref() != Some("a"));
    assert!(others.all(|m| m.spec.version == "1.34.4"));
}

/// When replacements are asked for, over moments at which a location may die: p99 within a minute.
#[test]
fn detection_takes_no_more_than_forty_seconds() {
    let mut all = Vec::new();
    for n in 0..6 {
        let mut played = Played::settled(6, &spec(&inside(&["a", "b", "c"]), &json!({})));
        played.pass(5 * (n % 3));
        played.cut = vec!["a"];
        let lost_at = played.second;
        played.pass(60);
        let asked = played.made.first().map(|(_, at)| at - lost_at);
        all.push(asked.unwrap());
    }
    all.sort_unstable();
    assert!(all.last().is_some_and(|worst| *worst <= 40), "{all:?}");
}
