//! Control loop of attachments: brings virtual machines to what the holders in claims say, whenever
//! something changed: after a call, after somebody took a disk away, after a crash of ours.
//!
//! Invariant: one write at a time per machine, and one per claim; before a disk is taken out, and
//! before a machine is believed to be without a volume, the API itself is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kit_client::backoff::{Attempts, Backoff};
use kit_client::errors::Classify;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::plan::{self, Change, Observed, Step, Times, desired_disk, desired_disks};
use super::{holders, hotplug};
use crate::cache::objects::{Machine, Volume, may_write};
use crate::context::Context;
use crate::error::Error;

/// Failures are tried again after 0.2 s at first, and every 15 s at last.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(15));

/// What is worked on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// A virtual machine, by name: its disks.
    Machine(String),
    /// A volume, by identifier: who may have it.
    Volume(String),
}

/// What is remembered of one of them.
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// The last write to it. At first: when we began, because whoever was before us may have written
    /// to it at that time.
    wrote: Instant,
    /// Which state of it that write was decided on; while a watch shows that one still, it tells
    /// nothing about the write.
    decided_on: Option<u64>,
    /// Since when something has to be written.
    pending_since: Option<Instant>,
    not_before: Option<Instant>,
    in_hand: bool,
}

enum Job {
    Write(Machine, Change),
    Release(Volume),
}

/// Works until it is dropped.
pub struct Reconciler {
    ctx: Arc<Context>,
    began: Instant,
    memory: BTreeMap<Key, Memory>,
    attempts: Attempts<Key>,
}

impl Reconciler {
    /// One that has seen nothing.
    #[must_use]
    pub fn new(ctx: Arc<Context>) -> Self {
        Self {
            ctx,
            began: Instant::now(),
            memory: BTreeMap::new(),
            attempts: Attempts::new(BACKOFF),
        }
    }

    /// Never ends.
    pub async fn run(mut self) {
        self.ctx.cache.listed().await;
        self.began = Instant::now();
        let mut changes = self.ctx.cache.changes();
        let (done, mut finished) = mpsc::unbounded_channel();
        loop {
            changes.mark_unchanged();
            let (jobs, due) = self.list_due(Instant::now());
            for (key, job) in jobs {
                let (ctx, done, name) = (Arc::clone(&self.ctx), done.clone(), key.clone());
                tokio::spawn(async move {
                    let result = work(&ctx, job).await;
                    // Nobody listens any more when we stop.
                    let _ = done.send((name, result));
                });
            }
            tokio::select! {
                // The sender is the cache's, which lives as long as we do.
                _ = changes.changed() => {}
                Some((key, result)) = finished.recv() => self.finish(key, &result),
                () = tokio::time::sleep_until(due) => {}
            }
        }
    }

    /// What is due now, and when to ask again at the latest.
    fn list_due(&mut self, now: Instant) -> (Vec<(Key, Job)>, Instant) {
        let ctx = Arc::clone(&self.ctx);
        ctx.cache.read(|state| {
            let mut due = now + Duration::from_secs(60);
            let mut jobs = Vec::new();
            let desired = desired_disks(state);
            for (name, machine) in &state.machines {
                let key = Key::Machine(name.clone());
                let Some(memory) = self.begin(&key, now, &mut due) else {
                    continue;
                };
                let digests = memory.wrote + plan::SETTLE;
                if memory.decided_on == Some(machine.version.number) && now < digests {
                    due = due.min(digests);
                    continue;
                }
                let observed = Observed {
                    machine: Some(machine),
                    instance: state.instances.get(name),
                    desired: desired.get(name).map_or(&[], Vec::as_slice),
                    volumes: &state.volumes,
                };
                let times = Times {
                    since_write: Some(now.saturating_duration_since(memory.wrote)),
                    since_pending: memory
                        .pending_since
                        .map_or(Duration::ZERO, |since| now - since),
                };
                match plan::plan(&observed, times) {
                    Step::Rest => memory.pending_since = None,
                    Step::Wait(wait) => {
                        memory.pending_since.get_or_insert(now);
                        due = due.min(now + wait);
                    }
                    Step::Write(change) => {
                        memory.in_hand = true;
                        memory.decided_on = Some(machine.version.number);
                        jobs.push((key, Job::Write(machine.clone(), change)));
                    }
                }
            }
            for (id, volume) in &state.volumes {
                let kept =
                    |held: &String| volume.holders.wanted.contains(held) || state.has(id, held);
                // What is on its way to a machine may plug the volume there yet.
                let written = |held: &String| self.is_in_hand(&Key::Machine(held.clone()), now);
                if volume.holders.held.iter().all(kept) || volume.holders.held.iter().any(written) {
                    continue;
                }
                let key = Key::Volume(id.clone());
                if let Some(memory) = self.begin(&key, now, &mut due) {
                    memory.in_hand = true;
                    jobs.push((key, Job::Release(volume.clone())));
                }
            }
            self.memory.retain(|key, memory| {
                memory.in_hand
                    || match key {
                        Key::Machine(name) => state.machines.contains_key(name),
                        Key::Volume(id) => state.volumes.contains_key(id),
                    }
            });
            (jobs, due)
        })
    }

    /// The memory of what may be worked on now; none when it has to wait.
    fn begin(&mut self, key: &Key, now: Instant, due: &mut Instant) -> Option<&mut Memory> {
        let began = self.began;
        let memory = self.memory.entry(key.clone()).or_insert(Memory {
            wrote: began,
            decided_on: None,
            pending_since: None,
            not_before: None,
            in_hand: false,
        });
        if let Some(not_before) = memory.not_before.filter(|at| *at > now) {
            *due = not_before.min(*due);
            return None;
        }
        (!memory.in_hand).then_some(memory)
    }

    /// Whether something may be on its way to it: one that failed may have arrived all the same.
    fn is_in_hand(&self, key: &Key, now: Instant) -> bool {
        let memory = self.memory.get(key);
        memory.is_some_and(|memory| memory.in_hand || memory.not_before.is_some_and(|at| at > now))
    }

    fn finish(&mut self, key: Key, result: &Result<Done, Error>) {
        let now = Instant::now();
        let written = matches!(result, Ok(Done::Written));
        let not_before = if written {
            self.attempts.reset(&key);
            None
        } else {
            // Nothing was to be done in truth, so a watch lags behind: it is given time.
            Some(now + self.attempts.failed(&key))
        };
        if let Err(error) = result {
            tracing::warn!(
                key = ?key, error.class = error.class().label(), error = kit_client::errors::chain(error),
                "cannot bring volumes where they belong"
            );
        }
        if let Some(memory) = self.memory.get_mut(&key) {
            memory.in_hand = false;
            memory.not_before = not_before;
            if written {
                memory.wrote = now;
                memory.pending_since = None;
            } else {
                memory.decided_on = None;
            }
        }
    }
}

/// What came of a job.
enum Done {
    Written,
    Nothing,
}

async fn work(ctx: &Context, job: Job) -> Result<Done, Error> {
    match job {
        Job::Write(machine, change) => write(ctx, &machine, change).await,
        Job::Release(volume) => release(ctx, &volume).await,
    }
}

async fn write(ctx: &Context, machine: &Machine, mut change: Change) -> Result<Done, Error> {
    // A watch of machines may be ahead of the one of claims: what goes out has to be unwanted in
    // the claim as it is now.
    let mut unplug = Vec::new();
    for name in change.unplug {
        let volume = ctx.client.volume(&name).await?;
        let desired = volume
            .as_ref()
            .and_then(|volume| desired_disk(volume, &machine.name));
        if plan::goes(machine, &name, desired.as_ref()) {
            unplug.push(name);
        }
    }
    change.unplug = unplug;
    if change == Change::default() {
        return Ok(Done::Nothing);
    }
    let namespace = &ctx.settings.namespace;
    let hotplug = ctx.settings.offer.hotplug;
    hotplug::carry_out(hotplug, &ctx.kube, namespace, &ctx.cache, machine, &change).await?;
    let plugged: Vec<_> = change
        .plug
        .iter()
        .map(|disk| disk.volume.as_str())
        .collect();
    tracing::info!(
        machine.name = %machine.name, plugged = ?plugged, unplugged = ?change.unplug,
        "changed the disks of machine {}", machine.name
    );
    Ok(Done::Written)
}

async fn release(ctx: &Context, seen: &Volume) -> Result<Done, Error> {
    let Some(volume) = ctx.client.volume(&seen.id).await? else {
        return Ok(Done::Nothing);
    };
    let mut without = BTreeSet::new();
    for name in volume.holders.held.difference(&volume.holders.wanted) {
        let machine = ctx.client.machine(name).await?;
        let instance = ctx.client.instance(name).await?;
        if !may_write(&volume.id, machine.as_ref(), instance.as_ref()) {
            without.insert(name.clone());
        }
    }
    if without.is_empty() {
        return Ok(Done::Nothing);
    }
    ctx.client
        .set_holders(&volume, &holders::release(&volume, &without))
        .await?;
    tracing::info!(
        volume.id = %volume.id, machines = ?without,
        "volume {} is free of {without:?}", volume.id
    );
    Ok(Done::Written)
}
