//! Which locations of a pool are lost, and what follows for their machines: crate `placement` judges, and here it is told
//! what was seen.
//!
//! Long because what is seen of locations, what follows and what is said of it are held to the same invariant.
//! Invariant: a machine in a location that is out or on its way back goes for no number and no rollout; what is stored is
//! written before anything is made because of it; a pool that wants no machine keeps none. Every location is one zone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::int_or_percent::Round;
use api::machine::MachinePhase;
use api::node_pool::{LocationStatus, NodePoolStatus, Provider};
use api::{ConditionStatus, ConditionType, Machine, NodePool, Reason, names, remove_condition};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use placement::endpoint::{self, Standing};
use placement::place::{Place, State};
use placement::recovery::{self, Evidence, Exclusion, Failover, Fate, Mode, Record};
use placement::verdict::{self, Api, Observation, Signals};

use super::members::{self, Health, Limits};
use super::sizing::{Sizing, Spread};
use super::status::{Said, set};
use super::template::Template;
use super::{Plan, unchanged};
use crate::controllers::node_pool::observed::{Observed, is_going};

/// How soon a location that is not healthy is looked at again.
const AGAIN: Duration = Duration::from_secs(10);
/// How long a machine is waited for that was made to see whether a location is back; then another one tries.
const CANARY: SignedDuration = SignedDuration::from_mins(30);
/// The way of nodes that are in the management cluster.
const INSIDE: &str = "inside";
/// The way of all others.
const PUBLISHED: &str = "published";

/// How every location stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Outlook {
    /// By name; empty where nobody judges.
    records: BTreeMap<String, Record>,
    /// As they were stored.
    before: BTreeMap<String, Record>,
    /// Machines whose node is silent.
    silent: BTreeSet<String>,
    /// Locations of which the API does not answer, nor SSH where machines are reached by it.
    mute: BTreeSet<String>,
    /// Locations of which machines are reached by SSH.
    sites: BTreeSet<String>,
    /// Those that wait for a machine that shows whether they are back.
    canaries: Vec<String>,
    failover: Failover,
    /// How the published endpoint stands; none where nobody judges.
    endpoint: Option<Standing>,
    max_extra: usize,
    /// It wants no machine at all.
    is_empty: bool,
}

/// Judges.
pub(super) fn judge(observed: &Observed, template: &Template, now: Timestamp) -> Outlook {
    let pool = &observed.pool;
    let before = stored(pool);
    if before.is_empty()
        && observed.let_in.values().all(|let_in| *let_in)
        && !pool.spec.has_failover()
    {
        return Outlook::default();
    }
    // What is stored has no more of it.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let failover = failover(pool);
    let record = |name: &str| {
        let unknown = || Record::new(Timestamp::UNIX_EPOCH);
        before.get(name).cloned().unwrap_or_else(unknown)
    };
    let observation = observation(observed, template, &failover, &record);
    let verdict = verdict::judge(&observation);
    let replicas = pool.spec.replicas;
    let max_extra = pool
        .spec
        .placement
        .failover
        .max_extra
        .of(replicas, Round::Up);
    let mut outlook = Outlook {
        silent: silent(observed, failover.after),
        max_extra: max_extra
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or_default(),
        is_empty: replicas == 0,
        failover,
        endpoint: Some(endpoint::judge(
            &observation,
            &verdict,
            PUBLISHED,
            observed.endpoint.probe,
            observed.answers_since().is_some(),
        )),
        ..Outlook::default()
    };
    for signals in observation
        .locations
        .iter()
        .filter(|l| !l.name.contains('/'))
    {
        let name = &signals.name;
        let before = record(name);
        let Some(finding) = verdict.places.get(&Place::new(name.clone(), "")).copied() else {
            continue;
        };
        let there = there(observed, template, name);
        let old = there.iter().filter(|m| !is_made_since(m, before.since));
        let fresh = old.filter_map(|m| observed.heard.nodes.get(&m.name_any())?.fresh_for);
        let mut made = there.iter().filter(|m| is_made_since(m, before.since));
        let seen = Evidence {
            finding,
            is_api_closed: signals.api.is_fine(),
            old_fresh_for: fresh.max(),
            is_canary_ready: made.clone().any(|m| outlook.is_ready(m)),
            exclusion: exclusion(observed, name, &before),
        };
        let has_canary = made.any(|m| !is_going(m));
        let next = recovery::step(&before, &seen, &failover, now);
        if recovery::is_canary_due(&next, &seen, has_canary, &failover, now) {
            outlook.canaries.push(name.clone());
        }
        if !signals.api.is_fine() {
            outlook.mute.insert(name.clone());
        }
        if matches!(signals.api, Api::SshAnswers | Api::SshFails) {
            outlook.sites.insert(name.clone());
        }
        outlook.records.insert(name.clone(), next);
    }
    if outlook.failover.mode == Mode::Never {
        // Nothing is judged there but who has to mend what.
        let is_excluded = |_: &String, record: &mut Record| record.state == State::Excluded;
        outlook.records.retain(is_excluded);
    }
    outlook.before = before;
    outlook
}

/// What a person has to mend before anything new is made in a location; where nobody knows it is as it was.
fn exclusion(observed: &Observed, location: &str, before: &Record) -> Option<Exclusion> {
    let is_let_in = observed.let_in.get(location).copied();
    let was = || before.reason == Some(recovery::Reason::CredentialsRefused);
    let is_refused = is_let_in.map_or_else(was, |is_let_in| !is_let_in);
    is_refused.then_some(Exclusion::CredentialsRefused)
}

impl Outlook {
    /// How the published endpoint stands; none where nobody judges.
    pub(super) fn endpoint(&self) -> Option<Standing> {
        self.endpoint
    }

    fn is_judged(&self) -> bool {
        !self.records.is_empty()
    }

    /// How a location stands, and since when.
    pub(super) fn state(&self, location: &str) -> (State, Timestamp) {
        match self.records.get(location).filter(|_| !self.is_empty) {
            Some(record) => (record.state, record.since),
            None => (State::Healthy, Timestamp::UNIX_EPOCH),
        }
    }

    /// Whether the API there can be asked for a machine.
    pub(super) fn is_creatable(&self, location: &str) -> bool {
        !self.mute.contains(location)
    }

    fn is_ready(&self, machine: &Machine) -> bool {
        members::is_ready(machine) && !self.silent.contains(&machine.name_any())
    }

    fn state_at(&self, template: &Template, machine: &Machine) -> State {
        let at = template.location_of(machine);
        at.map(|at| self.state(&at.shown).0).unwrap_or_default()
    }

    /// Whether an outage goes on where it is, or is not over: then it is not rolled.
    pub(super) fn is_outage(&self, template: &Template, machine: &Machine) -> bool {
        self.state_at(template, machine).is_outage()
    }

    /// Whether another one has its place meanwhile.
    pub(super) fn is_stranded(&self, template: &Template, machine: &Machine) -> bool {
        self.is_outage(template, machine) && !self.is_ready(machine)
    }

    /// Until when one that is lost is waited for all the same; none: no longer.
    pub(super) fn kept_until(
        &self,
        template: &Template,
        machine: &Machine,
        health: Health,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let at = template.location_of(machine)?;
        let record = self.records.get(&at.shown).filter(|_| !self.is_empty)?;
        if record.state == State::Suspect && health != Health::Failed {
            return Some(Timestamp::MAX);
        }
        let made = machine.metadata.creation_timestamp.as_ref()?.0;
        if health == Health::TooLate && record.state == State::Out && made >= record.since {
            let until = made.saturating_add(CANARY).unwrap_or(Timestamp::MAX);
            return Some(until).filter(|until| *until > now);
        }
        let since = members::silent_since(machine).unwrap_or(made);
        let is_absent = health == Health::Failed;
        match recovery::fate(record, since, is_absent, &self.failover, now) {
            Fate::Kept { until } => Some(until),
            Fate::Ordinary | Fate::GivenUp => None,
        }
    }

    /// When to look again although nobody says anything; none: not because of this.
    pub(super) fn again(
        &self,
        template: &Template,
        (machines, limits): (&[&Machine], &Limits),
        now: Timestamp,
    ) -> Option<Duration> {
        // Of one that is excluded its ProviderConfig wakes the pool.
        let is_well = |r: &Record| matches!(r.state, State::Healthy | State::Excluded);
        if !self.records.values().all(is_well) {
            return Some(AGAIN);
        }
        let until = machines.iter().filter_map(|machine| {
            let health = members::health(machine, limits, now);
            let until = self.kept_until(template, machine, health, now);
            until.filter(|_| health.is_lost())
        });
        let left = until.min()?.duration_since(now);
        Some(Duration::try_from(left).unwrap_or_default() + AGAIN)
    }

    /// What makes a machine there now tells of the spread.
    pub(super) fn spread(&self, spread: Spread) -> Spread {
        Spread {
            max_extra: self.max_extra,
            canaries: self.canaries.clone(),
            ..spread
        }
    }

    /// Writes how a location stands; what never was anything but healthy is not said.
    pub(super) fn store(&self, status: &mut LocationStatus) {
        let unknown = Record::new(Timestamp::UNIX_EPOCH);
        let record = self.records.get(&status.name);
        let record = record.filter(|record| **record != unknown);
        let seconds = record.map(|record| record.return_after_seconds);
        status.state = record.map(|record| word(&record.state));
        status.reason = record.and_then(|record| record.reason.as_ref().map(word));
        status.since = record.map(|record| Time(record.since));
        status.returned = record.and_then(|record| record.returned).map(Time);
        status.return_after_seconds = seconds
            .filter(|seconds| *seconds > 0)
            .and_then(|seconds| i64::try_from(seconds).ok());
    }

    fn turned(&self) -> impl Iterator<Item = (&String, &Record, State)> {
        self.records.iter().filter_map(|(name, record)| {
            let before = self.before.get(name).map(|record| record.state);
            let before = before.unwrap_or_default();
            (record.state != before).then_some((name, record, before))
        })
    }
}

/// What it has said, with how locations stand now, where that is news: written before anything is made of it.
fn news(outlook: &Outlook, observed: &Observed) -> Option<NodePoolStatus> {
    outlook.turned().next()?;
    let mut status = unchanged(observed).status;
    for place in observed.pool.spec.places() {
        let name = place.shown();
        if !status.locations.iter().any(|at| at.name == name) {
            status.locations.push(LocationStatus {
                name: name.to_owned(),
                ..LocationStatus::default()
            });
        }
    }
    status.locations.iter_mut().for_each(|at| outlook.store(at));
    Some(status)
}

/// Says it in the condition, and what turned in Events.
pub(super) fn say(
    plan: &mut Plan,
    observed: &Observed,
    outlook: &Outlook,
    sizing: &Sizing,
    now: Timestamp,
) {
    let type_ = ConditionType::LocationsHealthy;
    if !outlook.is_judged() {
        remove_condition(&mut plan.status.conditions, type_);
        return;
    }
    if !plan.is_settled() {
        plan.before = news(outlook, observed);
    }
    for (name, record, before) in outlook.turned() {
        // One that is silent for some seconds is most often heard again.
        if record.reason == Some(recovery::Reason::SecondLook)
            || before == State::Suspect && record.state == State::Healthy
        {
            continue;
        }
        let (is_warning, reason) = match record.state {
            State::Healthy => (false, Reason::LocationBack),
            State::Recovering => (false, Reason::LocationRecovering),
            State::Out => (true, Reason::LocationOut),
            State::Suspect => (true, Reason::LocationSuspected),
            State::Excluded => (true, Reason::LocationExcluded),
        };
        plan.publish(is_warning, reason, sentence(name, record, outlook));
    }
    set(plan, observed, now, [condition(outlook, sizing)]);
}

fn condition(outlook: &Outlook, sizing: &Sizing) -> Said {
    let type_ = ConditionType::LocationsHealthy;
    let ill = || {
        outlook
            .records
            .iter()
            .filter(|(_, r)| r.state != State::Healthy)
    };
    let rank = |state: State| match state {
        State::Out => 0,
        State::Suspect | State::Excluded => 1,
        State::Recovering => 2,
        State::Healthy => 3,
    };
    let Some((_, worst)) = ill().min_by_key(|(_, record)| rank(record.state)) else {
        let reason = Reason::AllLocationsHealthy;
        return (type_, ConditionStatus::True, reason, String::new());
    };
    let reason = match worst.state {
        State::Out => Reason::LocationOut,
        State::Recovering => Reason::LocationRecovering,
        State::Excluded => Reason::LocationExcluded,
        State::Healthy | State::Suspect => Reason::LocationSuspected,
    };
    let mut all: Vec<_> = ill().map(|(name, r)| sentence(name, r, outlook)).collect();
    if sizing.held > 0 {
        all.push(format!(
            "{} machines more are not made: placement.failover.maxExtra allows {} above replicas",
            sizing.held, outlook.max_extra
        ));
    }
    (type_, ConditionStatus::False, reason, all.join("; "))
}

/// What is the matter, and what is done about it.
fn sentence(name: &str, record: &Record, outlook: &Outlook) -> String {
    use recovery::Reason as R;
    let is_site = outlook.sites.contains(name);
    let why = match record.reason {
        Some(R::ApiOutage) if is_site => {
            "SSH does not reach half of its machines or more, and their nodes are well: nothing new is made there, and nothing is replaced"
        }
        Some(R::ApiOutage) => {
            "the API of its provider does not answer, its machines are well: nothing new is made there, and nothing is replaced"
        }
        Some(R::SecondLook) => {
            "its nodes are silent for some seconds: they are looked at once more"
        }
        Some(R::EndpointUnreachable) => {
            "its nodes are silent, with all that come by the published endpoint: that is looked at first, and nothing is replaced"
        }
        Some(R::NoWitness) => {
            "its nodes are silent, and nobody can tell whose fault that is: nothing is replaced"
        }
        Some(R::FailoverOff) => "its nodes are silent, and placement.failover.mode is Never",
        Some(R::LocationOutage | R::ZoneOutage) if is_site => {
            "all its nodes are silent, while others are heard and nothing says that SSH fails: the network of that site or its way to the published endpoint may be it; others make machines in their place, and they are waited for"
        }
        Some(R::LocationOutage | R::ZoneOutage) => {
            "all its nodes are silent, while the API of its provider answers and others are heard: others make machines in their place, and they are waited for"
        }
        Some(R::ProviderOutage) => {
            "its nodes are silent, and the API of its provider does not answer, while others are heard: others make machines in their place, and they are waited for"
        }
        Some(R::SiteOutage) => {
            "its nodes are silent and SSH does not reach them, while others are heard: others make machines in their place, and they are waited for"
        }
        Some(R::ProvenDead) => {
            "its provider says that its machines have ended: others make machines in their place"
        }
        Some(R::CredentialsRefused) => {
            "its provider refuses the credentials, as the condition Ready of its ProviderConfig says: nothing new is made there, nothing that is there goes because of it, and it counts again as soon as they let in"
        }
        Some(R::TemplateRefused) => {
            "its provider refuses what the location asks for: nothing new is made there"
        }
        Some(R::Returning) => "",
        None => "it counts again, and machines that took its share go one by one",
    };
    match record.state {
        State::Recovering => format!(
            "location {name} is back since {}, and counts once it was well for {} s",
            record.since,
            record.return_after(&outlook.failover).as_secs()
        ),
        state => format!("location {name} is {}: {why}", word(&state)),
    }
}

fn failover(pool: &NodePool) -> Failover {
    let spec = &pool.spec.placement.failover;
    let default = Failover::default();
    Failover {
        mode: match pool.spec.has_failover() {
            true => Mode::Automatic,
            false => Mode::Never,
        },
        after: spec.after.get().unwrap_or(default.after),
        return_after: spec.return_after.get().unwrap_or(default.return_after),
        give_up_after: spec.give_up_after.get().unwrap_or(default.give_up_after),
    }
}

/// What the status says of each location of which it says something.
fn stored(pool: &NodePool) -> BTreeMap<String, Record> {
    let said = pool.status.iter().flat_map(|status| &status.locations);
    // Outages that were judged once are not judged any more.
    let is_judged = |record: &Record| pool.spec.has_failover() || record.state == State::Excluded;
    let record = |at: &LocationStatus| {
        let seconds = at.return_after_seconds;
        Some(Record {
            state: read(at.state.as_ref()?)?,
            reason: at.reason.as_ref().and_then(|text| read(text)),
            since: at.since.as_ref()?.0,
            returned: at.returned.as_ref().map(|time| time.0),
            return_after_seconds: seconds
                .and_then(|n| u64::try_from(n).ok())
                .unwrap_or_default(),
        })
    };
    let all = said.filter_map(|at| Some((at.name.clone(), record(at)?)));
    all.filter(|(_, record)| is_judged(record)).collect()
}

/// As crate `placement` stores it.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_value(text.into()).ok()
}

/// The pool's own locations by their names, and those of other pools as `pool/location`: these are witnesses.
fn observation(
    observed: &Observed,
    template: &Template,
    failover: &Failover,
    record: &impl Fn(&str) -> Record,
) -> Observation {
    let mut all: BTreeMap<String, Signals> = BTreeMap::new();
    let signals = |name: &str, provider: &Provider, api: Api| Signals {
        name: name.to_owned(),
        endpoint: match provider.kubevirt {
            Some(_) => INSIDE,
            None => PUBLISHED,
        }
        .to_owned(),
        api,
        zones: [String::new()].into(),
        machines: Vec::new(),
    };
    for place in observed.pool.spec.places() {
        let name = place.shown();
        // What nobody knows is as it was.
        let was_mute = |reason: recovery::Reason| {
            use recovery::Reason as R;
            matches!(reason, R::ApiOutage | R::ProviderOutage | R::SiteOutage)
        };
        let answers = observed.answers.get(name).copied();
        let answers = answers.unwrap_or_else(|| !record(name).reason.is_some_and(was_mute));
        let api = match (answers, &place.provider.static_) {
            (true, Some(_)) => Api::SshAnswers,
            (false, Some(_)) => Api::SshFails,
            (true, None) => Api::Answers,
            (false, None) => Api::Errors,
        };
        all.insert(name.to_owned(), signals(name, place.provider, api));
    }
    let uid = observed.cluster.as_ref().there();
    let uid = uid.map(|c| c.identity_uid().to_owned());
    let others = observed.others.iter().map(AsRef::as_ref);
    let machines = observed.owned().chain(others);
    let is_member = |m: &&Machine| {
        let has_node = m.status.as_ref().is_some_and(|s| s.node_name.is_some());
        Some(&m.spec.cluster_uid) == uid.as_ref() && has_node && !is_going(m)
    };
    for machine in machines.filter(is_member) {
        let own = template.location_of(machine);
        let own = own.filter(|_| machine.spec.pool_name == observed.pool.name_any());
        let location = || machine.spec.location.as_deref().unwrap_or_default();
        let name = match own {
            Some(at) => at.shown.clone(),
            None => format!("{}/{}", machine.spec.pool_name, location()),
        };
        let entry = all.entry(name.clone());
        let at = entry.or_insert_with(|| signals(&name, &machine.spec.provider, Api::Answers));
        let node = observed.heard.nodes.get(&machine.name_any());
        let phase = machine.status.as_ref().and_then(|s| s.phase);
        at.machines.push(verdict::Machine {
            zone: String::new(),
            unchanged_for: node.map(|node| node.unchanged_for),
            is_proven_dead: phase == Some(MachinePhase::Failed),
        });
    }
    Observation {
        after: failover.after,
        is_trusted: observed.heard.is_trusted,
        locations: all.into_values().collect(),
        endpoints: BTreeMap::new(),
    }
}

/// Nodes that are known to say nothing.
fn silent(observed: &Observed, after: Duration) -> BTreeSet<String> {
    let nodes = observed.heard.nodes.iter();
    let silent = nodes.filter(|(_, node)| observed.heard.is_trusted && node.is_silent(after));
    silent.map(|(name, _)| name.clone()).collect()
}

fn there<'a>(observed: &'a Observed, template: &Template, name: &str) -> Vec<&'a Machine> {
    let is_there = |m: &&Machine| {
        let at = template.location_of(m);
        at.is_some_and(|at| at.shown == *name)
    };
    observed.owned().filter(is_there).collect()
}

fn is_made_since(machine: &Machine, since: Timestamp) -> bool {
    let made = machine.metadata.creation_timestamp.as_ref();
    made.is_some_and(|made| made.0 >= since)
}

/// Whether it was made in the place of one that was lost with its location.
pub(super) fn is_replacement(machine: &Machine) -> bool {
    machine
        .annotations()
        .contains_key(names::ANNOTATION_FOR_LOST)
}
