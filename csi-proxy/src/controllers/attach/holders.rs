//! Holders of a volume: who is to have it, and who may. They are annotations of its claim, written with
//! the version that was read, so of two who write at once one fails, and nobody else has to be asked.
//!
//! Invariant: pure; a claim that is not shared never has two holders.

use std::collections::BTreeSet;

use crate::cache::objects::{Holders, Volume};
use crate::status::Status;

/// The holders once a machine is to have the volume. `elsewhere` is another machine that was seen
/// with it, whatever the claim says.
///
/// # Errors
/// When another machine may have it, or this one has it in another way.
pub fn publish(
    volume: &Volume,
    machine: &str,
    read_only: bool,
    elsewhere: Option<&str>,
) -> Result<Holders, Status> {
    let (id, holders) = (&volume.id, &volume.holders);
    if volume.deleting {
        return Err(Status::failed_precondition(format!(
            "volume {id} is being deleted; make another one"
        )));
    }
    let holder = holders
        .held
        .iter()
        .map(String::as_str)
        .find(|held| *held != machine);
    if let Some(other) = holder.or(elsewhere).filter(|_| !volume.shared) {
        return Err(Status::failed_precondition(format!(
            "volume {id} is attached to machine {other}, which may still write to it; it is free \
             once it is detached there or that machine is gone"
        )));
    }
    if holders.wanted.is_empty() && holders.held.is_empty() {
        return Ok(Holders {
            wanted: BTreeSet::from([machine.to_owned()]),
            held: BTreeSet::from([machine.to_owned()]),
            read_only,
        });
    }
    if holders.read_only != read_only {
        let (is, asked) = match read_only {
            true => ("read and written", "read-only"),
            false => ("read-only", "for reading and writing"),
        };
        return Err(Status::already_exists(format!(
            "volume {id} is attached already to be {is}, and asked for {asked}; detach it first"
        )));
    }
    if holders.held.contains(machine) && !holders.wanted.contains(machine) {
        return Err(Status::aborted(format!(
            "volume {id} is being detached from machine {machine}; try again"
        )));
    }
    let mut holders = holders.clone();
    holders.wanted.insert(machine.to_owned());
    holders.held.insert(machine.to_owned());
    Ok(holders)
}

/// The holders once a machine, or none at all, is to have the volume no longer.
#[must_use]
pub fn unpublish(volume: &Volume, machine: Option<&str>) -> Holders {
    let mut holders = volume.holders.clone();
    match machine {
        Some(machine) => {
            holders.wanted.remove(machine);
        }
        None => holders.wanted.clear(),
    }
    holders
}

/// The holders after these machines have been seen without the volume. Those that are gone are not to
/// have it either: nobody may ever come to detach it.
#[must_use]
pub fn release(volume: &Volume, without: &BTreeSet<String>, gone: &BTreeSet<String>) -> Holders {
    let mut holders = volume.holders.clone();
    holders.wanted.retain(|wanted| !gone.contains(wanted));
    holders.held.retain(|held| {
        holders.wanted.contains(held) || !(without.contains(held) || gone.contains(held))
    });
    holders.read_only &= !holders.held.is_empty();
    holders
}
