//! Step of attaching: from what is seen and remembered to what has to be done now, and when to look
//! again.
//!
//! One write at a time per machine and one per claim. A change of several disks that is refused three
//! times in a row is taken apart: what goes out and what goes in first, then one disk after the other,
//! each with a back-off of its own. So nobody waits for the one that is refused.
//!
//! Invariant: pure; a volume is not released from a machine while a write that plugs it there may
//! still arrive, and nothing else holds a release up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kit::workqueue::pace::{Pace, Readiness};
use kit_client::backoff::Backoff;
use tokio::time::Instant;

use super::plan::{self, Change, Observed, SETTLE, Step, Times, desired_disks};
use crate::cache::objects::{Machine, Volume};
use crate::cache::state::State;
use crate::refusal::Failure;

/// Failures are tried again after 0.2 s at first, and every 15 s at last.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(15));
/// After how many refusals in a row a change is taken apart.
pub const MOST_REFUSALS: u32 = 3;

/// What is worked on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A virtual machine, by name: its disks.
    Machine(String),
    /// A volume, by identifier: who may have it.
    Volume(String),
}

/// What is to be done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// One write to this machine, decided on this state of it.
    Write(Machine, Change),
    /// The API is asked whether these machines have let go of a volume.
    Release(Volume, BTreeSet<String>),
}

/// What came of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Something was written.
    pub written: bool,
    /// Disks that were refused each for itself, and why.
    pub refused: BTreeMap<String, String>,
    /// Why the rest was not written.
    pub failure: Option<Failure>,
    /// Claims that a template names and that are somebody else's.
    pub foreign: BTreeSet<String>,
}

/// What has to be done now, and when to look again at the latest if nothing changes.
#[derive(Debug, Default)]
pub struct Due {
    /// Jobs of different keys; each is given back by [`Memory::finish`].
    pub jobs: Vec<(Key, Job)>,
    /// None: when something changes.
    pub wake: Option<Instant>,
}

impl Due {
    fn wake_at(&mut self, at: Instant) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
}

/// What is remembered of one machine.
#[derive(Clone, Debug)]
struct Writes {
    /// The last one. At first: when we began, because whoever was before us may have written at that
    /// time.
    wrote: Instant,
    /// Which state of the machine it was decided on; while a watch shows that one still, it tells
    /// nothing about the write.
    decided_on: Option<u64>,
    /// Since when something has to be written.
    pending_since: Option<Instant>,
    /// What the latest write changes.
    change: Change,
    /// Volumes of writes that nobody answered, and until when those may arrive yet.
    unanswered: BTreeMap<String, Instant>,
    /// Of changes of several disks, in a row.
    refusals: u32,
    /// Disks that are written one by one.
    alone: BTreeSet<String>,
    /// Claims in its template that are somebody else's.
    foreign: BTreeSet<String>,
    /// Why a disk is not there, by volume.
    complaints: BTreeMap<String, String>,
}

/// Everything that is remembered from one look to the next.
#[derive(Clone, Debug)]
pub struct Memory {
    began: Instant,
    turns: Pace<Key>,
    /// Of those that are written one by one: machine and volume.
    disks: Pace<(String, String)>,
    machines: BTreeMap<String, Writes>,
}

impl Memory {
    /// Nothing was seen before `began`.
    #[must_use]
    pub const fn new(began: Instant) -> Self {
        Self {
            began,
            turns: Pace::new(BACKOFF),
            disks: Pace::new(BACKOFF),
            machines: BTreeMap::new(),
        }
    }

    /// Why disks are not where they are to be, by machine and volume, in the tenant's words.
    pub fn complaints(&self) -> impl Iterator<Item = (&String, &BTreeMap<String, String>)> {
        let all = self.machines.iter();
        all.map(|(name, writes)| (name, &writes.complaints))
            .filter(|(_, complaints)| !complaints.is_empty())
    }

    /// Looks at everything. The jobs are in hand from now on.
    pub fn list_due(&mut self, state: &State, now: Instant) -> Due {
        let mut due = Due::default();
        self.forget(state, now);
        let desired = desired_disks(state);
        for (name, machine) in &state.machines {
            let desired = desired.get(name).map_or(&[][..], Vec::as_slice);
            if let Some(change) = self.change(state, machine, desired, now, &mut due) {
                let key = Key::Machine(name.clone());
                self.turns.take(key.clone());
                if let Some(writes) = self.machines.get_mut(name) {
                    writes.decided_on = Some(machine.version.number);
                    writes.change = change.clone();
                }
                due.jobs.push((key, Job::Write(machine.clone(), change)));
            }
        }
        for (id, volume) in &state.volumes {
            let free = self.free(state, volume, now, &mut due);
            let key = Key::Volume(id.clone());
            if !free.is_empty() && self.is_ready(&key, now, &mut due) {
                self.turns.take(key.clone());
                due.jobs.push((key, Job::Release(volume.clone(), free)));
            }
        }
        due
    }

    /// Takes in what came of a job. `random` is uniform in `[0, 1)`.
    pub fn finish(&mut self, key: &Key, outcome: Outcome, now: Instant, random: f64) {
        let Key::Machine(name) = key else {
            match outcome.written {
                true => self.turns.succeeded(key),
                // Nothing was to be done in truth, so a watch lags behind: it is given time.
                false => self.turns.failed(key, now, random),
            }
            return;
        };
        let (turns, disks) = (&mut self.turns, &mut self.disks);
        let Some(writes) = self.machines.get_mut(name) else {
            turns.succeeded(key);
            return;
        };
        let asked: Vec<_> = writes.change.disks().map(str::to_owned).collect();
        let mut refused = outcome.refused;
        // Nothing was to be done in truth, so a watch lags behind: it is given time.
        let mut failed = !outcome.written && refused.is_empty() && outcome.foreign.is_empty();
        failed |= !outcome.written && outcome.failure.is_some();
        match outcome.failure {
            None => {}
            Some(Failure::Refused(why)) if asked.len() == 1 => {
                refused.extend(asked.iter().map(|disk| (disk.clone(), why.to_owned())));
                failed = false;
            }
            Some(Failure::Refused(why)) => {
                writes.complain(why);
                writes.refusals += 1;
                if writes.refusals >= MOST_REFUSALS {
                    writes.refusals = 0;
                    writes.take_apart();
                    failed = false;
                }
            }
            Some(Failure::NotDone(why)) => writes.complain(why),
            Some(Failure::Unanswered(why)) => {
                writes.complain(why);
                let until = asked.iter().map(|disk| (disk.clone(), now + SETTLE));
                writes.unanswered.extend(until);
            }
        }
        if outcome.written {
            (writes.wrote, writes.pending_since, writes.refusals) = (now, None, 0);
            for disk in asked.iter().filter(|disk| !refused.contains_key(*disk)) {
                writes.alone.remove(disk);
                writes.complaints.remove(disk);
                disks.succeeded(&(name.clone(), disk.clone()));
            }
        } else {
            writes.decided_on = None;
        }
        for (disk, why) in refused {
            disks.failed(&(name.clone(), disk.clone()), now, random);
            writes.alone.insert(disk.clone());
            writes.complaints.insert(disk, why);
        }
        writes.foreign.extend(outcome.foreign);
        match failed {
            true => turns.failed(key, now, random),
            false => turns.succeeded(key),
        }
    }

    fn is_ready(&self, key: &Key, now: Instant, due: &mut Due) -> bool {
        match self.turns.readiness(key, now) {
            Readiness::Ready => true,
            Readiness::InHand => false,
            Readiness::Waits(at) => {
                due.wake_at(at);
                false
            }
        }
    }

    /// What is written to a machine now.
    fn change(
        &mut self,
        state: &State,
        machine: &Machine,
        desired: &[plan::DesiredDisk],
        now: Instant,
        due: &mut Due,
    ) -> Option<Change> {
        let name = &machine.name;
        if !self.is_ready(&Key::Machine(name.clone()), now, due) {
            return None;
        }
        let began = self.began;
        let all = self.machines.entry(name.clone());
        let writes = all.or_insert_with(|| Writes::new(began));
        let digests = writes.wrote + SETTLE;
        if writes.decided_on == Some(machine.version.number) && now < digests {
            due.wake_at(digests);
            return None;
        }
        let observed = Observed {
            machine: Some(machine),
            instance: state.instances.get(name),
            desired,
            foreign: &writes.foreign,
        };
        let pending = writes.pending_since;
        let times = Times {
            since_write: Some(now.saturating_duration_since(writes.wrote)),
            since_pending: pending.map_or(Duration::ZERO, |since| now - since),
        };
        match plan::plan(&observed, times) {
            Step::Rest => {
                writes.pending_since = None;
                writes.alone.clear();
                writes.complaints.clear();
                None
            }
            Step::Wait(wait) => {
                writes.pending_since.get_or_insert(now);
                due.wake_at(now + wait);
                None
            }
            Step::Write(change) => {
                let still: BTreeSet<_> = change.disks().collect();
                writes.alone.retain(|disk| still.contains(disk.as_str()));
                writes
                    .complaints
                    .retain(|disk, _| still.contains(disk.as_str()));
                self.part(name, change, now, due)
            }
        }
    }

    /// The part of a change that is written now.
    fn part(
        &self,
        machine: &str,
        mut change: Change,
        now: Instant,
        due: &mut Due,
    ) -> Option<Change> {
        // What is being released would be plugged without a holder.
        let released = |id: &String| self.turns.is_in_hand(&Key::Volume(id.clone()));
        change.plug.retain(|disk| !released(&disk.volume));
        let alone = &self.machines.get(machine)?.alone;
        let together = Change {
            plug: change
                .plug
                .iter()
                .filter(|d| !alone.contains(&d.volume))
                .cloned()
                .collect(),
            unplug: change
                .unplug
                .iter()
                .filter(|d| !alone.contains(*d))
                .cloned()
                .collect(),
        };
        if !together.is_empty() {
            return Some(together);
        }
        let mut next: Option<(u32, String)> = None;
        for disk in change.disks() {
            let key = (machine.to_owned(), disk.to_owned());
            match self.disks.readiness(&key, now) {
                Readiness::Waits(at) => due.wake_at(at),
                Readiness::InHand => {}
                // Who was refused least comes first.
                Readiness::Ready => {
                    let (failures, (_, disk)) = (self.disks.failures(&key), key);
                    if next.as_ref().is_none_or(|(least, _)| failures < *least) {
                        next = Some((failures, disk));
                    }
                }
            }
        }
        let (_, disk) = next?;
        change.plug.retain(|desired| desired.volume == disk);
        change.unplug.retain(|gone| *gone == disk);
        Some(change)
    }

    /// The machines that a volume may be released from: who is not to have it, or is gone, as far as
    /// is seen, and cannot get it by a write of ours any more.
    fn free(
        &self,
        state: &State,
        volume: &Volume,
        now: Instant,
        due: &mut Due,
    ) -> BTreeSet<String> {
        let mut free = BTreeSet::new();
        for name in &volume.holders.held {
            let kept = match volume.holders.wanted.contains(name) {
                true => state.machines.contains_key(name) || state.instances.contains_key(name),
                false => state.has(&volume.id, name),
            };
            if kept {
                continue;
            }
            let writes = self.machines.get(name);
            let plugs = |writes: &Writes| writes.change.plug.iter().any(|d| d.volume == volume.id);
            let in_hand = self.turns.is_in_hand(&Key::Machine(name.clone()));
            let until = writes.and_then(|writes| writes.unanswered.get(&volume.id));
            match until.filter(|until| **until > now) {
                _ if in_hand && writes.is_some_and(plugs) => {}
                Some(until) => due.wake_at(*until),
                None => {
                    free.insert(name.clone());
                }
            }
        }
        free
    }

    /// Nothing is kept of what is gone.
    fn forget(&mut self, state: &State, now: Instant) {
        let turns = &mut self.turns;
        turns.retain(|key| match key {
            Key::Machine(name) => state.machines.contains_key(name),
            Key::Volume(id) => state.volumes.contains_key(id),
        });
        self.machines.retain(|name, writes| {
            writes.unanswered.retain(|_, until| *until > now);
            state.machines.contains_key(name)
                || turns.is_in_hand(&Key::Machine(name.clone()))
                || !writes.unanswered.is_empty()
        });
        let machines = &self.machines;
        self.disks.retain(|(machine, disk)| {
            let writes = machines.get(machine);
            writes.is_some_and(|writes| writes.alone.contains(disk))
        });
    }
}

impl Writes {
    const fn new(began: Instant) -> Self {
        Self {
            wrote: began,
            decided_on: None,
            pending_since: None,
            change: Change {
                plug: Vec::new(),
                unplug: Vec::new(),
            },
            unanswered: BTreeMap::new(),
            refusals: 0,
            alone: BTreeSet::new(),
            foreign: BTreeSet::new(),
            complaints: BTreeMap::new(),
        }
    }

    /// All that was asked for is not there for this reason.
    fn complain(&mut self, why: &str) {
        let disks = self
            .change
            .disks()
            .map(|disk| (disk.to_owned(), why.to_owned()));
        self.complaints.extend(disks);
    }

    /// What goes out is seldom refused, so it is tried without what goes in first.
    fn take_apart(&mut self) {
        let plugged = self.change.plug.iter().map(|disk| disk.volume.clone());
        match self.change.plug.is_empty() {
            true => self.alone.extend(self.change.unplug.iter().cloned()),
            false => self.alone.extend(plugged),
        }
    }
}
