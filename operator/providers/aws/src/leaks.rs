//! What nobody has any more in an account and region, by the rule that all clouds have ([`providers::leaks`]). Pure.
//!
//! Invariant: what an instance has goes with that, and is not counted beside it; one that has ended is nothing any more.

use std::collections::BTreeSet;

use jiff::Timestamp;
use providers::identity::{INSTALLATION, Labels, MACHINE_UID};
use providers::leaks::{Kind, Outcome, Suspects, Thing};
use providers::tags::MADE;
use providers::{Doubt, tags};

use crate::schema::{Instance, Part, number};

/// All that an installation has there.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Instances.
    pub instances: Vec<Instance>,
    /// Disks.
    pub volumes: Vec<Part>,
    /// Interfaces.
    pub interfaces: Vec<Part>,
}

/// One thing, as far as it is an installation's.
struct Seen<'a> {
    kind: Kind,
    id: &'a str,
    labels: Labels,
    created: Option<&'a str>,
    deletable: bool,
}

/// What nobody has. `machines`: UIDs of all Machines, read after everything was listed, so that none is newer; `doubts`: of
/// which times it is not known who made what.
#[must_use]
pub fn leaks(
    found: &Found,
    installation: &str,
    machines: &BTreeSet<String>,
    doubts: &[Doubt],
    suspects: &mut Suspects,
    now: Timestamp,
) -> Outcome {
    let live = found.instances.iter();
    let live = live.filter(|instance| instance.state != "terminated");
    let instances = live.map(|instance| Seen {
        kind: Kind::Server,
        id: &instance.id,
        labels: tags::read(&instance.tags),
        created: instance.launched.as_deref(),
        deletable: instance.state != "shutting-down",
    });
    let volumes = free(&found.volumes).map(|part| seen(Kind::Disk, part));
    let interfaces = free(&found.interfaces).map(|part| seen(Kind::Interface, part));
    let all = instances.chain(volumes).chain(interfaces);
    let ours = |seen: &Seen<'_>| {
        let of_it = seen.labels.get(INSTALLATION);
        of_it.is_some_and(|uid| uid == installation)
    };
    let all: Vec<_> = all.filter(ours).collect();
    let things = all.iter().filter_map(|seen| {
        Some(Thing {
            kind: seen.kind,
            id: number(seen.id)?,
            name: seen.id,
            machine_uid: seen.labels.get(MACHINE_UID).map(String::as_str),
            created: seen.created,
            deletable: seen.deletable,
        })
    });
    let things: Vec<_> = things.collect();
    providers::leaks::leaks(&things, machines, doubts, suspects, now)
}

/// What no instance has.
fn free(parts: &[Part]) -> impl Iterator<Item = &Part> {
    parts.iter().filter(|part| part.status == "available")
}

/// Interfaces do not say how old they are: then since when there was the Machine is the oldest that they can be.
fn seen(kind: Kind, part: &Part) -> Seen<'_> {
    let tag = part.tags.get(MADE).map(String::as_str);
    Seen {
        kind,
        id: &part.id,
        labels: tags::read(&part.tags),
        created: part.created.as_deref().or(tag),
        deletable: true,
    }
}
