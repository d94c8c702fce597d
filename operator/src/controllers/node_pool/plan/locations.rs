//! What the status says of each location.
//!
//! Invariant: a function of the pool and its Machines alone, so that nothing is written while nothing happens;
//! every location of the spec is there, in the spec's order, also while it has no machine.

use api::Machine;
use api::node_pool::LocationStatus;
use api::node_pool::locations::LocationRef;

use super::members;
use super::status::Seen;
use crate::controllers::node_pool::observed::{Observed, is_going};

pub(super) fn status(observed: &Observed, seen: &Seen<'_>) -> Vec<LocationStatus> {
    let spec = &observed.pool.spec;
    let status = |place: LocationRef<'_>| {
        let name = place.shown();
        let here = |m: &&Machine| {
            let location = seen.template.location_of(m);
            !is_going(m) && location.is_some_and(|at| at.shown == name)
        };
        let machines: Vec<_> = seen.machines.iter().copied().filter(here).collect();
        let desired = seen.targets.locations.get(name).copied();
        LocationStatus {
            name: name.to_owned(),
            desired: i32::try_from(desired.unwrap_or_default()).unwrap_or(i32::MAX),
            machines: number(machines.len()),
            ready: number(machines.iter().filter(|m| members::is_ready(m)).count()),
            template: provider_kubevirt::template::node(spec, place.provider),
        }
    };
    spec.places().into_iter().map(status).collect()
}

/// Why machines have no place, and what of each location.
pub(super) fn missing(replicas: i32, seen: &Seen<'_>) -> String {
    let why = |at: &super::template::Location| match (at.weight, at.max) {
        (0, _) => format!("{}: its weight is 0", at.shown),
        (_, Some(max)) => format!("{}: its max is {max}", at.shown),
        (_, None) => format!("{}: it takes no more", at.shown),
    };
    let all: Vec<_> = seen.template.locations.iter().map(why).collect();
    format!(
        "{} of {replicas} machines have no place ({}); raise max in spec.locations, or lower replicas",
        seen.targets.missing,
        all.join("; ")
    )
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
