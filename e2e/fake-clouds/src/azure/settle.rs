//! What the cloud does: what was begun ends.
//!
//! Invariant: each thing that comes or goes is in the journal, with the tags that it had.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::behaviour::Behaviour;
use super::contents::{Contents, Operation};
use super::thing::{Change, Group, Kind};
use crate::journal::{Journal, event};
use crate::serve::later;

type Key = (Kind, String);

impl Contents {
    /// Brings about what was to happen by now.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let Contents {
            groups,
            journal,
            behaviour,
            operations,
            ..
        } = self;
        for group in groups.values_mut() {
            loop {
                let due = group.things.iter().filter_map(|(key, thing)| {
                    let change = thing.change.clone().filter(|change| change.until <= now)?;
                    Some((change, key.clone()))
                });
                let Some((change, key)) = due.min_by_key(|(change, _)| change.until) else {
                    break;
                };
                finish(group, journal, behaviour, operations, &key, &change);
            }
        }
    }
}

fn finish(
    group: &mut Group,
    journal: &mut Journal,
    behaviour: &mut Behaviour,
    operations: &mut BTreeMap<u64, Operation>,
    key: &Key,
    change: &Change,
) {
    let Some(thing) = group.things.get_mut(key) else {
        return;
    };
    thing.change = None;
    let operation = operations.entry(change.operation).or_default();
    operation.is_done = true;
    match change.what {
        "evict" => remove(group, journal, behaviour, key, change.until),
        "delete" if key.0 == Kind::Vm && behaviour.deletion_fails > 0 => {
            behaviour.deletion_fails -= 1;
            let error = (
                "InternalExecutionError",
                "An internal execution error occurred.",
            );
            operation.error = Some(error);
            thing.state = "Failed";
            thing.failed = Some(error);
        }
        "delete" => remove(group, journal, behaviour, key, change.until),
        _ if thing.failed.is_some() && change.what == "create" => {
            operation.error = thing.failed;
            thing.state = "Failed";
        }
        _ => {
            thing.state = "Succeeded";
            thing.failed = None;
            if key.0 == Kind::Vm {
                thing.power = "running";
            }
        }
    }
}

/// It goes, and so does what goes with it.
fn remove(
    group: &mut Group,
    journal: &mut Journal,
    behaviour: &Behaviour,
    key: &Key,
    at: Timestamp,
) {
    let Some(gone) = group.things.remove(key) else {
        return;
    };
    let went = event(at, key.0.event(), gone.number, &gone.tags, false);
    journal.events.push(went);
    let of_it = match key.0 {
        Kind::Vm => [Kind::Nic, Kind::Disk].as_slice(),
        Kind::Nic => &[Kind::Address],
        Kind::Address | Kind::Disk => &[],
    };
    let parts = group.things.iter().filter(|((kind, _), part)| {
        of_it.contains(kind) && part.user.as_deref() == Some(key.1.as_str())
    });
    let parts: Vec<_> = parts.map(|(key, _)| key.clone()).collect();
    for part in parts {
        let Some(thing) = group.things.get_mut(&part) else {
            continue;
        };
        thing.user = None;
        if thing.goes_along && !(behaviour.keeps_parts && key.0 == Kind::Vm) {
            remove(group, journal, behaviour, &part, at);
        } else if part.0 == Kind::Nic {
            thing.reserved = Some((key.1.clone(), later(at, behaviour.reserved_for)));
        }
    }
}
