//! Control loop of attachments: brings virtual machines to what the holders in claims say, whenever
//! something changed: after a call, after somebody took a disk away, after a crash of ours. What is
//! done is [`super::step`]'s to say.
//!
//! Invariant: one write at a time per machine, and one per claim; before a disk is taken out, and
//! before a machine is believed to be without a volume, the API itself is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{join_all, join3};
use kit::workqueue::{self, Priority, Queue};
use kit_client::errors::{Class, Classify, chain};
use tokio::time::Instant;

use super::hotplug::Answer;
use super::plan::{self, Change, desired_disk};
use super::step::{Job, Key, Memory, Outcome};
use super::{holders, hotplug};
use crate::cache::objects::{Machine, Volume, may_write};
use crate::client::Found;
use crate::context::Context;
use crate::error::Error;
use crate::refusal::{self, Failure};

/// Jobs at a time.
const WORKERS: usize = 16;
/// Jobs at a time that only release volumes, besides: all others may wait for requests that a flood of claims
/// has used up.
const URGENT: usize = 4;

/// Whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Everything is looked at.
    List,
    /// A job that is due.
    Job(Key),
}

/// What only releases does not wait behind what is given out.
const fn priority(job: &Job) -> Priority {
    match job {
        Job::Release(..) => Priority::Urgent,
        Job::Write(_, change) if change.plug.is_empty() => Priority::Urgent,
        Job::Write(..) => Priority::Normal,
    }
}

struct Inner {
    memory: Memory,
    jobs: BTreeMap<Key, Job>,
    /// When everything is looked at again at the latest.
    wake: Option<Instant>,
}

/// Works until it is dropped.
pub struct Reconciler {
    ctx: Arc<Context>,
    queue: Queue<Turn>,
    inner: Mutex<Inner>,
}

impl Reconciler {
    /// One that has seen nothing.
    #[must_use]
    pub fn new(ctx: Arc<Context>) -> Self {
        Self {
            ctx,
            queue: Queue::new(),
            inner: Mutex::new(Inner {
                memory: Memory::new(Instant::now()),
                jobs: BTreeMap::new(),
                wake: None,
            }),
        }
    }

    /// Never ends.
    pub async fn run(self) {
        self.ctx.cache.listed().await;
        // Whoever was before us may have written until now.
        self.lock().memory = Memory::new(Instant::now());
        let workers = (0..WORKERS).map(|_| self.work(false));
        let urgent = (0..URGENT).map(|_| self.work(true));
        join3(self.listen(), join_all(workers), join_all(urgent)).await;
    }

    async fn listen(&self) {
        let mut changes = self.ctx.cache.changes();
        loop {
            self.queue.add_with(Turn::List, Priority::Urgent);
            // The sender is the cache's, which lives as long as we do.
            let _ = changes.changed().await;
        }
    }

    async fn work(&self, urgent: bool) {
        loop {
            let workqueue::Turn { key: turn, age, .. } = match urgent {
                true => self.queue.next_urgent().await,
                false => self.queue.next().await,
            };
            match &turn {
                Turn::List => self.list_due(),
                Turn::Job(key) => self.carry_out(key, age).await,
            }
            self.queue.done(&turn);
        }
    }

    fn list_due(&self) {
        let now = Instant::now();
        let mut inner = self.lock();
        let due = self.ctx.cache.read(|state| {
            self.ctx.metrics.observe(state, now);
            inner.memory.list_due(state, now)
        });
        for (key, job) in due.jobs {
            let priority = priority(&job);
            inner.jobs.insert(key.clone(), job);
            self.queue.add_with(Turn::Job(key), priority);
        }
        let passed = |at: &Instant| *at > now;
        let earlier = inner.wake.filter(passed);
        if let Some(wake) = due.wake
            && earlier.is_none_or(|at| wake < at)
        {
            inner.wake = Some(wake);
            let wait = wake - now;
            self.queue
                .add_after_with(Turn::List, wait, Priority::Urgent);
        }
        self.tell(&inner.memory);
    }

    async fn carry_out(&self, key: &Key, age: Duration) {
        let Some(job) = self.lock().jobs.remove(key) else {
            return;
        };
        let run = self.ctx.metrics.attachments.begin(age);
        let result = match &job {
            Job::Write(machine, change) => write(&self.ctx, machine, change.clone()).await,
            Job::Release(volume, from) => {
                let outcome = release(&self.ctx, volume, from).await;
                outcome.map(|outcome| (outcome, None))
            }
        };
        let (outcome, class) = result.unwrap_or_else(|error| {
            log(key, &error);
            let outcome = Outcome {
                failure: Some(refusal::of_disk(error.code(), &chain(&error))),
                ..Outcome::default()
            };
            (outcome, Some(error.class()))
        });
        run.finish(class);
        let mut inner = self.lock();
        inner
            .memory
            .finish(key, outcome, Instant::now(), rand::random());
        self.tell(&inner.memory);
        drop(inner);
        self.queue.add_with(Turn::List, Priority::Urgent);
    }

    fn tell(&self, memory: &Memory) {
        let all = memory.complaints();
        let all = all.map(|(machine, complaints)| (machine.clone(), complaints.clone()));
        self.ctx.complaints.replace(all.collect());
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log(key: &Key, error: &Error) {
    tracing::warn!(
        key = ?key, error.class = error.class().label(), error = chain(error),
        "cannot bring volumes where they belong"
    );
}

/// What came of it, and the class of the first error where a part of it failed.
async fn write(
    ctx: &Context,
    machine: &Machine,
    mut change: Change,
) -> Result<(Outcome, Option<Class>), Error> {
    // A watch of machines may be ahead of the one of claims: what goes out has to be unwanted in
    // the claim as it is now.
    let mut outcome = Outcome::default();
    let mut unplug = Vec::new();
    for name in change.unplug {
        let desired = match ctx.urgent.claim(&name).await? {
            Found::Ours(volume) => desired_disk(&volume, &machine.name),
            Found::Nothing => None,
            Found::Foreign => {
                outcome.foreign.insert(name);
                continue;
            }
        };
        if plan::goes(machine, &name, desired.as_ref()) {
            unplug.push(name);
        }
    }
    change.unplug = unplug;
    if change.is_empty() {
        return Ok((outcome, None));
    }
    let namespace = &ctx.settings.namespace;
    let way = ctx.settings.offer.hotplug;
    let cache = &ctx.cache;
    let client = match change.plug.is_empty() {
        true => &ctx.kube.urgent,
        false => &ctx.kube.usual,
    };
    let answers = hotplug::carry_out(way, client, namespace, cache, machine, &change).await;
    for answer in &answers {
        match &answer.result {
            Ok(()) => tracing::info!(
                machine.name = %machine.name, volumes = ?answer.disks, unplugged = ?change.unplug,
                "changed the disks of machine {}", machine.name
            ),
            Err(error) => log(&Key::Machine(machine.name.clone()), error),
        }
    }
    let mut failed = answers.iter().filter_map(|a| a.result.as_ref().err());
    let class = failed.next().map(Classify::class);
    Ok((judge(&answers, outcome), class))
}

/// What came of all requests of a write.
fn judge(answers: &[Answer], mut outcome: Outcome) -> Outcome {
    for answer in answers {
        let Err(error) = &answer.result else {
            outcome.written = true;
            continue;
        };
        match (
            refusal::of_disk(error.code(), &chain(error)),
            answer.disks.as_slice(),
        ) {
            (Failure::Refused(why), [disk]) => {
                outcome.refused.insert(disk.clone(), why.to_owned());
            }
            // That something may arrive yet is worse than anything else.
            (failure, _) if !matches!(outcome.failure, Some(Failure::Unanswered(_))) => {
                outcome.failure = Some(failure);
            }
            _ => {}
        }
    }
    outcome
}

async fn release(ctx: &Context, seen: &Volume, from: &BTreeSet<String>) -> Result<Outcome, Error> {
    let Some(volume) = ctx.urgent.volume(&seen.id).await? else {
        return Ok(Outcome::default());
    };
    let (mut without, mut gone) = (BTreeSet::new(), BTreeSet::new());
    for name in volume.holders.held.intersection(from) {
        let machine = ctx.urgent.machine(name).await?;
        let instance = ctx.urgent.instance(name).await?;
        if machine.is_none() && instance.is_none() {
            gone.insert(name.clone());
        } else if !may_write(&volume.id, machine.as_ref(), instance.as_ref()) {
            without.insert(name.clone());
        }
    }
    let holders = holders::release(&volume, &without, &gone);
    if holders == volume.holders {
        return Ok(Outcome::default());
    }
    ctx.urgent.set_holders(&volume, &holders).await?;
    tracing::info!(
        volume.id = %volume.id, machines = ?without, gone = ?gone,
        "volume {} is free of {without:?}{gone:?}", volume.id
    );
    Ok(Outcome {
        written: true,
        ..Outcome::default()
    })
}
