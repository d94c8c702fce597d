//! The management cluster and one of us, as values: KubeVirt in steps, watches that lag behind, writes
//! that are on their way.
//!
//! Invariant: the API that is played refuses a write on an old version, as the real one does; nothing
//! else protects what the laws hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use crate::cache::objects::{Disk, Holders, Instance, Machine, Progress, Slot, Version, Volume};
use crate::cache::state::State;
use crate::controllers::attach::holders;
use crate::controllers::attach::plan::{
    self, Change, Observed, SETTLE, Step, Times, desired_disk, desired_disks,
};
use crate::status::Status;

pub(super) const VOLUMES: [&str; 3] = ["vol-1", "vol-2", "vol-3"];
pub(super) const MACHINES: [&str; 2] = ["a", "b"];

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Publish(usize, usize, bool),
    Unpublish(usize, Option<usize>),
    /// KubeVirt does its next step for a machine.
    KubeVirt(usize),
    Stop(usize),
    DeleteMachine(usize),
    /// Somebody takes a disk out of the template.
    TakeAway(usize, usize),
    /// A watch catches up: claims, machines or instances.
    Catch(usize),
    /// Seconds pass, and we work.
    Work(u64),
    /// What we sent to a machine reaches the API.
    Land(usize),
    Crash,
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let (volume, machine) = (0..VOLUMES.len(), 0..MACHINES.len());
    prop_oneof![
        4 => (volume.clone(), machine.clone(), prop::bool::weighted(0.1))
            .prop_map(|(v, m, read_only)| Op::Publish(v, m, read_only)),
        3 => (volume.clone(), prop::option::weighted(0.8, machine.clone()))
            .prop_map(|(v, m)| Op::Unpublish(v, m)),
        6 => machine.clone().prop_map(Op::KubeVirt),
        1 => machine.clone().prop_map(Op::Stop),
        1 => machine.clone().prop_map(Op::DeleteMachine),
        1 => (volume, machine).prop_map(|(v, m)| Op::TakeAway(v, m)),
        6 => (0..3_usize).prop_map(Op::Catch),
        6 => (0..20_u64).prop_map(Op::Work),
        4 => (0..MACHINES.len()).prop_map(Op::Land),
        1 => Just(Op::Crash),
    ]
}

/// What we remember of a machine.
#[derive(Clone, Copy, Debug)]
struct Memory {
    wrote: u64,
    pending_since: Option<u64>,
}

/// The management cluster, and one of us.
pub(super) struct Sim {
    pub(super) truth: State,
    pub(super) seen: State,
    memory: BTreeMap<String, Memory>,
    /// Writes that are sent and not carried out.
    sent: BTreeMap<String, (Machine, Change)>,
    began: u64,
    now: u64,
    version: u64,
    pub(super) writes: u64,
}

impl Sim {
    pub(super) fn new() -> Self {
        let mut sim = Self {
            truth: State::default(),
            seen: State::default(),
            memory: BTreeMap::new(),
            sent: BTreeMap::new(),
            began: 0,
            now: 0,
            version: 0,
            writes: 0,
        };
        for id in VOLUMES {
            let (version, id) = (sim.next(id), id.to_owned());
            let volume = Volume {
                id: id.clone(),
                version,
                bound: true,
                ..Volume::default()
            };
            sim.truth.volumes.insert(id, volume);
        }
        for name in MACHINES {
            let machine = Machine {
                name: name.to_owned(),
                version: sim.next(name),
                slots: Some(vec![Slot {
                    name: "root".to_owned(),
                    ..Slot::default()
                }]),
                disks: Some(vec![Disk {
                    name: "root".to_owned(),
                    ..Disk::default()
                }]),
                ..Machine::default()
            };
            sim.truth.machines.insert(name.to_owned(), machine);
        }
        sim.seen = sim.truth.clone();
        sim
    }

    pub(super) fn next(&mut self, uid: &str) -> Version {
        self.version += 1;
        Version {
            uid: uid.to_owned(),
            text: self.version.to_string(),
            number: self.version,
        }
    }

    /// As the client does it: on the version that was read, and what was written is believed.
    fn set_holders(&mut self, read: &Volume, holders: Holders) {
        if read.holders == holders {
            return;
        }
        let version = self.next(&read.id);
        let volume = self.truth.volumes.get_mut(&read.id).unwrap();
        assert_eq!(
            volume.version, read.version,
            "the calls of this test are not concurrent"
        );
        (volume.holders, volume.version) = (holders, version);
        self.seen.volumes.insert(read.id.clone(), volume.clone());
    }

    pub(super) fn publish(
        &mut self,
        id: &str,
        machine: &str,
        read_only: bool,
    ) -> Result<(), Status> {
        let volume = self.truth.volumes[id].clone();
        if !self.truth.machines.contains_key(machine) {
            return Ok(());
        }
        let elsewhere = self.seen.elsewhere(id, machine);
        let holders = holders::publish(&volume, machine, read_only, elsewhere)?;
        self.set_holders(&volume, holders);
        Ok(())
    }

    pub(super) fn act(&mut self, op: Op) {
        match op {
            Op::Publish(v, m, read_only) => {
                // Refusals are the point of the law about holders.
                let _ = self.publish(VOLUMES[v], MACHINES[m], read_only);
            }
            Op::Unpublish(v, m) => {
                let volume = self.truth.volumes[VOLUMES[v]].clone();
                self.set_holders(&volume, holders::unpublish(&volume, m.map(|m| MACHINES[m])));
            }
            Op::KubeVirt(m) => self.kubevirt(MACHINES[m]),
            Op::Stop(m) => drop(self.truth.instances.remove(MACHINES[m])),
            Op::DeleteMachine(m) => drop(self.truth.machines.remove(MACHINES[m])),
            Op::TakeAway(v, m) => {
                let version = self.next(MACHINES[m]);
                if let Some(machine) = self.truth.machines.get_mut(MACHINES[m]) {
                    machine.version = version;
                    unplug(machine, VOLUMES[v]);
                }
            }
            Op::Catch(0) => self.seen.volumes = self.truth.volumes.clone(),
            Op::Catch(1) => self.seen.machines = self.truth.machines.clone(),
            Op::Catch(_) => self.seen.instances = self.truth.instances.clone(),
            Op::Work(seconds) => {
                self.now += seconds;
                self.work();
            }
            Op::Land(m) => self.land(MACHINES[m]),
            Op::Crash => {
                // The next one lists everything anew.
                self.sent.clear();
                self.seen = self.truth.clone();
                self.memory.clear();
                self.began = self.now;
            }
        }
    }

    /// One step: start, take over what the template says, go on with each disk.
    fn kubevirt(&mut self, name: &str) {
        let version = self.next(name);
        let Some(machine) = self.truth.machines.get(name) else {
            // What runs ends after the object is gone, not with it.
            self.truth.instances.remove(name);
            return;
        };
        let claims: BTreeSet<_> = machine.slots().filter_map(|s| s.claim.clone()).collect();
        let instance = self
            .truth
            .instances
            .entry(name.to_owned())
            .or_insert_with(|| Instance {
                name: name.to_owned(),
                ..Instance::default()
            });
        instance.version = version;
        instance.running = true;
        for (volume, progress) in &mut instance.volumes {
            progress.phase = match (claims.contains(volume), progress.phase.as_str()) {
                (true, "Pending") => "AttachedToNode",
                (true, _) => "Ready",
                (false, _) => "Detaching",
            }
            .to_owned();
        }
        // Gone one step after it was taken out.
        let kept = instance.claims.clone();
        instance
            .volumes
            .retain(|volume, _| claims.contains(volume) || kept.contains(volume));
        for volume in &claims {
            instance
                .volumes
                .entry(volume.clone())
                .or_insert_with(|| Progress {
                    phase: "Pending".to_owned(),
                    ..Progress::default()
                });
        }
        instance.claims = claims;
    }

    /// As `reconcile` does it, on what is seen; the API is asked where `reconcile` asks it.
    fn work(&mut self) {
        let (desired, seen) = (desired_disks(&self.seen), self.seen.clone());
        for (name, machine) in &seen.machines {
            if self.sent.contains_key(name) {
                continue;
            }
            let began = self.began;
            let memory = self.memory.entry(name.clone());
            let memory = memory.or_insert(Memory {
                wrote: began,
                pending_since: None,
            });
            let since = |then: u64| Duration::from_secs(self.now - then);
            let observed = Observed {
                machine: Some(machine),
                instance: seen.instances.get(name),
                desired: desired.get(name).map_or(&[], Vec::as_slice),
                volumes: &seen.volumes,
            };
            let times = Times {
                since_write: Some(since(memory.wrote)),
                since_pending: memory.pending_since.map_or(Duration::ZERO, since),
            };
            match plan::plan(&observed, times) {
                Step::Rest => memory.pending_since = None,
                Step::Wait(wait) => {
                    assert!(!wait.is_zero() && wait <= SETTLE);
                    memory.pending_since.get_or_insert(self.now);
                }
                Step::Write(change) => {
                    let settled = observed.instance.is_none_or(|i| {
                        !i.running || plan::is_settled(machine, i) || since(memory.wrote) >= SETTLE
                    });
                    assert!(
                        settled,
                        "machine {name} is written to before it can have digested"
                    );
                    self.send(machine, change);
                }
            }
        }
        for (id, volume) in &seen.volumes {
            if volume
                .holders
                .held
                .iter()
                .any(|held| self.sent.contains_key(held))
            {
                continue;
            }
            let read = self.truth.volumes[id].clone();
            let released = volume.holders.held.difference(&volume.holders.wanted);
            let released = released.filter(|held| !seen.has(id, held)).cloned();
            let without: BTreeSet<_> = released.filter(|held| !self.truth.has(id, held)).collect();
            self.set_holders(&read, holders::release(&read, &without));
        }
    }

    fn send(&mut self, seen: &Machine, mut change: Change) {
        change.unplug.retain(|id| {
            let desired = self
                .truth
                .volumes
                .get(id)
                .and_then(|volume| desired_disk(volume, &seen.name));
            plan::goes(seen, id, desired.as_ref())
        });
        if change != Change::default() {
            self.sent.insert(seen.name.clone(), (seen.clone(), change));
        }
    }

    fn land(&mut self, name: &str) {
        let Some((seen, change)) = self.sent.remove(name) else {
            return;
        };
        let version = self.next(&seen.name);
        let Some(machine) = self.truth.machines.get_mut(&seen.name) else {
            return;
        };
        if machine.version != seen.version {
            return;
        }
        for id in &change.unplug {
            unplug(machine, id);
        }
        for disk in &change.plug {
            machine.slots.get_or_insert_default().push(Slot {
                name: disk.volume.clone(),
                claim: Some(disk.volume.clone()),
                hotplugged: true,
            });
            machine.disks.get_or_insert_default().push(Disk {
                name: disk.volume.clone(),
                serial: disk.serial.clone(),
                read_only: disk.read_only,
            });
        }
        machine.version = version;
        self.seen
            .machines
            .insert(seen.name.clone(), machine.clone());
        self.memory.insert(
            seen.name.clone(),
            Memory {
                wrote: self.now,
                pending_since: None,
            },
        );
        self.writes += 1;
    }

    /// Never two holders: by the claim, and in truth.
    pub(super) fn check(&self) {
        for (id, volume) in &self.truth.volumes {
            let holders: Vec<_> = MACHINES.iter().filter(|m| self.truth.has(id, m)).collect();
            assert!(holders.len() < 2, "{id} is on {holders:?}");
            assert!(
                volume.holders.held.len() < 2,
                "{id} has the holders {:?}",
                volume.holders.held
            );
            for holder in holders {
                assert!(
                    volume.holders.held.contains(*holder),
                    "{id} is on {holder}, which is none of its holders"
                );
            }
        }
    }

    pub(super) fn settle(&mut self) {
        for _ in 0..12 {
            (0..3).for_each(|kind| self.act(Op::Catch(kind)));
            self.act(Op::Work(1));
            self.act(Op::Work(SETTLE.as_secs()));
            (0..MACHINES.len()).for_each(|m| self.act(Op::Land(m)));
            (0..MACHINES.len()).for_each(|m| self.act(Op::KubeVirt(m)));
            self.check();
        }
    }
}

pub(super) fn unplug(machine: &mut Machine, id: &str) {
    machine
        .slots
        .iter_mut()
        .for_each(|slots| slots.retain(|slot| slot.name != id));
    machine
        .disks
        .iter_mut()
        .for_each(|disks| disks.retain(|disk| disk.name != id));
}
