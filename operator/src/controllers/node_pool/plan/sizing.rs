//! How many Machines are made, where, and which of them go: scaling and rollouts, as pure arithmetic.
//!
//! Invariant: afterwards there are no more than replicas + surge Machines, those included that a
//! rollout takes away and that are not gone yet, and of those that were ready no fewer than
//! replicas − unavailable, unless an annotation on a Machine named the victim. Replicas are those for which
//! locations have places, or that are there above them and up to date: what none may have is missing. A machine
//! that is moved is one more for a while, and takes nobody's place before it is known to be ready. A pool with one
//! location without `max` is sized as if there were none. A rollout brings no location more than `surge` above its
//! target that was not so already.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Its node was ready, is not, and may come back in time.
    pub(super) silent: bool,
    /// An annotation on it asks that it goes first.
    pub(super) named: bool,
    /// It was made in the place of one that is lost with its location.
    pub(super) for_lost: bool,
    /// When it was made.
    pub(super) made: Timestamp,
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
    /// Nobody is going, so one may be moved.
    pub(super) is_still: bool,
    /// It is known who is ready: the tenant's API answers, and not all nodes are silent together.
    pub(super) is_known: bool,
}

/// Where Machines may be.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    /// The locations, one or more.
    pub(super) locations: Vec<targets::Location>,
    /// Whether machines are moved without need.
    pub(super) rebalance: Rebalance,
    /// Outdated ones that were told to go, and have their place until they are gone.
    pub(super) going: BTreeMap<Place, u32>,
    /// Machines that are lost with their location and waited for: no members, and others have their places.
    pub(super) stranded: usize,
    /// Machines that there may be above the replicas because of those.
    pub(super) max_extra: usize,
    /// Locations that are out and wait for a machine that shows whether they are back.
    pub(super) canaries: Vec<String>,
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
    /// So many of those that are made, the first ones, are in the place of lost ones.
    pub(super) for_lost: usize,
    /// So many are not made, because enough are there with those that are lost.
    pub(super) held: usize,
    /// Machines of each location in the end, and what keeps it from having more.
    pub(super) targets: Targets,
    /// Of the replicas those for which locations have places, and those that are there all the same.
    pub(super) possible: usize,
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
    (sizing.surplus, _) = next::surplus(replicas, &spread.locations, &updated, &targets);
    if is_awaited(&sizing.surplus, &left, size, spread) {
        sizing.surplus.clear();
    }
    if !size.is_still {
        // Those that took the place of lost ones go one by one.
        let waits = |m: &&Member| m.for_lost && m.ready && !m.named;
        let waits: BTreeSet<_> = left
            .iter()
            .copied()
            .filter(waits)
            .map(|m| &m.name)
            .collect();
        sizing.surplus.retain(|name| !waits.contains(name));
    }
    let surplus: BTreeSet<_> = sizing.surplus.iter().collect();
    left.retain(|m| !surplus.contains(&m.name));
    // Who has a place until it is gone.
    let mut held = spread.going.clone();
    for member in members.iter().filter(|m| !surplus.contains(&m.name)) {
        *held.entry(place(member)).or_default() += 1;
    }
    let above = above(left.iter().copied().filter(|m| m.updated), &targets);
    let places = size.replicas.saturating_sub(number(targets.missing));
    sizing.possible = places.saturating_add(above).min(size.replicas);
    sizing.targets = targets;

    let least = sizing.possible.saturating_sub(size.unavailable);
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
    let most = sizing.possible + size.surge;
    // Up-to-date ones that go do not count: a pool that is made smaller and then larger again waits
    // for no drain.
    let going = spread.going.values().fold(0, |sum, n| sum + number(*n));
    let there = left.len() + sizing.outdated.len() + going;
    let (wanted, room) = (
        size.replicas.saturating_sub(updated().count()),
        most.saturating_sub(there),
    );
    // Those that are silent may come back, and cost until then; what a rollout may have more it has beside that.
    let surge = match members.iter().all(|m| m.updated) {
        true => 0,
        false => size.surge,
    };
    let extra = match spread.stranded {
        0 => room,
        lost => (size.replicas + surge + spread.max_extra).saturating_sub(there + lost),
    };
    let could = wanted.min(room);
    sizing.held = could.saturating_sub(extra);
    let wanted = u32::try_from(could.min(extra)).unwrap_or(u32::MAX);
    // Free places first, so that the surge does not add up in one location while outdated ones go in another;
    // then those of outdated ones.
    let places = |wanted, have: &_| next::places(wanted, &spread.locations, &sizing.targets, have);
    let mut made = places(wanted, &held);
    let mut have = tally(updated());
    for place in &made {
        *have.entry(place.clone()).or_default() += 1;
    }
    let rest = wanted.saturating_sub(u32::try_from(made.len()).unwrap_or(u32::MAX));
    made.extend(places(rest, &have));
    sizing.create = made.into_iter().map(|place| place.location).collect();
    let replaced = members.iter().filter(|m| m.for_lost).count();
    let for_lost = spread.stranded.saturating_sub(replaced);
    sizing.for_lost = for_lost.min(sizing.create.len());
    if sizing.create.is_empty() && there + spread.stranded < size.replicas + spread.max_extra {
        sizing.create.extend(spread.canaries.first().cloned());
    }
    move_one(&mut sizing, &left, size, spread);
    sizing
}

/// Whether the one that is over may be so because another one was made to take its place ([`move_one`]), and it is
/// not known that the other one is ready, or that this one does not come back.
fn is_awaited(surplus: &[String], left: &[&Member], size: Size, spread: &Spread) -> bool {
    let [only] = surplus else {
        return false;
    };
    let mut found = left.iter().filter(|m| m.name == *only && !m.named);
    spread.rebalance == Rebalance::Gradual && found.any(|m| m.silent || !size.is_known)
}

/// How many stand above their location's target.
fn above<'a>(members: impl Iterator<Item = &'a Member>, targets: &Targets) -> usize {
    let over = tally(members).into_iter().map(|(place, here)| {
        let target = targets.locations.get(&place.location).copied();
        number(here.saturating_sub(target.unwrap_or_default()))
    });
    over.sum()
}

/// Makes a Machine so that another one can go, when there is nothing else to do.
fn move_one(sizing: &mut Sizing, left: &[&Member], size: Size, spread: &Spread) {
    let busy =
        !sizing.create.is_empty() || !sizing.surplus.is_empty() || !sizing.outdated.is_empty();
    // One that is named goes as soon as there is one more, whether that is ready or not.
    let may_move = size.is_still && size.is_known && !left.iter().any(|m| m.named);
    if spread.rebalance == Rebalance::Never || busy || !may_move {
        return;
    }
    let pool = next::Pool {
        replicas: u32::try_from(size.replicas).unwrap_or(u32::MAX),
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
        made: member.made,
        readiness: match member.ready {
            true => Readiness::Ready,
            false => Readiness::Silent,
        },
        is_named: member.named,
        is_replacement: member.for_lost,
    }
}

fn place(member: &Member) -> Place {
    place_of(member.location.as_deref())
}

/// The only zone of a location; that of one that the pool has no more has no name.
pub(super) fn place_of(location: Option<&str>) -> Place {
    Place::new(location.unwrap_or_default(), "")
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
            going: BTreeMap::new(),
            stranded: 0,
            max_extra: 0,
            canaries: Vec::new(),
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
            silent: part.starts_with('o'),
            named: part.ends_with('!'),
            for_lost: false,
            made: Timestamp::UNIX_EPOCH,
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
            is_still: true,
            is_known: true,
        };
        let mut spread = spread(&[(ONLY_LOCATION, 1, None)]);
        let going = u32::try_from(going).unwrap();
        spread.going.insert(place_of(Some(ONLY_LOCATION)), going);
        let Sizing {
            create,
            surplus,
            outdated,
            ..
        } = size(&members(text), size_, &spread);
        format!("+{} -{surplus:?} ~{outdated:?}", create.len()).replace('"', "")
    }

    /// As [`members`], in the location that their first letter is.
    fn spread_out(text: &str) -> Vec<Member> {
        let parts = text.split(' ').filter(|part| !part.is_empty());
        let (locations, rest): (Vec<_>, Vec<_>) = parts.map(|part| part.split_at(1)).unzip();
        let mut all = members(&rest.join(" "));
        for (member, location) in all.iter_mut().zip(locations) {
            member.location = Some(location.to_owned());
        }
        all
    }

    /// Where machines are made, in a rollout with one above replicas.
    fn made(text: &str, going: &[(&str, u32)], replicas: usize, is_still: bool) -> String {
        let size_ = Size {
            replicas,
            surge: 1,
            unavailable: 0,
            is_still,
            is_known: true,
        };
        let mut spread = spread(&[("a", 1, Some(2)), ("b", 1, Some(2))]);
        spread.rebalance = Rebalance::Gradual;
        spread.now = Timestamp::from_second(600).unwrap();
        let going = going.iter().map(|(name, n)| (place_of(Some(name)), *n));
        spread.going = going.collect();
        size(&spread_out(text), size_, &spread).create.join(" ")
    }

    #[test]
    fn new_ones_take_free_places_before_those_of_outdated_ones() {
        assert_eq!(made("aO aO bO bO", &[], 4, false), "a");
        // By the weights alone it would be a.
        assert_eq!(made("aO aO bO", &[("", 1)], 4, false), "b");
        assert_eq!(made("aO aU bU", &[("b", 1)], 4, false), "a");
        assert_eq!(made("aO aU bU", &[], 4, false), "b a");
    }

    #[test]
    fn none_is_moved_while_somebody_goes_or_is_named() {
        assert_eq!(made("aU aU", &[], 2, false), "");
        assert_eq!(made("aU aU", &[], 2, true), "b");
        assert_eq!(made("aU au", &[], 2, true), "");
        assert_eq!(made("aU! aU", &[], 2, true), "");
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
