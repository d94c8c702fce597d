//! The management cluster and one of us, as values: KubeVirt in steps, watches that lag behind, writes
//! that are on their way, refused, half done, lost, or late. What is done is the real step's to say.
//!
//! Invariant: the API that is played refuses a write on an old version, as the real one does; nothing
//! else protects what the laws hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use crate::cache::objects::{Disk, Holders, Instance, Machine, Progress, Slot, Version, Volume};
use crate::cache::state::State;
use crate::controllers::attach::holders;
use crate::controllers::attach::plan::{self, Change, SETTLE, desired_disk};
use crate::controllers::attach::step::{Job, Key, Memory, Outcome};
use crate::refusal::Failure;
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
    /// What we sent to a machine reaches the API, and we hear of it.
    Land(usize),
    /// Nobody answers what we sent to a machine; it may arrive yet.
    Silence(usize),
    /// What nobody answered arrives.
    Arrive(usize),
    /// The API is asked who may still have a volume.
    Ask(usize),
    /// From now on the API refuses this disk on any machine, or takes it again.
    Refuse(usize, bool),
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
        1 => (0..MACHINES.len()).prop_map(Op::Silence),
        1 => (0..MACHINES.len()).prop_map(Op::Arrive),
        4 => (0..VOLUMES.len()).prop_map(Op::Ask),
        1 => (0..VOLUMES.len(), any::<bool>()).prop_map(|(v, refused)| Op::Refuse(v, refused)),
        1 => Just(Op::Crash),
    ]
}

/// The management cluster, and one of us.
pub(super) struct Sim {
    pub(super) truth: State,
    pub(super) seen: State,
    pub(super) memory: Memory,
    /// Jobs that are not done.
    jobs: BTreeMap<Key, Job>,
    /// Writes that nobody answered, and until when they may arrive.
    late: Vec<(u64, Machine, Change)>,
    /// Volumes whose disks the API refuses.
    pub(super) refused: BTreeSet<String>,
    /// Claims of others.
    pub(super) foreign: BTreeSet<String>,
    /// Each disk is a request of its own.
    pub(super) subresources: bool,
    /// When a machine was last written to, as far as we know.
    wrote: BTreeMap<String, u64>,
    start: Instant,
    began: u64,
    now: u64,
    version: u64,
    pub(super) writes: u64,
}

impl Sim {
    pub(super) fn new() -> Self {
        let start = Instant::now();
        let mut sim = Self {
            truth: State::default(),
            seen: State::default(),
            memory: Memory::new(start),
            jobs: BTreeMap::new(),
            late: Vec::new(),
            refused: BTreeSet::new(),
            foreign: BTreeSet::new(),
            subresources: false,
            wrote: BTreeMap::new(),
            start,
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
                self.list_due();
            }
            Op::Land(m) => self.land(MACHINES[m]),
            Op::Silence(m) => self.silence(MACHINES[m]),
            Op::Arrive(m) => {
                let late = std::mem::take(&mut self.late);
                for (until, machine, change) in late {
                    if machine.name != MACHINES[m] {
                        self.late.push((until, machine, change));
                    } else if self.now < until {
                        self.write(&machine, &change);
                    }
                }
            }
            Op::Ask(v) => self.ask(VOLUMES[v]),
            Op::Refuse(v, true) => {
                self.refused.insert(VOLUMES[v].to_owned());
            }
            Op::Refuse(v, false) => {
                self.refused.remove(VOLUMES[v]);
            }
            Op::Crash => {
                // The next one lists everything anew.
                self.jobs.clear();
                self.late.clear();
                self.wrote.clear();
                self.seen = self.truth.clone();
                self.began = self.now;
                self.memory = Memory::new(self.clock());
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

    fn clock(&self) -> Instant {
        self.start + Duration::from_secs(self.now)
    }

    /// As `reconcile` does it.
    pub(super) fn list_due(&mut self) {
        let due = self.memory.list_due(&self.seen, self.clock());
        assert!(
            due.wake.is_none_or(|at| at > self.clock()),
            "it never rests"
        );
        for (key, job) in due.jobs {
            if let Job::Write(machine, _) = &job {
                let wrote = self.wrote.get(&machine.name).copied().unwrap_or(self.began);
                let running = self.seen.instances.get(&machine.name).filter(|i| i.running);
                let settled = running.is_none_or(|i| plan::is_settled(machine, i));
                assert!(
                    settled || self.now - wrote >= SETTLE.as_secs(),
                    "machine {} is written to before it can have digested",
                    machine.name
                );
            }
            let twice = self.jobs.insert(key.clone(), job);
            assert_eq!(twice, None, "{key:?} is in hand already");
        }
    }

    fn finish(&mut self, key: &Key, outcome: Outcome) {
        if let (Key::Machine(name), true) = (key, outcome.written) {
            self.wrote.insert(name.clone(), self.now);
        }
        // The longest that it may be.
        self.memory.finish(key, outcome, self.clock(), 0.999);
    }

    /// The API is asked, and the claim is written.
    fn ask(&mut self, id: &str) {
        let key = Key::Volume(id.to_owned());
        let Some(Job::Release(_, from)) = self.jobs.remove(&key) else {
            return;
        };
        let read = self.truth.volumes[id].clone();
        let (mut without, mut gone) = (BTreeSet::new(), BTreeSet::new());
        for name in read.holders.held.intersection(&from) {
            let there =
                self.truth.machines.contains_key(name) || self.truth.instances.contains_key(name);
            if !there {
                gone.insert(name.clone());
            } else if !self.truth.has(id, name) {
                without.insert(name.clone());
            }
        }
        let holders = holders::release(&read, &without, &gone);
        let outcome = Outcome {
            written: holders != read.holders,
            ..Outcome::default()
        };
        self.set_holders(&read, holders);
        self.finish(&key, outcome);
    }

    /// What is left of a write when the claims have been asked.
    fn send(&mut self, name: &str) -> Option<(Machine, Change, Outcome)> {
        let job = self.jobs.remove(&Key::Machine(name.to_owned()));
        let Some(Job::Write(seen, mut change)) = job else {
            return None;
        };
        let mut outcome = Outcome::default();
        change.unplug.retain(|id| {
            if self.foreign.contains(id) {
                outcome.foreign.insert(id.clone());
                return false;
            }
            let volume = self.truth.volumes.get(id);
            let desired = volume.and_then(|volume| desired_disk(volume, &seen.name));
            plan::goes(&seen, id, desired.as_ref())
        });
        Some((seen, change, outcome))
    }

    fn land(&mut self, name: &str) {
        let Some((seen, mut change, mut outcome)) = self.send(name) else {
            return;
        };
        let key = Key::Machine(name.to_owned());
        let refused = |id: &String| self.refused.contains(id);
        if self.subresources {
            let no = change.plug.extract_if(.., |disk| refused(&disk.volume));
            let no = no.map(|disk| (disk.volume, "no".to_owned()));
            outcome.refused.extend(no);
        } else if change.plug.iter().any(|disk| refused(&disk.volume)) {
            outcome.failure = Some(Failure::Refused("no"));
            return self.finish(&key, outcome);
        }
        if !change.is_empty() {
            match self.write(&seen, &change) {
                true => {
                    outcome.written = true;
                    let machine = self.truth.machines[name].clone();
                    self.seen.machines.insert(name.to_owned(), machine);
                }
                false => outcome.failure = Some(Failure::NotDone("changed")),
            }
        }
        self.finish(&key, outcome);
    }

    fn silence(&mut self, name: &str) {
        let Some((seen, change, mut outcome)) = self.send(name) else {
            return;
        };
        if !change.is_empty() {
            outcome.failure = Some(Failure::Unanswered("silent"));
            let until = self.now + SETTLE.as_secs();
            self.late.push((until, seen, change));
        }
        self.finish(&Key::Machine(name.to_owned()), outcome);
    }

    /// What the API does with a write; whether it carries it out.
    fn write(&mut self, seen: &Machine, change: &Change) -> bool {
        let version = self.next(&seen.name);
        let refused = |disk: &plan::DesiredDisk| self.refused.contains(&disk.volume);
        if change.plug.iter().any(refused) {
            return false;
        }
        let Some(machine) = self.truth.machines.get_mut(&seen.name) else {
            return false;
        };
        if machine.version != seen.version {
            return false;
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
        self.writes += 1;
        true
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
        for _ in 0..16 {
            self.round();
            self.check();
        }
    }

    /// Everybody does what is due, and hears of everything.
    pub(super) fn round(&mut self) {
        (0..3).for_each(|kind| self.act(Op::Catch(kind)));
        self.act(Op::Work(1));
        self.act(Op::Work(SETTLE.as_secs()));
        (0..VOLUMES.len()).for_each(|v| self.act(Op::Ask(v)));
        (0..MACHINES.len()).for_each(|m| self.act(Op::Land(m)));
        (0..MACHINES.len()).for_each(|m| self.act(Op::KubeVirt(m)));
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
