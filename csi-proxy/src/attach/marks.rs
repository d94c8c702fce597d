//! Who may have a volume. The annotations of a claim are written with the version that was read, so
//! of two who write at once one fails, and nobody else has to be asked.
//!
//! Invariant: a claim that is not shared is never marked for two machines.

use std::collections::BTreeSet;

use crate::model::{Marks, Volume};
use crate::refusal::Refusal;

/// The marks of a volume that a machine is to have. `elsewhere` is another machine that was seen
/// with it, whatever the marks say.
///
/// # Errors
/// When another machine may have it, or this one has it in another way.
pub fn publish(
    volume: &Volume,
    machine: &str,
    read_only: bool,
    elsewhere: Option<&str>,
) -> Result<Marks, Refusal> {
    let (id, marks) = (&volume.id, &volume.marks);
    if volume.deleting {
        return Err(Refusal::precondition(format!(
            "volume {id} is being deleted; make another one"
        )));
    }
    let marked = marks
        .held
        .iter()
        .map(String::as_str)
        .find(|held| *held != machine);
    if let Some(other) = marked.or(elsewhere).filter(|_| !volume.shared) {
        return Err(Refusal::precondition(format!(
            "volume {id} is attached to machine {other}, which may still write to it; it is free \
             once it is detached there or that machine is gone"
        )));
    }
    if marks.wanted.is_empty() && marks.held.is_empty() {
        return Ok(Marks {
            wanted: BTreeSet::from([machine.to_owned()]),
            held: BTreeSet::from([machine.to_owned()]),
            read_only,
        });
    }
    if marks.read_only != read_only {
        let (is, asked) = match read_only {
            true => ("read and written", "read-only"),
            false => ("read-only", "for reading and writing"),
        };
        return Err(Refusal::exists(format!(
            "volume {id} is attached already to be {is}, and asked for {asked}; detach it first"
        )));
    }
    if marks.held.contains(machine) && !marks.wanted.contains(machine) {
        return Err(Refusal::aborted(format!(
            "volume {id} is being detached from machine {machine}; try again"
        )));
    }
    let mut marks = marks.clone();
    marks.wanted.insert(machine.to_owned());
    marks.held.insert(machine.to_owned());
    Ok(marks)
}

/// The marks of a volume that a machine, or none at all, is to have any longer.
#[must_use]
pub fn unpublish(volume: &Volume, machine: Option<&str>) -> Marks {
    let mut marks = volume.marks.clone();
    match machine {
        Some(machine) => {
            marks.wanted.remove(machine);
        }
        None => marks.wanted.clear(),
    }
    marks
}

/// The marks after these machines have been seen without the volume.
#[must_use]
pub fn release(volume: &Volume, without: &BTreeSet<String>) -> Marks {
    let mut marks = volume.marks.clone();
    marks
        .held
        .retain(|held| marks.wanted.contains(held) || !without.contains(held));
    marks.read_only &= !marks.held.is_empty();
    marks
}
