//! Who of the fleet may begin now, and what the status of its FleetPolicy says.
//!
//! Waves are computed each time from labels, age and number, and never remembered. Two facts are kept in the status,
//! because they cannot be seen again: since when a wave is whole, and that a failure halted the fleet.

use std::collections::BTreeSet;

use api::fleet_policy::{FleetPolicySpec, Halted, REST, Wave, WaveStatus};
use api::int_or_percent::Round;
use api::{
    ConditionStatus, ConditionType, Duration, FleetPolicy, FleetPolicyStatus, Reason, set_condition,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tenant_cp::windows::{self, Read};

use super::tenant::{Standing, Tenant};
use crate::rollouts::queue::Gate;

mod told;

/// What is seen.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The policy that is followed; none where there is none.
    pub policy: Option<&'a FleetPolicy>,
    /// All tenant clusters.
    pub tenants: &'a [Tenant],
    /// UIDs of those to which this process has given a place.
    pub running: &'a BTreeSet<String>,
    /// Hash of the operator's templates.
    pub templates: &'a str,
    /// Whether other processes decide the same of other tenant clusters at the same time.
    pub is_shared: bool,
    /// Now.
    pub now: Timestamp,
}

/// What is to be so.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Who may begin.
    pub gate: Gate,
    /// The status of the policy; none where there is none.
    pub status: Option<FleetPolicyStatus>,
    /// When to look again, unless something happens.
    pub again: Option<Timestamp>,
}

/// Why nobody begins, or that some do.
enum Now {
    /// Nobody waits, but so many that their users hold back, until the first of these moments.
    Rest(Option<(usize, Timestamp)>),
    Unusable(String),
    Halted(Halted),
    Held,
    Closed,
    WaveHeld {
        wave: String,
        until: Timestamp,
    },
    Soaks {
        wave: String,
        until: Timestamp,
    },
    Rolls {
        wave: String,
    },
    /// Whoever waits has its own windows, and none of them is open.
    Awaits {
        wave: String,
        tenant: String,
        opens: Timestamp,
    },
}

/// One wave, and how far those of it are.
struct Members<'a> {
    name: &'a str,
    soak: SignedDuration,
    /// How many failures it stands.
    max_failures: i32,
    /// Until when nobody of it begins, or what is wrong with that.
    held_until: Result<Option<Timestamp>, String>,
    all: Vec<(&'a Tenant, Standing)>,
}

/// Decides.
#[must_use]
pub fn plan(observed: &Observed) -> Plan {
    let Some(policy) = observed.policy else {
        return without(observed);
    };
    let (spec, now) = (&policy.spec, observed.now);
    let before = policy.status.as_ref();
    // What was said of other templates says nothing of these.
    let before = before.filter(|status| status.templates.as_deref() == Some(observed.templates));
    let read = windows::read(&spec.windows);
    // While they cannot be read nobody begins.
    let own = read.as_ref().cloned().unwrap_or_default();
    let waves = waves(spec, &own, observed);
    let whole_since: Vec<_> = waves
        .iter()
        .map(|wave| wave.whole_since(before, now))
        .collect();
    let halted = halted(spec, &waves, before, observed);
    let opening = read.map(|read| read.at(now));
    let waits = waves.iter().any(Members::waits);
    // The first wave that is not whole, or is to be looked at for a while.
    let current = waves.iter().zip(&whole_since).find(|(wave, since)| {
        let until = since.and_then(|since| since.checked_add(wave.soak).ok());
        !wave.is_whole() || (wave.is_done_by_any() && until.is_none_or(|until| until > now))
    });
    let rolls = waves
        .iter()
        .any(|wave| wave.count(|standing| matches!(standing, Standing::InFlight(_))) > 0);
    let (mut admitted, mut again) = (BTreeSet::new(), Vec::new());
    let state = match (&opening, halted, current) {
        (Err(faults), ..) => Now::Unusable(windows::told("spec.windows", faults).join("; ")),
        _ if let Some(fault) = waves.iter().find_map(|wave| wave.held_until.as_ref().err()) => {
            Now::Unusable(format!("spec.waves: {fault}"))
        }
        (_, Some(halted), _) => Now::Halted(halted),
        _ if !waits => Now::Rest(held_back(&waves)),
        _ if spec.held => Now::Held,
        (Ok(windows), _, Some((wave, since))) => {
            again.extend(windows.next);
            let soaked = since.and_then(|since| since.checked_add(wave.soak).ok());
            let held = wave.held_until.as_ref().ok().copied().flatten();
            match (windows.open, wave.is_whole(), soaked) {
                (_, false, _) if let Some(until) = held => {
                    again.push(until);
                    let wave = wave.name.to_owned();
                    Now::WaveHeld { wave, until }
                }
                (false, ..) => Now::Closed,
                (true, true, Some(until)) => {
                    again.push(until);
                    let wave = wave.name.to_owned();
                    Now::Soaks { wave, until }
                }
                (true, ..) => {
                    admitted.extend(wave.may_begin(spec, &waves, observed.is_shared));
                    let closed = wave.first_closed();
                    let is_open = wave.waiting().next().is_some();
                    let wave = wave.name.to_owned();
                    match closed.filter(|_| !is_open && !rolls) {
                        Some((tenant, opens)) => Now::Awaits {
                            wave,
                            tenant,
                            opens,
                        },
                        None => Now::Rolls { wave },
                    }
                }
            }
        }
        // Whoever waits is of a wave that is not whole.
        (Ok(_), _, None) => Now::Rest(None),
    };
    let standings = || waves.iter().flat_map(|wave| &wave.all);
    again.extend(held_back(&waves).map(|(_, until)| until));
    // Whoever waits does so no more once its own window closes.
    again.extend(standings().filter_map(|(tenant, standing)| {
        let own = tenant
            .windows
            .as_ref()
            .filter(|_| *standing == Standing::Waiting);
        own?.at(now).next
    }));
    again.extend(standings().filter_map(|(_, standing)| match standing {
        Standing::Closed(opens) => Some(*opens),
        // Of which nobody knows: what is heard of it wakes this.
        Standing::InFlight(until) => Some(*until).filter(|until| *until < Timestamp::MAX),
        _ => None,
    }));
    let begun = standings().filter(|(tenant, standing)| match standing {
        Standing::InFlight(_) => tenant.is_begun(observed.templates),
        Standing::Failed(_) => !tenant.is_current(observed.templates),
        Standing::Done
        | Standing::Waiting
        | Standing::Closed(_)
        | Standing::LeftOut
        | Standing::HeldBack(_) => false,
    });
    let most = usize::try_from(spec.max_concurrent).unwrap_or(1).max(1);
    Plan {
        gate: Gate {
            by_policy: true,
            admitted: Some(admitted),
            begun: begun.map(|(tenant, _)| tenant.uid.clone()).collect(),
            most: Some(most),
        },
        status: Some(status(policy, &waves, &whole_since, state, observed)),
        again: again.into_iter().filter(|again| *again > now).min(),
    }
}

/// How many their users hold back, and until when the first of them.
fn held_back(waves: &[Members]) -> Option<(usize, Timestamp)> {
    let all = waves.iter().flat_map(|wave| &wave.all);
    let held = all.filter_map(|(_, standing)| match standing {
        Standing::HeldBack(until) => Some(*until),
        _ => None,
    });
    let held: Vec<_> = held.collect();
    Some((held.len(), held.iter().min().copied()?))
}

/// Without a policy all may begin, but those that one held back.
fn without(observed: &Observed) -> Plan {
    let tenants = observed.tenants.iter();
    let is_any_held = tenants.clone().any(|tenant| tenant.rollout.held);
    let others = tenants.filter(|tenant| !tenant.rollout.held);
    let others = || others.map(|tenant| tenant.uid.clone()).collect();
    Plan {
        gate: Gate {
            admitted: is_any_held.then(others),
            ..Gate::default()
        },
        status: None,
        again: None,
    }
}

/// The waves in their order, and whoever is of none of them at last.
fn waves<'a>(
    spec: &'a FleetPolicySpec,
    windows: &Read,
    observed: &Observed<'a>,
) -> Vec<Members<'a>> {
    let mut tenants: Vec<_> = observed.tenants.iter().collect();
    tenants.sort_by_key(|tenant| (tenant.created, &tenant.uid));
    let total = i32::try_from(tenants.len()).unwrap_or(i32::MAX);
    let deadline = signed(&spec.deadline);
    let named = spec.waves.iter().map(|wave| {
        let size = wave.size.as_ref();
        let size = size.map(|size| size.of(total, Round::Up).unwrap_or(0));
        let size = size.map(|size| usize::try_from(size).unwrap_or(0));
        let members = Members {
            name: &wave.name,
            soak: signed(&wave.soak),
            max_failures: wave.max_failures,
            held_until: wave.holds(observed.now),
            all: Vec::new(),
        };
        (Some(wave), size, members)
    });
    let rest = Members {
        name: REST,
        soak: SignedDuration::ZERO,
        max_failures: 0,
        held_until: Ok(None),
        all: Vec::new(),
    };
    let mut waves: Vec<_> = named.chain([(None, None, rest)]).collect();
    for tenant in tenants {
        let runs = observed.running.contains(&tenant.uid);
        let standing = tenant.standing(observed.templates, runs, deadline, windows, observed.now);
        let taken = waves.iter_mut().find(|(wave, size, members)| {
            wave.is_none_or(|wave| selects(wave, tenant))
                && size.is_none_or(|size| members.all.len() < size)
        });
        if let Some((_, _, members)) = taken {
            members.all.push((tenant, standing));
        }
    }
    let kept = waves.into_iter().map(|(_, _, members)| members);
    kept.filter(|wave| wave.name != REST || !wave.all.is_empty())
        .collect()
}

fn selects(wave: &Wave, tenant: &Tenant) -> bool {
    let selector = wave.selector.as_ref();
    let wanted = selector.map(|selector| &selector.match_labels);
    wanted
        .into_iter()
        .flatten()
        .all(|(key, value)| tenant.labels.get(key) == Some(value))
}

fn signed(duration: &Duration) -> SignedDuration {
    // The longest that there is, where it cannot be read: nobody fails, and no wave follows, by mistake.
    let read = duration
        .get()
        .and_then(|d| SignedDuration::try_from(d).ok());
    read.unwrap_or(SignedDuration::MAX)
}

impl<'a> Members<'a> {
    fn count(&self, is: impl Fn(&Standing) -> bool) -> i32 {
        let count = self.all.iter().filter(|(_, standing)| is(standing)).count();
        i32::try_from(count).unwrap_or(i32::MAX)
    }

    fn waiting(&self) -> impl Iterator<Item = &'a Tenant> {
        let waiting = self.all.iter();
        let waiting = waiting.filter(|(_, standing)| *standing == Standing::Waiting);
        waiting.map(|(tenant, _)| *tenant)
    }

    /// UIDs of those that may begin: of those that wait the ones of the highest priority. Where several processes decide,
    /// these are so many as may still be under way, the first in an order that is the same for all: whoever sees less done
    /// than another process admits none that the other does not, so all of them together stay within the budget.
    fn may_begin(&self, spec: &FleetPolicySpec, waves: &[Self], is_shared: bool) -> Vec<String> {
        let most = usize::try_from(spec.max_concurrent).unwrap_or(1).max(1);
        let busy = waves
            .iter()
            .map(|wave| wave.count(|s| matches!(s, Standing::InFlight(_) | Standing::Failed(_))));
        let busy = usize::try_from(busy.sum::<i32>()).unwrap_or(usize::MAX);
        let places = match is_shared {
            true => most.saturating_sub(busy),
            false => usize::MAX,
        };
        let first = self.waiting().map(|tenant| tenant.priority).max();
        let waiting = self.waiting();
        let waiting = waiting.filter(|tenant| Some(tenant.priority) == first);
        let waiting = waiting.map(|tenant| tenant.uid.clone());
        waiting.take(places).collect()
    }

    fn waits(&self) -> bool {
        self.waiting().next().is_some() || self.first_closed().is_some()
    }

    /// Of those whose own windows are closed the one whose opens first, and when.
    fn first_closed(&self) -> Option<(String, Timestamp)> {
        let closed = self
            .all
            .iter()
            .filter_map(|(tenant, standing)| match standing {
                Standing::Closed(opens) => Some((*opens, &tenant.name)),
                _ => None,
            });
        closed.min().map(|(opens, name)| (name.clone(), opens))
    }

    /// Whether nobody of it is waited for.
    fn is_whole(&self) -> bool {
        let stands = self.stands_its_failures();
        let mut all = self.all.iter();
        all.all(|(_, standing)| match standing {
            Standing::Done | Standing::LeftOut | Standing::HeldBack(_) => true,
            Standing::Failed(_) => stands,
            Standing::InFlight(_) | Standing::Waiting | Standing::Closed(_) => false,
        })
    }

    /// Whether no more failed than may.
    fn stands_its_failures(&self) -> bool {
        self.count(|standing| matches!(standing, Standing::Failed(_))) <= self.max_failures
    }

    /// Whether there is anybody to look at once it is whole.
    fn is_done_by_any(&self) -> bool {
        self.count(|standing| *standing == Standing::Done) > 0
    }

    /// The failure that is one too many.
    fn failed(&self) -> Option<(&'a Tenant, &str)> {
        if self.stands_its_failures() {
            return None;
        }
        self.all
            .iter()
            .find_map(|(tenant, standing)| match standing {
                Standing::Failed(why) => Some((*tenant, why.as_str())),
                _ => None,
            })
    }

    /// Since when it is whole; one of which that is not known is so since now.
    fn whole_since(&self, before: Option<&FleetPolicyStatus>, now: Timestamp) -> Option<Timestamp> {
        let known = before.and_then(|status| status.waves.iter().find(|w| w.name == self.name));
        let known = known.and_then(|wave| wave.whole_since.as_ref()?.parse().ok());
        self.is_whole().then(|| known.unwrap_or(now))
    }
}

/// The failure that halts the fleet: one that is seen, or one that was seen before with these templates, until somebody
/// says that it is mended.
fn halted(
    spec: &FleetPolicySpec,
    waves: &[Members],
    before: Option<&FleetPolicyStatus>,
    observed: &Observed,
) -> Option<Halted> {
    let known = before.and_then(|status| status.halted.clone());
    let known = known.filter(|halted| halted.retry == spec.retry);
    known.or_else(|| {
        let (tenant, why) = waves.iter().find_map(Members::failed)?;
        Some(Halted {
            templates: observed.templates.to_owned(),
            retry: spec.retry,
            tenant_cluster: tenant.name.clone(),
            message: why.to_owned(),
            since: observed.now.to_string(),
        })
    })
}

fn status(
    policy: &FleetPolicy,
    waves: &[Members],
    whole_since: &[Option<Timestamp>],
    state: Now,
    observed: &Observed,
) -> FleetPolicyStatus {
    let mut status = policy.status.clone().unwrap_or_default();
    status.observed_generation = policy.metadata.generation;
    status.templates = Some(observed.templates.to_owned());
    let told = waves
        .iter()
        .zip(whole_since)
        .map(|(wave, since)| WaveStatus {
            name: wave.name.to_owned(),
            tenant_clusters: wave.count(|_| true),
            done: wave.count(|standing| *standing == Standing::Done),
            in_flight: wave.count(|standing| matches!(standing, Standing::InFlight(_))),
            waiting: wave
                .count(|standing| matches!(standing, Standing::Waiting | Standing::Closed(_))),
            failed: wave.count(|standing| matches!(standing, Standing::Failed(_))),
            left_out: wave.count(|standing| *standing == Standing::LeftOut),
            held: wave.count(|standing| matches!(standing, Standing::HeldBack(_))),
            whole_since: since.map(|since| since.to_string()),
        });
    status.waves = told.collect();
    status.halted = match &state {
        Now::Halted(halted) => Some(halted.clone()),
        // It is kept: who mends the windows does not mend what failed.
        Now::Unusable(_) => status.halted.take(),
        _ => None,
    };
    let in_flight = status.waves.iter().any(|wave| wave.in_flight > 0);
    let (progressing, degraded) = state.told(in_flight);
    let generation = policy.metadata.generation;
    for (type_, (value, reason, message)) in [
        (ConditionType::Progressing, progressing),
        (ConditionType::Degraded, degraded),
    ] {
        let list = &mut status.conditions;
        let time = Time(observed.now);
        set_condition(list, type_, value, reason, &message, generation, time);
    }
    status
}

/// The status of a policy that is not followed, because there is an older one.
#[must_use]
pub fn ignored(policy: &FleetPolicy, followed: &str, now: Timestamp) -> FleetPolicyStatus {
    let mut status = FleetPolicyStatus {
        observed_generation: policy.metadata.generation,
        conditions: policy.status.clone().unwrap_or_default().conditions,
        ..FleetPolicyStatus::default()
    };
    let message = format!(
        "FleetPolicy {followed} is followed, because its spec.priority is higher, or it is older: delete one of them"
    );
    for (type_, value) in [
        (ConditionType::Progressing, ConditionStatus::False),
        (ConditionType::Degraded, ConditionStatus::True),
    ] {
        let (list, generation) = (&mut status.conditions, policy.metadata.generation);
        let reason = Reason::FleetPolicyIgnored;
        set_condition(list, type_, value, reason, &message, generation, Time(now));
    }
    status
}
