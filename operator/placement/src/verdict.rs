//! What is wrong with a location: two signals, its API and its machines, and a witness that the silence is
//! not ours.
//!
//! Invariant: silence alone is never an outage. Where nobody listened, where everybody is silent, and where
//! all that come by the same endpoint are silent together, the finding is that nothing is known.
//! Source: the table of clouds.md 11.3.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::place::Place;
use crate::window::SECOND_LOOK;

/// Everything that a verdict depends on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Observation {
    /// `spec.placement.failover.after`: silent is whose Lease did not change for so long, and at a second
    /// look 5 s later.
    pub after: Duration,
    /// Whether silence can be believed now ([`crate::window::Window::is_trusted`]).
    pub is_trusted: bool,
    /// Every location with nodes of this tenant cluster, those of other pools too: they are witnesses.
    pub locations: Vec<Signals>,
    /// What is known of each published endpoint from outside, by its name; one that is missing is no witness.
    pub endpoints: BTreeMap<String, EndpointProbe>,
}

/// What a probe from outside says of an endpoint.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EndpointProbe {
    /// It answers, asked from outside of the management cluster's network; a probe that comes back inside
    /// proves only the load balancer.
    pub is_fine: bool,
    /// Agents of konnectivity in locations that are not silent are connected.
    pub has_agents: bool,
}

/// What one location says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Signals {
    /// Its name.
    pub name: String,
    /// The published endpoint by which its nodes reach the control plane.
    pub endpoint: String,
    /// Its first signal.
    pub api: Api,
    /// Its zones, those without machines too; one with an empty name where the provider has none.
    pub zones: BTreeSet<String>,
    /// Machines whose nodes have joined.
    pub machines: Vec<Machine>,
}

/// What the API of a location's provider does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Api {
    /// Its circuit for reading is closed.
    Answers,
    /// Its circuit for reading is not closed.
    Errors,
    /// Machines reached by SSH: more than half answer by one of their ways, or fail in no way that is known
    /// ([`crate::sites`]).
    SshAnswers,
    /// Machines reached by SSH: two or more, and at least half, answer by no way.
    SshFails,
}

impl Api {
    /// Whether it says that nothing is wrong.
    #[must_use]
    pub fn is_fine(self) -> bool {
        matches!(self, Self::Answers | Self::SshAnswers)
    }
}

/// One machine that has a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Machine {
    /// Its zone; empty where there are none.
    pub zone: String,
    /// Since a change of its Lease was last seen, by the caller's monotonic clock; counted from when the
    /// watch began where none was seen since. None while that is not known.
    pub unchanged_for: Option<Duration>,
    /// The provider says that it is stopped, terminated or impaired: that is a proof, and no silence.
    pub is_proven_dead: bool,
}

/// What is found of a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Finding {
    /// Nothing is wrong.
    Fine,
    /// Some machines are lost: the pool's health replaces them as ever.
    Loss {
        /// How many are silent.
        silent: u32,
    },
    /// The API fails while machines are well: replace nothing, delete nothing, make nothing there.
    ApiOutage,
    /// It may be out, and that is not sure (yet): make nothing there.
    Suspected(Suspicion),
    /// It is out.
    Outage(Outage),
    /// Nothing is known now; whatever was true stays true.
    Unknown(Unknown),
}

/// Why a place may be out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Suspicion {
    /// Silent at the first look; the second comes within 5 s.
    SecondLook,
    /// All that come by its endpoint are silent together, so the endpoint or our uplink may be it.
    EndpointUnreachable,
    /// Nobody who comes by its endpoint is there as a witness, nor a probe.
    NoWitness,
}

/// What is out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outage {
    /// All machines of the location, while its API answers.
    Location,
    /// Half or more of the zone's, while the API answers.
    Zone,
    /// The API and machines.
    Provider,
    /// Machines reached by SSH, and SSH.
    Site,
    /// The provider's API proves that the machines are dead, whatever the endpoint does.
    ProvenDead,
}

/// Why nothing is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unknown {
    /// Nobody listened for a whole window.
    NotListening,
    /// Every node of the tenant cluster is silent: that is our side.
    AllSilent,
}

/// What is found of the whole.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Verdict {
    /// Of each place.
    pub places: BTreeMap<Place, Finding>,
    /// Endpoints that seem not to be reachable, with the locations that are silent because of that: the
    /// condition `EndpointUnreachable`.
    pub unreachable: BTreeMap<String, Vec<String>>,
    /// Every node of the tenant cluster is silent: nothing is done.
    pub is_all_silent: bool,
}

/// How a machine sounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sound {
    Fresh,
    /// Silent at the first look.
    Wavering,
    Silent,
    Unknown,
}

/// Machines of a place or location, by their sound.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    all: u32,
    fresh: u32,
    wavering: u32,
    silent: u32,
    dead: u32,
}

impl Tally {
    fn of<'a>(machines: impl Iterator<Item = &'a Machine>, observation: &Observation) -> Self {
        let mut tally = Self::default();
        for machine in machines {
            tally.all += 1;
            match sound(machine, observation) {
                Sound::Fresh => tally.fresh += 1,
                Sound::Wavering => tally.wavering += 1,
                Sound::Silent => tally.silent += 1,
                Sound::Unknown => {}
            }
            tally.dead += u32::from(machine.is_proven_dead);
        }
        tally
    }

    /// Two or more, and at least half.
    fn is_half(self, count: u32) -> bool {
        count >= 2 && count >= self.all.div_ceil(2)
    }

    /// Two or more, and all; who is not known is not silent.
    fn is_all(self, count: u32) -> bool {
        count >= 2 && count == self.all
    }
}

/// Judges every place of every location.
#[must_use]
pub fn judge(observation: &Observation) -> Verdict {
    let tallies: Vec<_> = observation
        .locations
        .iter()
        .map(|signals| Tally::of(signals.machines.iter(), observation))
        .collect();
    let total = |of: fn(&Tally) -> u32| tallies.iter().map(of).sum::<u32>();
    // Two or more: one that is alone may have died.
    let is_all_silent = total(|t| t.fresh) == 0 && total(|t| t.silent + t.wavering) > 1;
    let mut verdict = Verdict::default();
    let unknown = match (observation.is_trusted, is_all_silent) {
        (false, _) => Some(Unknown::NotListening),
        (true, true) => Some(Unknown::AllSilent),
        (true, false) => None,
    };
    // Whoever hears nobody for long is not trusted, and so it is said all the same.
    verdict.is_all_silent = is_all_silent;
    for (signals, tally) in observation.locations.iter().zip(&tallies) {
        let witness = witness(observation, &tallies, signals);
        for zone in &signals.zones {
            let of_zone = signals.machines.iter().filter(|m| m.zone == *zone);
            let of_zone = Tally::of(of_zone, observation);
            let finding = match unknown {
                Some(why) => Finding::Unknown(why),
                None => find(signals, zone, *tally, of_zone, witness),
            };
            if finding == Finding::Suspected(Suspicion::EndpointUnreachable) {
                let silent = verdict
                    .unreachable
                    .entry(signals.endpoint.clone())
                    .or_default();
                if !silent.contains(&signals.name) {
                    silent.push(signals.name.clone());
                }
            }
            let place = Place::new(signals.name.clone(), zone.clone());
            verdict.places.insert(place, finding);
        }
    }
    verdict
}

fn sound(machine: &Machine, observation: &Observation) -> Sound {
    match machine.unchanged_for {
        None => Sound::Unknown,
        Some(quiet) if quiet >= observation.after + SECOND_LOOK => Sound::Silent,
        Some(quiet) if quiet >= observation.after => Sound::Wavering,
        Some(_) => Sound::Fresh,
    }
}

/// Whether somebody can say that the silence of a location is its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Witness {
    /// Another location by the same endpoint is fresh, or the probe and agents are.
    There,
    /// There are others by the same endpoint, or none at all but it, and all are silent.
    EndpointSilent,
    /// Others by the same endpoint are neither fresh nor silent.
    Unclear,
}

fn witness(observation: &Observation, tallies: &[Tally], signals: &Signals) -> Witness {
    let probe = observation.endpoints.get(&signals.endpoint);
    if probe.is_some_and(|probe| probe.is_fine && probe.has_agents) {
        return Witness::There;
    }
    let others = observation.locations.iter().zip(tallies);
    let others: Vec<_> = others
        .filter(|(other, tally)| {
            other.name != signals.name && other.endpoint == signals.endpoint && tally.all > 0
        })
        .map(|(_, tally)| *tally)
        .collect();
    // Half of its nodes: one that is fresh by chance on an endpoint that comes and goes is no witness.
    let is_fresh = |tally: &Tally| tally.fresh > 0 && tally.fresh >= tally.all.div_ceil(2);
    if others.iter().any(is_fresh) {
        Witness::There
    } else if others.iter().all(|tally| tally.fresh == 0) {
        Witness::EndpointSilent
    } else {
        Witness::Unclear
    }
}

/// One row of the table. `all` are the machines of the location, `zone` those of the zone.
fn find(signals: &Signals, name: &str, all: Tally, zone: Tally, witness: Witness) -> Finding {
    let fine = signals.api.is_fine();
    // A zone that the provider does not name is the location itself: half of it is an ordinary loss.
    let lost = |count: fn(Tally) -> u32| match fine {
        true if all.is_all(count(all)) => Some(Outage::Location),
        true if !name.is_empty() && zone.is_half(count(zone)) => Some(Outage::Zone),
        true => None,
        false if all.is_half(count(all)) => Some(match signals.api {
            Api::SshFails => Outage::Site,
            _ => Outage::Provider,
        }),
        false => None,
    };
    if let Some(outage) = lost(|tally| tally.silent) {
        return match witness {
            Witness::There => Finding::Outage(outage),
            // An API that proves its machines dead needs no other witness.
            _ if lost(|tally| tally.dead).is_some() => Finding::Outage(Outage::ProvenDead),
            // Half of a location speaks by the endpoint: it is there.
            Witness::EndpointSilent if all.fresh == 0 => {
                Finding::Suspected(Suspicion::EndpointUnreachable)
            }
            Witness::EndpointSilent | Witness::Unclear => Finding::Suspected(Suspicion::NoWitness),
        };
    }
    if lost(|tally| tally.silent + tally.wavering).is_some() {
        return Finding::Suspected(Suspicion::SecondLook);
    }
    if !fine {
        return Finding::ApiOutage;
    }
    match zone.silent.max(zone.dead) {
        0 => Finding::Fine,
        silent => Finding::Loss { silent },
    }
}

#[cfg(test)]
mod tests;
