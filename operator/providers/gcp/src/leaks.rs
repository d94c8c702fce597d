//! What nobody has any more in a project, by the rule that all clouds have ([`providers::leaks`]). Pure.
//!
//! Invariant: what is protected, worked on or in use is told and not deleted; a disk that an instance has goes with that,
//! and is not counted beside it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use providers::Doubt;
use providers::identity::{Labels, MACHINE_UID};
use providers::leaks::{Kind, Outcome, Suspects, Thing};

use crate::labels;
use crate::schema::{Address, Disk, Instance};

/// All that an installation has in a project.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Instances.
    pub instances: Vec<Instance>,
    /// Disks.
    pub disks: Vec<Disk>,
    /// Addresses that are things of their own.
    pub addresses: Vec<Address>,
}

/// What nobody has. `machines`: UIDs of all Machines, read after everything was listed, so that none is newer; `doubts`: of
/// which times it is not known who made what.
#[must_use]
pub fn leaks(
    found: &Found,
    machines: &BTreeSet<String>,
    doubts: &[Doubt],
    suspects: &mut Suspects,
    now: Timestamp,
) -> Outcome {
    let read = |labels: &Labels| labels::read(labels).remove(MACHINE_UID);
    let instances = found.instances.iter().map(|i| {
        let idle = i.status != "STOPPING" && !i.deletion_protection;
        (
            Kind::Server,
            &i.id,
            &i.name,
            read(&i.labels),
            &i.creation_timestamp,
            idle,
        )
    });
    let free = found.disks.iter().filter(|disk| disk.users.is_empty());
    let disks = free.map(|d| {
        (
            Kind::Disk,
            &d.id,
            &d.name,
            read(&d.labels),
            &d.creation_timestamp,
            true,
        )
    });
    let addresses = found.addresses.iter().map(|a| {
        let idle = a.users.is_empty();
        (
            Kind::Address,
            &a.id,
            &a.name,
            read(&a.labels),
            &a.creation_timestamp,
            idle,
        )
    });
    let all: Vec<_> = instances.chain(disks).chain(addresses).collect();
    let things = all
        .iter()
        .filter_map(|(kind, id, name, uid, created, deletable)| {
            Some(Thing {
                kind: *kind,
                id: id.parse().ok()?,
                name,
                machine_uid: uid.as_deref(),
                created: created.as_deref(),
                deletable: *deletable,
            })
        });
    let things: Vec<_> = things.collect();
    providers::leaks::leaks(&things, machines, doubts, suspects, now)
}
