//! The checks. Each is a function of facts, and finds nothing where all is well.
//!
//! Invariant: what says most stands first, because of several findings of one check about one object the first gives
//! the words; and nothing is concluded from what is not known.

use crate::facts::Facts;
use crate::finding::Finding;

mod backups;
mod before;
mod clouds;
mod cluster;
mod conditions;
mod deletion;
mod fleet;
mod grants;
mod here;
mod hosts;
mod inside;
mod locations;
mod management;
pub(crate) mod pods;
mod pools;
mod sleep;
mod storage;
mod upgrades;

/// What all checks find, in no order that means anything.
pub(crate) fn all(facts: &Facts) -> Vec<Finding> {
    let mut found = here::check(facts);
    found.extend(before::check(facts));
    found.extend(management::check(facts));
    found.extend(clouds::check(facts));
    found.extend(fleet::check(facts));
    found.extend(storage::check(facts));
    found.extend(upgrades::check(facts));
    found.extend(cluster::check(facts));
    found.extend(sleep::check(facts));
    found.extend(locations::check(facts));
    found.extend(pools::check(facts));
    found.extend(inside::check(facts));
    found.extend(hosts::check(facts));
    found.extend(backups::check(facts));
    found.extend(grants::check(facts));
    found.extend(deletion::check(facts));
    found
}
