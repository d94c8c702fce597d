//! `bench sleep`: how long the first client waits that asks the API of a tenant cluster that sleeps, and how long it takes to
//! fall asleep.
//!
//! Invariant: everything lives in the namespace of the run, which goes whatever happens; a client knows nothing of sleep.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde::Serialize;
use suites::scenario::{self, Scenario, sleeping};

use super::machine::Machine;
use super::place::unless_interrupted;
use super::report::{Spread, pair, table};
use super::round;

/// What it asks for.
const KEPT: &str = "kept";
/// Requests wake a tenant cluster at most so often in an hour.
const MOST_OF_ONE: usize = 4;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often one is waked.
    pub rounds: usize,
    /// Kubernetes version of the tenant clusters.
    pub version: String,
    /// How long any one step may take.
    pub patience: Duration,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where and when.
    pub machine: Machine,
    /// Kubernetes version of the tenant clusters.
    pub version: String,
    /// From the request of a client with a new connection to its answer, seconds.
    pub wake_s: Spread,
    /// From the change of `spec.hibernation.enabled` until nothing runs, seconds.
    pub sleep_s: Spread,
    /// Requests that failed before one was answered.
    pub refused: usize,
    /// What went wrong, in words.
    pub notes: Vec<String>,
}

impl Report {
    /// For people.
    #[must_use]
    pub fn table(&self) -> String {
        let rows = [
            (
                "request to answer asleep, s, p50 / p95",
                pair(&self.wake_s),
                "8",
            ),
            ("requests that failed before", self.refused.to_string(), "0"),
            ("put to sleep, s, p50 / p95", pair(&self.sleep_s), ""),
        ];
        table(&self.machine, &self.version, &rows, &self.notes)
    }
}

/// Measures. What it did is told to `say`.
///
/// # Errors
/// When the lab, the operator or the activator is missing, or an API fails.
pub async fn run(options: &Options, say: &(dyn Fn(String) + Sync)) -> Result<Report> {
    let mut measured = Measured::default();
    let machine = Machine::here();
    let taken = &mut measured;
    scenario::command("bench-sleep", async |s| {
        unless_interrupted(measure(s, options, taken, say)).await
    })
    .await?;
    Ok(Report {
        machine,
        version: options.version.clone(),
        wake_s: Spread::of(&measured.wakes),
        sleep_s: Spread::of(&measured.sleeps),
        refused: measured.notes.len(),
        notes: measured.notes,
    })
}

#[derive(Default)]
struct Measured {
    wakes: Vec<f64>,
    sleeps: Vec<f64>,
    notes: Vec<String>,
}

async fn measure(
    s: &Scenario,
    options: &Options,
    measured: &mut Measured,
    say: &(dyn Fn(String) + Sync),
) -> Result<()> {
    let mut left = options.rounds;
    for number in 0.. {
        let rounds = left.min(MOST_OF_ONE);
        if rounds == 0 {
            break;
        }
        left -= rounds;
        one(s, (number, rounds), options, measured, say).await?;
    }
    Ok(())
}

/// As often as requests may wake one.
async fn one(
    s: &Scenario,
    (number, rounds): (usize, usize),
    options: &Options,
    measured: &mut Measured,
    say: &(dyn Fn(String) + Sync),
) -> Result<()> {
    let name = format!("bench-{number}");
    let tenant = s
        .tenant(&name, |spec| spec.version.clone_from(&options.version))
        .await?;
    tenant.usable(options.patience).await?;
    tenant.settled(options.patience).await?;
    let maps: Api<ConfigMap> = Api::namespaced(tenant.admin(options.patience).await?, "default");
    let kept = ConfigMap {
        metadata: ObjectMeta {
            name: Some(KEPT.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &kept).await?;
    drop(maps);
    for _ in 0..rounds {
        let slept = sleeping::put_to_sleep(&tenant, options.patience).await?;
        let woken = sleeping::ask(&tenant, KEPT, options.patience).await?;
        let took = woken.took.as_secs_f64();
        measured.sleeps.push(slept.as_secs_f64());
        measured.wakes.push(took);
        measured.notes.extend(woken.refused);
        say(format!("{name} answered after {} s", round(took)));
        sleeping::keep_awake(&tenant, options.patience).await?;
    }
    tenant.delete().await?;
    tenant.gone(options.patience).await
}
