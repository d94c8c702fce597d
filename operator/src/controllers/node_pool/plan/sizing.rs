//! How many Machines are made, where, and which of them go: scaling and rollouts, as pure arithmetic.
//!
//! Invariant: afterwards there are no more than replicas + surge Machines, those included that a
//! rollout takes away and that are not gone yet, and of those that were ready no fewer than
//! replicas − unavailable, unless an annotation on a Machine named the victim. Replicas are those for which
//! locations have places: what none may have is missing. A machine that is moved is one more for a while. A pool
//! with one location without `max` is sized as if there were none.

use std::collections::BTreeMap;

use jiff::Timestamp;
use placement::next::{self, Readiness, Rebalance, Why};
use placement::place::Place;
use placement::targets::{self, Targets};

/// A Machine that nobody asked to go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Member {
    /// Its name.
    pub(super) name: String,
    /// Its location, as the status calls it; none where the pool has it no more.
    pub(super) location: Option<String>,
    /// Made from the template and version in force.
    pub(super) updated: bool,
    /// Its node is ready.
    pub(super) ready: bool,
    /// Its node has never been ready: nothing runs there.
    pub(super) fresh: bool,
    /// An annotation on it asks that it goes first.
    pub(super) named: bool,
}

/// What a pool is to have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Size {
    /// Machines in the end.
    pub(super) replicas: usize,
    /// Machines that there may be above that.
    pub(super) surge: usize,
    /// Machines of it that may be missing or not ready.
    pub(super) unavailable: usize,
    /// Outdated ones that were told to go, and have their place until they are gone.
    pub(super) going: usize,
}

/// Where Machines may be.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    /// The locations, one or more.
    pub(super) locations: Vec<targets::Location>,
    /// Whether machines are moved without need.
    pub(super) rebalance: Rebalance,
    /// Nothing of the pool is going, so one may be moved.
    pub(super) is_still: bool,
    /// The time.
    pub(super) now: Timestamp,
}

/// What is to be done.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Sizing {
    /// In these locations one is made, the first one first.
    pub(super) create: Vec<String>,
    /// The one that is made is there to let another one go.
    pub(super) moves: bool,
    /// Machines of each location in the end, and what keeps it from having more.
    pub(super) targets: Targets,
    /// These go because the pool is to be smaller.
    pub(super) surplus: Vec<String>,
    /// These go because newer ones take their place.
    pub(super) outdated: Vec<String>,
}

/// Decides. Among equals the member that comes first goes first.
pub(super) fn size(members: &[Member], size: Size, spread: &Spread) -> Sizing {
    let mut sizing = Sizing::default();
    // Nothing runs there and nobody waits for them: they need no turn.
    let (unused, mut left): (Vec<_>, Vec<_>) = members.iter().partition(|m| !m.updated && m.fresh);
    sizing.outdated.extend(names(&unused));

    let replicas = u32::try_from(size.replicas).unwrap_or(u32::MAX);
    let targets = targets::targets(replicas, &spread.locations, &tally(left.iter().copied()));
    let mut order: Vec<_> = left.iter().copied().filter(|m| m.updated).collect();
    order.sort_by_key(|m| m.ready);
    let updated: Vec<_> = order.into_iter().map(machine).collect();
    let (surplus, _) = next::surplus(replicas, &spread.locations, &updated, &targets);
    left.retain(|m| !surplus.contains(&m.name));
    sizing.surplus = surplus;

    let possible = size.replicas.saturating_sub(number(targets.missing));
    let least = possible.saturating_sub(size.unavailable);
    let coming = left.iter().filter(|m| m.updated && !m.ready).count();
    let mut order: Vec<_> = left.iter().copied().filter(|m| !m.updated).collect();
    order.sort_by_key(|m| (m.ready, !m.named));
    for member in order {
        // One that is ready goes when enough others are. One that is not may come back (all may be
        // silent because of an outage), so it goes when enough others are ready or may come back
        // (as Kubernetes' deployment controller does: `cleanupUnhealthyReplicas`).
        let enough = match member.ready {
            true => left.iter().filter(|m| m.ready).count() > least,
            false => left.len() > least + coming,
        };
        if enough {
            sizing.outdated.push(member.name.clone());
            left.retain(|m| m.name != member.name);
        }
    }

    let updated = || left.iter().copied().filter(|m| m.updated);
    let most = possible + size.surge;
    // Up-to-date ones that go do not count: a pool that is made smaller and then larger again waits
    // for no drain.
    let there = left.len() + sizing.outdated.len() + size.going;
    let (wanted, room) = (
        size.replicas.saturating_sub(updated().count()),
        most.saturating_sub(there),
    );
    let wanted = u32::try_from(wanted.min(room)).unwrap_or(u32::MAX);
    // New ones take the places of the targets, those of outdated ones too.
    let places = next::places(wanted, &spread.locations, &targets, &tally(updated()));
    sizing.create = places.into_iter().map(|place| place.location).collect();
    sizing.targets = targets;
    move_one(&mut sizing, &left, replicas, spread);
    sizing
}

/// Makes a Machine so that another one can go, when there is nothing else to do.
fn move_one(sizing: &mut Sizing, left: &[&Member], replicas: u32, spread: &Spread) {
    let busy =
        !sizing.create.is_empty() || !sizing.surplus.is_empty() || !sizing.outdated.is_empty();
    if busy || !spread.is_still {
        return;
    }
    let pool = next::Pool {
        replicas,
        max_extra: 0,
        rebalance: spread.rebalance,
        is_rolling_out: left.iter().any(|m| !m.updated),
        budget: None,
        canaries: Vec::new(),
    };
    let machines: Vec<_> = left.iter().copied().map(machine).collect();
    let step = next::plan(&pool, &spread.locations, &machines, spread.now);
    let moved = step.create.into_iter().filter(|c| c.why == Why::Rebalance);
    sizing.create = moved.map(|creation| creation.place.location).collect();
    sizing.moves = !sizing.create.is_empty();
}

/// As crate `placement` sees one. There are no zones here, and whether it is coming or silent makes no difference
/// to who goes first.
fn machine(member: &Member) -> next::Machine {
    next::Machine {
        name: member.name.clone(),
        place: place(member),
        made: Timestamp::UNIX_EPOCH,
        readiness: match member.ready {
            true => Readiness::Ready,
            false => Readiness::Silent,
        },
        is_named: member.named,
        is_replacement: false,
    }
}

fn place(member: &Member) -> Place {
    Place::new(member.location.clone().unwrap_or_default(), "")
}

/// How many of them there are in each place.
fn tally<'a>(members: impl Iterator<Item = &'a Member>) -> BTreeMap<Place, u32> {
    let mut counts = BTreeMap::new();
    for member in members {
        *counts.entry(place(member)).or_default() += 1;
    }
    counts
}

fn number(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn names(members: &[&Member]) -> Vec<String> {
    members.iter().map(|m| m.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use api::node_pool::locations::ONLY_LOCATION;

    use super::*;
    use crate::controllers::node_pool::plan::places;

    /// Locations with weight and most machines.
    fn spread(locations: &[(&str, u32, Option<u32>)]) -> Spread {
        let location = |(name, weight, max): &(&str, u32, Option<u32>)| {
            places::location((*name).to_owned(), *weight, *max)
        };
        Spread {
            locations: locations.iter().map(location).collect(),
            rebalance: Rebalance::Never,
            is_still: true,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    /// `o`utdated or `u`pdated; upper case: ready; `f`: outdated and fresh; `!`: named.
    fn members(text: &str) -> Vec<Member> {
        let parts = text.split(' ').filter(|part| !part.is_empty());
        let one = |(at, part): (usize, &str)| Member {
            name: format!("{at}{part}"),
            location: Some(ONLY_LOCATION.to_owned()),
            updated: part.to_lowercase().starts_with('u'),
            ready: part.starts_with(char::is_uppercase),
            fresh: part.starts_with('f') || part.starts_with('u'),
            named: part.ends_with('!'),
        };
        parts.enumerate().map(one).collect()
    }

    fn decide(text: &str, replicas: usize, surge: usize, unavailable: usize) -> String {
        beside(0, text, replicas, surge, unavailable)
    }

    /// While so many outdated ones are going.
    fn beside(
        going: usize,
        text: &str,
        replicas: usize,
        surge: usize,
        unavailable: usize,
    ) -> String {
        let size_ = Size {
            replicas,
            surge,
            unavailable,
            going,
        };
        let Sizing {
            create,
            surplus,
            outdated,
            ..
        } = size(&members(text), size_, &spread(&[(ONLY_LOCATION, 1, None)]));
        format!("+{} -{surplus:?} ~{outdated:?}", create.len()).replace('"', "")
    }

    #[test]
    fn pools_grow_and_shrink() {
        assert_eq!(decide("", 3, 1, 0), "+3 -[] ~[]");
        assert_eq!(decide("U U", 3, 1, 0), "+1 -[] ~[]");
        assert_eq!(decide("U U u", 3, 1, 0), "+0 -[] ~[]");
        assert_eq!(decide("U U U", 1, 1, 0), "+0 -[0U, 1U] ~[]");
        assert_eq!(decide("U", 0, 1, 0), "+0 -[0U] ~[]");
    }

    #[test]
    fn the_one_named_goes_first_then_who_is_not_ready_then_the_oldest() {
        assert_eq!(decide("U u U! U", 3, 1, 0), "+0 -[2U!] ~[]");
        assert_eq!(decide("U u U! U", 2, 1, 0), "+0 -[2U!, 1u] ~[]");
        assert_eq!(decide("U u U! U", 1, 1, 0), "+0 -[2U!, 1u, 0U] ~[]");
    }

    #[test]
    fn an_annotation_alone_takes_nobody_away() {
        assert_eq!(decide("U! U!", 2, 1, 1), "+0 -[] ~[]");
        assert_eq!(decide("O O O! u", 3, 1, 0), "+0 -[] ~[]");
    }

    #[test]
    fn rollout_with_surge_makes_one_first() {
        assert_eq!(decide("O O O", 3, 1, 0), "+1 -[] ~[]");
        assert_eq!(decide("O O O u", 3, 1, 0), "+0 -[] ~[]");
        assert_eq!(decide("O O O! U", 3, 1, 0), "+0 -[] ~[2O!]");
        assert_eq!(beside(1, "O O U", 3, 1, 0), "+0 -[] ~[]");
        assert_eq!(decide("O O U", 3, 1, 0), "+1 -[] ~[]");
        assert_eq!(decide("O U U U", 3, 1, 0), "+0 -[] ~[0O]");
    }

    #[test]
    fn rollout_without_surge_takes_one_away_first() {
        assert_eq!(decide("O O O", 3, 0, 1), "+0 -[] ~[0O]");
        assert_eq!(beside(1, "O O", 3, 0, 1), "+0 -[] ~[]");
        assert_eq!(decide("O O", 3, 0, 1), "+1 -[] ~[]");
        assert_eq!(decide("O O u", 3, 0, 1), "+0 -[] ~[]");
        assert_eq!(decide("O", 1, 0, 1), "+0 -[] ~[0O]");
    }

    #[test]
    fn in_an_outage_no_rollout_goes_on() {
        assert_eq!(decide("o o o", 3, 0, 1), "+0 -[] ~[0o]");
        assert_eq!(decide("o o u", 3, 0, 1), "+0 -[] ~[]");
        assert_eq!(decide("o o o", 3, 1, 0), "+1 -[] ~[]");
        assert_eq!(decide("o o o u", 3, 1, 0), "+0 -[] ~[]");
    }

    #[test]
    fn outdated_ones_that_never_ran_anything_go_at_once() {
        assert_eq!(decide("f f f", 3, 1, 0), "+1 -[] ~[0f, 1f, 2f]");
        assert_eq!(decide("O f f", 3, 1, 0), "+1 -[] ~[1f, 2f]");
    }

    #[test]
    fn a_pool_that_shrinks_in_a_rollout_ends_with_new_ones() {
        assert_eq!(decide("O O O O U U", 3, 1, 0), "+0 -[] ~[0O, 1O, 2O]");
        assert_eq!(decide("O U U U U", 2, 1, 0), "+0 -[1U, 2U] ~[0O]");
    }
}
