//! Every fault at every step of a machine's life.
//!
//! Invariant: what is counted is read from the fake's journal, and never from what a client believes; a life that does not
//! end as it should is a failure, as a duplicate and an orphan are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use fake_clouds::clock::VirtualClock;
use fake_clouds::faults::Script;
use serde_json::{Value, json};

use crate::machine::{Machine, ROUND};
use crate::played::Played;

/// Rounds before a life counts as one without an end.
const ROUNDS: usize = 300;
/// Threads that lives are spread over.
const THREADS: usize = 2;
/// Failures that are told.
const TOLD: usize = 20;

/// How a life goes, beside its fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// It runs, and goes then.
    Whole,
    /// So many requests in a row have the fault.
    InARow(usize),
    /// A client that remembers nothing at each look, as after a new start of the operator.
    Anew,
    /// It is deleted right after the fault.
    Early,
}

/// Each way, and how much rarer than every step it is tried.
const WAYS: [(Way, usize); 4] = [
    (Way::Whole, 1),
    (Way::Early, 1),
    (Way::InARow(4), 3),
    (Way::Anew, 3),
];

/// What came of lives.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    lives: usize,
    steps: usize,
    faults: usize,
    /// Things that were there beside another one of the same Machine.
    duplicates: usize,
    /// Things that are left, or that nobody could find again.
    orphans: usize,
    /// Lives that did not end.
    stuck: usize,
    /// What went wrong, for people.
    pub(crate) failures: Vec<String>,
}

impl Lives {
    /// Whether all is as it must be.
    pub(crate) fn is_clean(&self) -> bool {
        self.duplicates == 0 && self.orphans == 0 && self.stuck == 0
    }

    /// Adds others.
    pub(crate) fn add(&mut self, other: Self) {
        self.lives += other.lives;
        self.steps += other.steps;
        self.faults += other.faults;
        self.duplicates += other.duplicates;
        self.orphans += other.orphans;
        self.stuck += other.stuck;
        self.failures.extend(other.failures);
        self.failures.truncate(TOLD);
    }

    /// Puts them into a report.
    pub(crate) fn told(&self, report: &mut Value) {
        report["duplicates"] = json!(self.duplicates);
        report["orphans"] = json!(self.orphans);
        report["stuck"] = json!(self.stuck);
        report["faults"] =
            json!({ "kinds": self.faults, "steps": self.steps, "lives": self.lives });
    }
}

/// Lives of one cloud: every fault at each `stride`th step, in every way.
pub(crate) fn every<P: Played>(stride: usize) -> Result<Lives> {
    let (steps, whole) = alone(life::<P>(Script::default(), Way::Whole, 0))?;
    if !whole.is_clean() {
        bail!("{} without any fault: {:?}", P::NAME, whole.failures);
    }
    let faults = P::faults();
    let mut plan = Vec::new();
    for (way, rarer) in WAYS {
        let stride = stride.max(1) * rarer;
        for (number, fault) in faults.iter().enumerate() {
            let from = number % stride;
            let of_fault = (from..steps).step_by(stride);
            plan.extend(of_fault.map(|step| (way, fault.clone(), step)));
        }
    }
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Lives::default()));
    let live = || -> Result<()> {
        while let Some((way, fault, step)) = plan.get(next.fetch_add(1, Ordering::Relaxed)) {
            let length = match way {
                Way::InARow(length) => *length,
                _ => 1,
            };
            let script = Script::default().and(*step, step + length, fault.clone());
            let context = format!("{} {way:?} {fault:?} at {step}", P::NAME);
            let (_, lives) = alone(life::<P>(script, *way, *step))?;
            let failures = lives.failures.iter();
            let failures = failures.map(|why| format!("{context}: {why}")).collect();
            let mut all = all.lock().map_err(|_| anyhow::anyhow!("a life panicked"))?;
            all.add(Lives { failures, ..lives });
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(live)).collect();
        for thread in threads {
            let ended = thread.join();
            ended.map_err(|_| anyhow::anyhow!("a life panicked"))??;
        }
        Ok(())
    })?;
    let lives = all.into_inner();
    let lives = lives.map_err(|_| anyhow::anyhow!("a life panicked"))?;
    Ok(Lives {
        steps,
        faults: faults.len(),
        ..lives
    })
}

/// In a runtime of its own: with it the fake ends.
fn alone<T>(life: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.context("no runtime")?.block_on(life)
}

/// One life, and how many requests it had.
async fn life<P: Played>(script: Script, way: Way, step: usize) -> Result<(usize, Lives)> {
    let clock = VirtualClock::default();
    let fake = P::start(clock.clone()).await?;
    fake.play(script);
    let mut machine = Machine::new::<P>(1, clock.now())?;
    let mut failures = Vec::new();
    let ran = match way {
        Way::Early => until_step::<P>(&fake, &clock, &mut machine, step).await,
        _ => until_running::<P>(&fake, &clock, &mut machine, way == Way::Anew).await,
    };
    failures.extend(ran.err().map(|why| format!("{why:#}")));
    let gone = until_gone::<P>(&fake, &clock, &mut machine, way == Way::Anew).await;
    failures.extend(gone.err().map(|why| format!("{why:#}")));
    let stuck = usize::from(!failures.is_empty());
    // What is under way still.
    clock.advance(Duration::from_secs(3600));
    let journal = fake.journal();
    let beside = |kind: &&str| journal.most_at_once(kind, P::LABEL).saturating_sub(1);
    let duplicates: usize = P::KINDS.iter().map(beside).sum();
    let left = journal.left();
    let orphans = left.len() + journal.came_without(P::LABEL);
    if duplicates > 0 {
        failures.push(format!("{duplicates} duplicates"));
    }
    if orphans > 0 {
        failures.push(format!("{orphans} orphans: {left:?}"));
    }
    let lives = Lives {
        lives: 1,
        duplicates,
        orphans,
        stuck,
        failures,
        ..Lives::default()
    };
    Ok((journal.entries.len(), lives))
}

async fn until_running<P: Played>(
    fake: &P,
    clock: &VirtualClock,
    machine: &mut Machine,
    anew: bool,
) -> Result<()> {
    let mut cloud = fake.client(clock)?;
    for _ in 0..ROUNDS {
        if machine.want::<P>(&cloud, clock.now()).await? {
            return Ok(());
        }
        if anew {
            cloud = fake.client(clock)?;
        }
        clock.advance(ROUND);
    }
    bail!("it does not run after {ROUNDS} rounds")
}

/// Until so many requests were made.
async fn until_step<P: Played>(
    fake: &P,
    clock: &VirtualClock,
    machine: &mut Machine,
    step: usize,
) -> Result<()> {
    let cloud = fake.client(clock)?;
    for _ in 0..ROUNDS {
        // One at rest is looked at again and again, so each step comes.
        machine.want::<P>(&cloud, clock.now()).await?;
        clock.advance(ROUND);
        if fake.requests() > step {
            return Ok(());
        }
    }
    bail!("no more requests after {ROUNDS} rounds")
}

/// `anew`: as often as an absence can still be proven.
async fn until_gone<P: Played>(
    fake: &P,
    clock: &VirtualClock,
    machine: &mut Machine,
    anew: bool,
) -> Result<()> {
    machine.goes(clock.now());
    let mut cloud = fake.client(clock)?;
    for round in 0..ROUNDS {
        if machine.leave(&cloud, clock.now()).await {
            return Ok(());
        }
        if anew && round % 3 == 0 {
            cloud = fake.client(clock)?;
        }
        clock.advance(ROUND);
    }
    bail!("it is not gone after {ROUNDS} rounds")
}
