//! Sizing decisions: what a request of the client makes of a pool's size, and who goes.
//!
//! Invariant: min ≤ size ≤ max after every change that is decided here (but never two steps at once:
//! a pool whose bounds were just edited is first brought within them by [`bring_within`]), and
//! nobody is named whom the client did not name.

use std::collections::BTreeSet;

use proto::autoscaler::ExternalGrpcNode;

use super::{Group, machine_of};
use crate::cache::state::State;
use crate::error::Refusal;

/// What is written to a NodePool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// spec.replicas
    pub replicas: i32,
    /// Every name that the annotation is to hold; those that are gone are left out.
    pub named: BTreeSet<String>,
}

/// What is decided: a change, or nothing because it is so already.
pub type Decision = Result<Option<Change>, Refusal>;

fn change(group: Group<'_>, state: &State, replicas: i32, more: BTreeSet<String>) -> Change {
    let members = state.members(&group.pool.name);
    let there: BTreeSet<_> = members.map(|m| &m.name).collect();
    let kept = group.pool.named.iter().filter(|name| there.contains(name));
    Change {
        replicas,
        named: kept.cloned().chain(more).collect(),
    }
}

/// So many machines more.
///
/// # Errors
/// [`Refusal`] when `delta` is not above 0, there would be more than the most, or the pool's locations or the
/// management cluster have no room.
pub fn increase(group: Group<'_>, state: &State, delta: i32) -> Decision {
    if delta <= 0 {
        return Err(Refusal::Invalid(format!(
            "a pool grows by 1 or more, not by {delta}"
        )));
    }
    let (pool, most) = (&group.pool.name, group.max());
    let has = group.pool.replicas;
    let replicas = has.checked_add(delta).filter(|wanted| *wanted <= most);
    let replicas = replicas.ok_or_else(|| {
        Refusal::Bounds(format!(
            "NodePool {pool} has {has} replicas and cannot grow by {delta}: \
             spec.autoscaling.max is {most}; raise it"
        ))
    })?;
    if replicas > group.most() {
        return Err(Refusal::Room(format!(
            "NodePool {pool} has {has} replicas and cannot grow by {delta}: its locations, or the \
             management cluster, have no room; its conditions Degraded and Capacity say what is missing"
        )));
    }
    Ok(Some(change(group, state, replicas, BTreeSet::new())))
}

/// These machines go, and the pool is so much smaller. Those that go already, or are gone, count for
/// nothing. Where there are more machines than replicas, because a user lowered the most or a rollout
/// makes new ones first, some are going to go anyway: then it is these, and nobody else on top.
///
/// # Errors
/// [`Refusal`] when one is of another pool, or too few would be left; then none goes.
pub fn delete(group: Group<'_>, state: &State, nodes: &[ExternalGrpcNode]) -> Decision {
    let pool = &group.pool.name;
    let mut victims = BTreeSet::new();
    for node in nodes {
        let Some(machine) = machine_of(state, node) else {
            continue;
        };
        if machine.pool != *pool {
            return Err(Refusal::Invalid(format!(
                "Machine {} is of NodePool {}, not of {pool}",
                machine.name, machine.pool
            )));
        }
        if !group.is_going(machine) {
            victims.insert(machine.name.clone());
        }
    }
    if victims.is_empty() {
        return Ok(None);
    }
    let (has, least) = (group.pool.replicas, group.min());
    let surplus = group.staying(state).saturating_sub(has).max(0);
    let count = i32::try_from(victims.len()).unwrap_or(i32::MAX);
    let less = count.saturating_sub(surplus).max(0);
    let replicas = has.saturating_sub(less);
    if less > 0 && replicas < least {
        return Err(Refusal::Bounds(format!(
            "NodePool {pool} has {has} replicas and cannot lose {less}: spec.autoscaling.min is \
             {least}; lower it"
        )));
    }
    Ok(Some(change(group, state, replicas, victims)))
}

/// So many machines less, of those that do not exist yet.
///
/// # Errors
/// [`Refusal`] when `delta` is not below 0. That fewer can be cancelled is none: the client sees what
/// the size is and goes on.
pub fn decrease(group: Group<'_>, state: &State, delta: i32) -> Decision {
    if delta >= 0 {
        return Err(Refusal::Invalid(format!(
            "what was asked for is cancelled by -1 or less, not by {delta}"
        )));
    }
    let has = group.pool.replicas;
    // The operator may have counted some that we have not seen yet.
    let existing = group.staying(state).max(group.pool.counted);
    let floor = existing.max(group.min());
    let replicas = has.saturating_add(delta).max(floor);
    if replicas >= has {
        return Ok(None);
    }
    Ok(Some(change(group, state, replicas, BTreeSet::new())))
}

/// What brings a pool within its bounds, after they were edited.
#[must_use]
pub fn bring_within(group: Group<'_>, state: &State) -> Option<Change> {
    let replicas = group.pool.replicas.clamp(group.min(), group.max());
    if replicas == group.pool.replicas {
        return None;
    }
    Some(change(group, state, replicas, BTreeSet::new()))
}
