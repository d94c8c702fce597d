//! Plan of one virtual machine: the next write to it, so that it has the volumes that it is to have.
//!
//! All that is to change goes into one write. KubeVirt replaces the pod that holds all hot-plugged
//! disks of a machine at every change, and changes that come faster than it can do that end in
//! nothing being attached at all (kubevirt#16937). So a running machine is written to when everything
//! that it was told before is done, or when that takes too long.
//!
//! Invariant: planning again after the write is carried out gives nothing; and what is not a volume
//! of ours is not touched.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cache::objects::{Instance, Machine, Slot, Volume};
use crate::cache::state::State;
use crate::names;

/// How long changes are batched before the first write: the attacher sends ten at a time.
pub const BATCH_PERIOD: Duration = Duration::from_millis(150);
/// When a running machine is written to again although it is not done with what it was told. KubeVirt
/// needs about 8 s for one change.
pub const SETTLE: Duration = Duration::from_secs(15);

/// The disk of a volume that the machine is to have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DesiredDisk {
    /// Name of the claim.
    pub volume: String,
    /// Serial number of the disk.
    pub serial: String,
    /// It can only be read.
    pub read_only: bool,
    /// Another machine may have it at the same time.
    pub shared: bool,
}

/// Everything that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The virtual machine; none when it is gone.
    pub machine: Option<&'a Machine>,
    /// What runs; none when nothing does.
    pub instance: Option<&'a Instance>,
    /// What it is to have, in any order.
    pub desired: &'a [DesiredDisk],
    /// Claims that are known to be somebody else's, and stay. What is named like a volume of ours and
    /// is none, nor theirs, has lost its claim; who carries the change out asks for it.
    pub foreign: &'a BTreeSet<String>,
}

/// How long ago things happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The last write to the machine; none when there was none.
    pub since_write: Option<Duration>,
    /// When it was first seen that something has to be written.
    pub since_pending: Duration,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until something changes.
    Rest,
    /// Nothing for this long, unless something changes.
    Wait(Duration),
    /// One write.
    Write(Change),
}

/// One write to a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// What goes in, sorted.
    pub plug: Vec<DesiredDisk>,
    /// Names of the volumes that go out, sorted.
    pub unplug: Vec<String>,
}

impl Change {
    /// Whether nothing is to be done.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.plug.is_empty() && self.unplug.is_empty()
    }

    /// Names of its volumes: what goes out first.
    pub fn disks(&self) -> impl Iterator<Item = &str> {
        let plug = self.plug.iter().map(|disk| disk.volume.as_str());
        self.unplug.iter().map(String::as_str).chain(plug)
    }
}

/// The disks that each machine is to have.
#[must_use]
pub fn desired_disks(state: &State) -> BTreeMap<String, Vec<DesiredDisk>> {
    let mut all: BTreeMap<String, Vec<DesiredDisk>> = BTreeMap::new();
    for volume in state.volumes.values() {
        for machine in &volume.holders.wanted {
            let disks = all.entry(machine.clone()).or_default();
            disks.extend(desired_disk(volume, machine));
        }
    }
    all
}

/// The disk of a volume that a machine is to have, if it is to have the volume.
#[must_use]
pub fn desired_disk(volume: &Volume, machine: &str) -> Option<DesiredDisk> {
    volume
        .holders
        .wanted
        .contains(machine)
        .then(|| DesiredDisk {
            volume: volume.id.clone(),
            serial: names::serial(&volume.version.uid),
            read_only: volume.holders.read_only,
            shared: volume.shared,
        })
}

/// The next step for one machine.
#[must_use]
pub fn plan(observed: &Observed<'_>, times: Times) -> Step {
    // One that is going takes its disks along.
    let Some(machine) = observed.machine.filter(|machine| !machine.deleting) else {
        return Step::Rest;
    };
    let change = change(machine, observed);
    if change.is_empty() {
        return Step::Rest;
    }
    let running = observed.instance.filter(|instance| instance.running);
    if let (Some(instance), Some(since)) = (running, times.since_write)
        && since < SETTLE
        && !is_settled(machine, instance)
    {
        return Step::Wait(SETTLE - since);
    }
    if times.since_pending < BATCH_PERIOD {
        return Step::Wait(BATCH_PERIOD - times.since_pending);
    }
    Step::Write(change)
}

/// Whether a slot looks like a volume of ours, hot-plugged by us.
#[must_use]
pub fn is_ours(slot: &Slot) -> bool {
    slot.hotplugged && names::is_volume(&slot.name) && slot.claim.as_deref() == Some(&slot.name)
}

/// What the template has and should not, and what it lacks.
fn change(machine: &Machine, observed: &Observed<'_>) -> Change {
    let mut desired: Vec<_> = observed.desired.iter().collect();
    desired.sort();
    desired.dedup_by(|a, b| a.volume == b.volume);
    let goes = |slot: &&Slot| {
        let disk = desired
            .iter()
            .copied()
            .find(|disk| disk.volume == slot.name);
        let theirs = observed.foreign.contains(&slot.name);
        !theirs && is_ours(slot) && goes(machine, &slot.name, disk)
    };
    let wrong = machine.slots().filter(goes);
    let mut unplug: BTreeSet<_> = wrong.map(|slot| slot.name.clone()).collect();
    unplug.retain(|name| !machine.removing.contains(name));
    let is_free = |disk: &&DesiredDisk| {
        // What is still going has to be gone before it can come again.
        let going = observed
            .instance
            .is_some_and(|i| !i.ended && i.has(&disk.volume));
        !machine.has(&disk.volume) && !going
    };
    let plug = desired.iter().copied().filter(is_free);
    Change {
        plug: plug.cloned().collect(),
        unplug: unplug.into_iter().collect(),
    }
}

/// Whether a volume has to go from a machine, given its desired disk, if there is one: because nobody
/// wants it there, or because its disk is another one.
#[must_use]
pub fn goes(machine: &Machine, name: &str, desired: Option<&DesiredDisk>) -> bool {
    let disk = machine.disk(name);
    !desired.zip(disk).is_some_and(|(desired, disk)| {
        (disk.serial.as_str(), disk.read_only) == (desired.serial.as_str(), desired.read_only)
    })
}

/// Whether a running machine is done with everything that its template says of volumes of ours.
#[must_use]
pub fn is_settled(machine: &Machine, instance: &Instance) -> bool {
    let ours = machine.slots().filter(|slot| is_ours(slot));
    let ours: BTreeSet<_> = ours.map(|slot| slot.name.as_str()).collect();
    let going = instance.volumes.keys().chain(&instance.claims);
    machine.adding.is_empty()
        && machine.removing.is_empty()
        && ours.iter().all(|name| instance.is_ready(name))
        && going
            .filter(|name| names::is_volume(name))
            .all(|name| ours.contains(name.as_str()))
}
