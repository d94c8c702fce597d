//! What nobody has any more in a resource group, by the rule that all clouds have ([`providers::leaks`]). Pure.
//!
//! Invariant: what is worked on is told and not deleted; what a machine or an interface has goes with that, and is not
//! counted beside it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use providers::Doubt;
use providers::identity::{INSTALLATION, Labels, MACHINE_UID};
use providers::leaks::{Kind, Outcome, Suspects, Thing};

use crate::schema::{Address, Disk, Nic, Vm, number};
use providers::tags::{self, MADE};

/// All that there is in a resource group.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Virtual machines.
    pub vms: Vec<Vm>,
    /// Interfaces.
    pub nics: Vec<Nic>,
    /// Disks.
    pub disks: Vec<Disk>,
    /// Public addresses.
    pub addresses: Vec<Address>,
}

/// One thing, as far as it is an installation's.
struct Seen<'a> {
    kind: Kind,
    guid: &'a str,
    name: &'a str,
    labels: Labels,
    created: Option<String>,
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
    let is_idle = |state: &str| matches!(state, "Succeeded" | "Failed");
    let made = |tags: &Labels| {
        let tag = tags
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(MADE));
        tag.map(|(_, value)| value.clone())
    };
    let vms = found.vms.iter().map(|vm| Seen {
        kind: Kind::Server,
        guid: &vm.properties.vm_id,
        name: &vm.name,
        labels: tags::read(&vm.tags),
        created: vm.properties.time_created.clone(),
        deletable: is_idle(&vm.properties.provisioning_state),
    });
    let free = found.nics.iter();
    let free = free.filter(|nic| nic.properties.virtual_machine.is_none());
    let nics = free.map(|nic| Seen {
        kind: Kind::Interface,
        guid: &nic.properties.resource_guid,
        name: &nic.name,
        labels: tags::read(&nic.tags),
        created: made(&nic.tags),
        deletable: is_idle(&nic.properties.provisioning_state),
    });
    let free = found.disks.iter().filter(|disk| disk.managed_by.is_none());
    let disks = free.map(|disk| Seen {
        kind: Kind::Disk,
        guid: &disk.properties.unique_id,
        name: &disk.name,
        labels: tags::read(&disk.tags),
        created: disk.properties.time_created.clone(),
        deletable: true,
    });
    let free = found.addresses.iter();
    let free = free.filter(|address| address.properties.ip_configuration.is_none());
    let addresses = free.map(|address| Seen {
        kind: Kind::Address,
        guid: &address.properties.resource_guid,
        name: &address.name,
        labels: tags::read(&address.tags),
        created: made(&address.tags),
        deletable: is_idle(&address.properties.provisioning_state),
    });
    let all = vms.chain(nics).chain(disks).chain(addresses);
    // A list has everybody's.
    let ours = |seen: &Seen<'_>| {
        let of_it = seen.labels.get(INSTALLATION);
        of_it.is_some_and(|uid| uid == installation)
    };
    let all: Vec<_> = all.filter(ours).collect();
    let things = all.iter().filter_map(|seen| {
        Some(Thing {
            kind: seen.kind,
            id: number(seen.guid)?,
            name: seen.name,
            machine_uid: seen.labels.get(MACHINE_UID).map(String::as_str),
            created: seen.created.as_deref(),
            deletable: seen.deletable,
        })
    });
    let things: Vec<_> = things.collect();
    providers::leaks::leaks(&things, machines, doubts, suspects, now)
}
