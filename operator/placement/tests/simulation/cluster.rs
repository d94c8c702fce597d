//! A tenant cluster with one pool over played locations, and an operator that does what `placement` says.
//!
//! Invariant: what the operator knows is what it saw or stored; [`Cluster::restart`] takes the rest away.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use placement::budget::Budget;
use placement::circuit::{Admission, Fault};
use placement::next::{self, Creation, Hold, Pool, Readiness, Rebalance, Step, Why};
use placement::offerings::{Choice, Offering, Refusal};
use placement::place::{Place, State};
use placement::recovery::{self, Evidence, Failover, Fate};
use placement::targets::{self, Headroom, Zone};
use placement::verdict::{self, Api, EndpointProbe, Observation, Signals, Verdict};
use placement::window::Window;

use crate::fake::{BOOT, DRAIN, Location, Machine, Phase, RENEW};

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

pub(crate) struct Cluster {
    pub(crate) now: i64,
    pub(crate) replicas: u32,
    pub(crate) rebalance: Rebalance,
    pub(crate) budget: Option<Budget>,
    pub(crate) failover: Failover,
    pub(crate) locations: Vec<Location>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) probe: EndpointProbe,
    pub(crate) is_public_cut: bool,
    pub(crate) verdict: Verdict,
    pub(crate) step: Step,
    /// Names of machines that were asked for, in order, with why and when.
    pub(crate) asked: Vec<(String, Why, i64)>,
    window: Window,
    number: u32,
}

impl Cluster {
    pub(crate) fn new(replicas: u32, locations: Vec<Location>) -> Self {
        let mut window = Window::default();
        window.on_listening(Duration::ZERO);
        Self {
            now: 0,
            replicas,
            rebalance: Rebalance::Never,
            budget: None,
            failover: Failover::default(),
            locations,
            machines: Vec::new(),
            probe: EndpointProbe::default(),
            is_public_cut: false,
            verdict: Verdict::default(),
            step: Step::default(),
            asked: Vec::new(),
            window,
            number: 0,
        }
    }

    /// One that has had all its machines for half an hour.
    pub(crate) fn settled(replicas: u32, locations: Vec<Location>) -> Self {
        let mut cluster = Self::new(replicas, locations);
        cluster.pass(1800);
        assert_eq!(cluster.ready(), replicas);
        cluster.asked.clear();
        cluster
    }

    /// Looks at everything each second.
    pub(crate) fn run(&mut self, seconds: i64) {
        (0..seconds).for_each(|_| self.tick(1));
    }

    /// Looks at everything every five seconds: for long times.
    pub(crate) fn pass(&mut self, seconds: i64) {
        let end = self.now + seconds;
        while self.now < end {
            self.tick(if self.now % 5 == 0 { 5 } else { 1 });
        }
    }

    /// What is stored is read again, what was in memory is gone, and nobody has heard a node yet.
    pub(crate) fn restart(&mut self) {
        for location in &mut self.locations {
            let text = serde_json::to_string(&location.record).unwrap();
            location.record = serde_json::from_str(&text).unwrap();
            let text = serde_json::to_string(&location.circuit).unwrap();
            location.circuit = serde_json::from_str(&text).unwrap();
            let text = serde_json::to_string(&location.offerings).unwrap();
            location.offerings = serde_json::from_str(&text).unwrap();
            location.fresh_since = None;
        }
        self.window = Window::default();
        self.window.on_listening(self.monotonic());
        let now = self.now;
        self.machines.iter_mut().for_each(|m| m.seen = now);
    }

    pub(crate) fn states(&self) -> Vec<State> {
        self.locations.iter().map(|l| l.record.state).collect()
    }

    pub(crate) fn state(&self, name: &str) -> State {
        let mut named = self.locations.iter().filter(|l| l.name == name);
        named.next().unwrap().record.state
    }

    pub(crate) fn location(&mut self, name: &str) -> &mut Location {
        self.locations.iter_mut().find(|l| l.name == name).unwrap()
    }

    /// Machines of each location whose nodes are ready.
    pub(crate) fn spread(&self) -> Vec<u32> {
        let of = |n: usize| {
            let here = self.machines.iter().filter(move |m| m.location == n);
            here.filter(|m| self.readiness(m) == Readiness::Ready)
                .count()
        };
        let counts = (0..self.locations.len()).map(of);
        counts.map(|n| u32::try_from(n).unwrap()).collect()
    }

    pub(crate) fn ready(&self) -> u32 {
        self.spread().iter().sum()
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.machines.iter().map(|m| m.name.clone()).collect()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.now).unwrap())
    }

    fn is_reached(&self, machine: &Machine) -> bool {
        let location = &self.locations[machine.location];
        let endpoint = location.endpoint == "public" && self.is_public_cut;
        machine.has_joined && !machine.is_dead && !location.is_cut && !endpoint
    }

    fn readiness(&self, machine: &Machine) -> Readiness {
        match machine {
            m if m.going.is_some() => Readiness::Going,
            m if !m.has_joined => Readiness::Coming,
            m if m.silent_since.is_some() => Readiness::Silent,
            _ => Readiness::Ready,
        }
    }

    fn tick(&mut self, seconds: i64) {
        self.now += seconds;
        self.nodes();
        self.provider();
        self.judge();
        self.act();
    }

    /// Nodes join and renew their Leases; those that go are gone after a while where the API answers.
    fn nodes(&mut self) {
        let now = self.now;
        for n in 0..self.machines.len() {
            let machine = &self.machines[n];
            let location = &self.locations[machine.location];
            let is_without_endpoint = location.endpoint == "public" && self.is_public_cut;
            let is_connected = !(location.is_cut || location.never_joins || is_without_endpoint);
            let boots = matches!(machine.phase, Phase::Made(then) if now >= then + BOOT);
            let joins = boots && !machine.has_joined && !machine.is_dead && is_connected;
            let renews = self.is_reached(machine) && now >= machine.renewed + RENEW;
            let machine = &mut self.machines[n];
            if joins {
                machine.has_joined = true;
                self.locations[machine.location].offerings.on_joined();
            }
            if joins || renews {
                (machine.renewed, machine.seen) = (now, now);
                machine.silent_since = None;
                self.window
                    .on_event(Duration::from_secs(u64::try_from(now).unwrap()));
            }
            // Stored with the Machine: who was silent is silent after a restart, until its Lease changes.
            if machine.has_joined && now - machine.seen >= 25 {
                machine.silent_since.get_or_insert(now);
            }
        }
        let locations = &self.locations;
        self.machines.retain(|m| {
            let done = m.going.is_some_and(|then| now >= then + DRAIN);
            !done || locations[m.location].is_api_down
        });
    }

    /// Creates are answered, and a list is asked for, where the circuit lets them.
    fn provider(&mut self) {
        let now = self.now;
        for n in 0..self.locations.len() {
            let location = &mut self.locations[n];
            if now % RENEW == 0 {
                let admission = location.circuit.admission(at(now));
                if admission == Admission::Probe {
                    location.circuit.begin_probe(at(now));
                }
                if !matches!(admission, Admission::Refused { .. }) {
                    let fault = location.is_api_down.then_some(Fault::Unavailable);
                    location.circuit.record(fault, at(now));
                }
            }
            if location.is_api_down {
                continue;
            }
            let asked = |m: &Machine| m.location == n && m.phase == Phase::Asked;
            for machine in self.machines.iter_mut().filter(|m| asked(m)) {
                location.calls += 1;
                if location.sold_out.contains(&machine.offering.type_) {
                    let refused = Refusal::Capacity;
                    location
                        .offerings
                        .on_refused(&machine.offering, refused, at(now));
                    machine.is_dead = true;
                } else {
                    location.offerings.on_made(&machine.offering, at(now));
                    machine.phase = Phase::Made(now);
                }
            }
            self.machines.retain(|m| !(asked(m) && m.is_dead));
        }
    }

    fn judge(&mut self) {
        let observation = self.observation();
        self.verdict = verdict::judge(&observation);
        for n in 0..self.locations.len() {
            let seen = self.evidence(n);
            let record = &self.locations[n].record;
            let next = recovery::step(record, &seen, &self.failover, at(self.now));
            self.locations[n].record = next;
        }
    }

    fn observation(&self) -> Observation {
        let machine = |m: &Machine| verdict::Machine {
            zone: String::new(),
            unchanged_for: Some(m.unchanged_for(self.now)),
            is_proven_dead: m.is_dead && !self.locations[m.location].is_api_down,
        };
        let signals = |(n, l): (usize, &Location)| Signals {
            name: l.name.clone(),
            endpoint: l.endpoint.to_owned(),
            api: match l.circuit.is_closed() {
                true => Api::Answers,
                false => Api::Errors,
            },
            zones: [String::new()].into(),
            machines: self
                .machines
                .iter()
                .filter(|m| m.location == n && m.has_joined && m.going.is_none())
                .map(machine)
                .collect(),
        };
        Observation {
            after: self.failover.after,
            is_trusted: self
                .window
                .is_trusted(self.failover.after, self.monotonic()),
            locations: self.locations.iter().enumerate().map(signals).collect(),
            endpoints: BTreeMap::from([("public".to_owned(), self.probe)]),
        }
    }

    fn evidence(&mut self, n: usize) -> Evidence {
        let now = self.now;
        let since = self.locations[n].record.since;
        let here = || self.machines.iter().filter(|m| m.location == n);
        let is_fresh = |m: &&Machine| self.readiness(m) == Readiness::Ready;
        let is_old = |m: &&Machine| at(m.made) < since;
        let any_old = here().filter(is_old).any(|m| is_fresh(&m));
        let is_canary_ready = here().filter(|m| m.is_canary).any(|m| is_fresh(&m));
        let fresh_since = self.locations[n].fresh_since.filter(|_| any_old);
        let fresh_since = fresh_since.or(any_old.then_some(now));
        self.locations[n].fresh_since = fresh_since;
        let location = &self.locations[n];
        let for_ = |since: i64| Duration::from_secs(u64::try_from(now - since).unwrap());
        Evidence {
            finding: self.verdict.places[&Place::new(location.name.clone(), "")],
            is_api_closed: location.circuit.is_closed(),
            old_fresh_for: fresh_since.map(for_),
            is_canary_ready,
            exclusion: None,
        }
    }

    fn act(&mut self) {
        let (pool, locations) = (self.pool(), self.wanted_locations());
        let machines: Vec<_> = self.machines.iter().map(|m| self.machine(m)).collect();
        let step = next::plan(&pool, &locations, &machines, at(self.now));
        self.obey(&pool, &step, &machines);
        for name in &step.delete {
            let machine = self.machines.iter_mut().find(|m| m.name == *name);
            machine.unwrap().going = Some(self.now);
        }
        for creation in &step.create {
            self.ask(creation);
        }
        self.give_up();
        self.step = step;
    }

    /// Laws of every single step.
    fn obey(&self, pool: &Pool, step: &Step, machines: &[next::Machine]) {
        let state = |m: &next::Machine| self.state(&m.place.location);
        let living = machines.iter().filter(|m| m.readiness != Readiness::Going);
        for machine in machines.iter().filter(|m| step.delete.contains(&m.name)) {
            assert!(
                !state(machine).is_outage(),
                "{} is in an outage",
                machine.name
            );
        }
        let steady = living.clone().filter(|m| !state(m).is_outage());
        let steady = u32::try_from(steady.count()).unwrap();
        let gone = u32::try_from(step.delete.len()).unwrap();
        assert!(
            gone == 0 || steady - gone >= pool.replicas,
            "deletes what is wanted"
        );
        let living = u32::try_from(living.count()).unwrap();
        let asked = u32::try_from(step.create.len()).unwrap();
        let moves = u32::from(step.create.iter().any(|c| c.why == Why::Rebalance));
        let most = pool.replicas + pool.max_extra + moves;
        assert!(
            asked == 0 || living + asked <= most,
            "makes more than maxExtra"
        );
        for creation in &step.create {
            let state = self.state(&creation.place.location);
            let is_fine = state == State::Healthy || creation.why == Why::Canary;
            assert!(is_fine, "makes one where it is {state:?}");
        }
    }

    fn pool(&self) -> Pool {
        let prices: Vec<_> = self
            .machines
            .iter()
            .map(|m| &self.locations[m.location].price)
            .collect();
        let account = |budget: &Budget| budget.account(prices.iter().map(|p| p.as_ref()));
        let mut canaries = Vec::new();
        for n in 0..self.locations.len() {
            let location = &self.locations[n];
            let place = Place::new(location.name.clone(), "");
            let Some(finding) = self.verdict.places.get(&place).copied() else {
                continue;
            };
            let seen = Evidence {
                finding,
                is_api_closed: location.circuit.is_closed(),
                old_fresh_for: location.fresh_since.map(|_| Duration::ZERO),
                is_canary_ready: false,
                exclusion: None,
            };
            let has_canary = self.machines.iter().any(|m| m.location == n && m.is_canary);
            let (record, failover) = (&location.record, &self.failover);
            if recovery::is_canary_due(record, &seen, has_canary, failover, at(self.now)) {
                canaries.push(place);
            }
        }
        Pool {
            replicas: self.replicas,
            max_extra: self.replicas.div_ceil(2),
            rebalance: self.rebalance,
            is_rolling_out: false,
            budget: self.budget.as_ref().map(|b| (b.clone(), account(b))),
            canaries,
        }
    }

    fn in_flight(&self, n: usize) -> Vec<Offering> {
        let here = self.machines.iter().filter(|m| m.location == n);
        let asked = here.filter(|m| m.phase == Phase::Asked);
        asked.map(|m| m.offering.clone()).collect()
    }

    fn wanted_locations(&self) -> Vec<targets::Location> {
        let one = |(n, l): (usize, &Location)| {
            let flying = self.in_flight(n);
            let choice = l.offerings.choose(&l.catalog, "", &flying, at(self.now));
            targets::Location {
                name: l.name.clone(),
                weight: l.weight,
                max: None,
                price: l.price.clone(),
                headroom: Headroom::default(),
                slots: l.offerings.slots(&l.catalog, &flying, at(self.now)),
                zones: vec![Zone {
                    name: String::new(),
                    state: l.record.state,
                    since: l.record.since,
                    is_creatable: l.circuit.is_closed()
                        && !matches!(choice, Choice::Exhausted { .. }),
                }],
            }
        };
        self.locations.iter().enumerate().map(one).collect()
    }

    fn machine(&self, machine: &Machine) -> next::Machine {
        next::Machine {
            name: machine.name.clone(),
            place: Place::new(self.locations[machine.location].name.clone(), ""),
            made: at(machine.made),
            readiness: self.readiness(machine),
            is_named: false,
            is_replacement: machine.is_replacement,
        }
    }

    fn ask(&mut self, creation: &Creation) {
        let name = &creation.place.location;
        let n = self.locations.iter().position(|l| l.name == *name).unwrap();
        let location = &self.locations[n];
        let flying = self.in_flight(n);
        let choice = location
            .offerings
            .choose(&location.catalog, "", &flying, at(self.now));
        let Choice::Take(offering) = choice else {
            return;
        };
        self.number += 1;
        let machine = Machine {
            name: format!("m{:04}", self.number),
            location: n,
            offering,
            made: self.now,
            phase: Phase::Asked,
            is_replacement: creation.why == Why::Outage,
            is_canary: creation.why == Why::Canary,
            is_dead: false,
            has_joined: false,
            going: None,
            renewed: self.now,
            seen: self.now,
            silent_since: None,
        };
        self.asked
            .push((machine.name.clone(), creation.why, self.now));
        self.machines.push(machine);
    }

    /// What the pool's health does: machines that are lost go. Those of an outage as `recovery::fate` says, the
    /// others after ten minutes, but none where the place is suspect or everybody is silent.
    fn give_up(&mut self) {
        let now = self.now;
        for n in 0..self.machines.len() {
            let machine = &self.machines[n];
            let location = &self.locations[machine.location];
            let (record, failover) = (&location.record, &self.failover);
            let lost = match machine.silent_since {
                Some(since) => {
                    let is_judged = record.state != State::Suspect && !self.verdict.is_all_silent;
                    let is_absent = machine.is_dead && !location.is_api_down;
                    match recovery::fate(record, at(since), is_absent, failover, at(now)) {
                        Fate::GivenUp => true,
                        Fate::Kept { .. } => false,
                        Fate::Ordinary => is_absent || is_judged && now - since >= 600,
                    }
                }
                None => {
                    let made = matches!(machine.phase, Phase::Made(then) if now - then >= 600);
                    let is_waited_for = record.state == State::Healthy || machine.is_canary;
                    made && !machine.has_joined && is_waited_for
                }
            };
            if lost && machine.going.is_none() {
                if !machine.has_joined {
                    let offerings = &mut self.locations[machine.location].offerings;
                    offerings.on_never_joined(at(now));
                }
                self.machines[n].going = Some(now);
            }
        }
    }

    pub(crate) fn has_hold(&self, is: impl Fn(&Hold) -> bool) -> bool {
        self.step.holds.iter().any(is)
    }
}
