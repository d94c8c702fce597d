//! What the status says of each location.
//!
//! Invariant: a function of the pool, its Machines and what providers know alone, so that nothing is written while nothing
//! happens; every location of the spec is there, in the spec's order, also while it has no machine, and what a node there
//! offers also while the pool is refused. What a provider does not know (any more) of the same pool stays said.

use std::collections::BTreeMap;

use api::Machine;
use api::node_pool::LocationStatus;
use api::node_pool::locations::LocationRef;
use placement::targets::Targets;

use super::outage::Outlook;
use super::template::{Location, Template};
use super::{members, template};
use crate::controllers::node_pool::observed::{Observed, is_going};

/// Of all locations; without targets, because nothing is decided, as many are wanted as was said before.
pub(super) fn status(
    observed: &Observed,
    machines: &[&Machine],
    decided: Option<(&Template, &Targets, &Outlook)>,
) -> Vec<LocationStatus> {
    let targets = decided.map(|(_, targets, _)| targets);
    let pool = &observed.pool;
    let locations = template::locations(&pool.spec);
    let mut found: BTreeMap<&str, (i32, i32)> = BTreeMap::new();
    let machines_of: Vec<_> = machines.iter().filter(|m| !is_going(m)).collect();
    for machine in &machines_of {
        if let Some(at) = template::location_of(&locations, machine) {
            let (there, ready) = found.entry(&at.shown).or_default();
            *there += 1;
            *ready += i32::from(members::is_ready(machine));
        }
    }
    let said = pool.status.iter().flat_map(|status| &status.locations);
    let said: BTreeMap<_, _> = said.map(|at| (at.name.as_str(), at)).collect();
    let generation = pool.status.as_ref().and_then(|s| s.observed_generation);
    let is_same = generation.is_some() && generation == pool.metadata.generation;
    let offered = |place: &LocationRef<'_>| {
        let name = place.shown();
        let known = || observed.templates.get(name).cloned();
        let before = || said.get(name).filter(|_| is_same)?.template.clone();
        let of_pool = provider_kubevirt::template::node(&pool.spec, place.provider);
        of_pool.or_else(known).or_else(before)
    };
    let status = |place: LocationRef<'_>| {
        let name = place.shown();
        let (machines, ready) = found.get(name).copied().unwrap_or_default();
        let desired = match targets {
            Some(targets) => {
                let target = targets.locations.get(name).copied().unwrap_or_default();
                i32::try_from(target).unwrap_or(i32::MAX)
            }
            None => said.get(name).map_or(0, |at| at.desired),
        };
        let before = || said.get(name).map(|at| (*at).clone()).unwrap_or_default();
        let mut status = LocationStatus {
            name: name.to_owned(),
            desired,
            machines,
            ready,
            template: offered(&place),
            // As it was said, unless it is judged now.
            ..before()
        };
        if let Some((template, _, outlook)) = decided {
            outlook.store(&mut status);
            let silent = machines_of.iter().filter(|m| {
                let at = template.location_of(m);
                at.is_some_and(|at| at.shown == name) && outlook.is_stranded(template, m)
            });
            status.silent = i32::try_from(silent.count()).unwrap_or(i32::MAX);
        }
        status
    };
    pool.spec.places().into_iter().map(status).collect()
}

/// The same in words for people; none where there is one location alone.
pub(super) fn spread(locations: &[LocationStatus]) -> Option<String> {
    if locations.len() < 2 {
        return None;
    }
    let words = |at: &LocationStatus| {
        let state = at.state.as_deref().filter(|state| *state != "Healthy");
        let state = state.map(|state| format!(" {state}")).unwrap_or_default();
        let silent = match at.silent {
            0 => String::new(),
            silent => format!(" ({silent} silent)"),
        };
        format!("{} {}/{}{state}{silent}", at.name, at.ready, at.desired)
    };
    let all: Vec<_> = locations.iter().map(words).collect();
    Some(all.join(", "))
}

/// Why machines have no place, and what of each location.
pub(super) fn missing(replicas: i32, template: &Template, missing: i32) -> String {
    let why = |at: &Location| match (at.weight, at.max) {
        (0, _) => format!("{}: its weight is 0", at.shown),
        (_, Some(max)) => format!("{}: its max is {max}", at.shown),
        (_, None) => format!("{}: it takes no more", at.shown),
    };
    let all: Vec<_> = template.locations.iter().map(why).collect();
    format!(
        "{missing} of {replicas} machines have no place ({}); raise max in spec.locations, or lower replicas",
        all.join("; ")
    )
}
