//! Measures an operator that has a fleet of tenant clusters: how long they take to be made, what it needs when they rest,
//! how long nobody acts for them after a crash, and what an upgrade of it does to them.
//!
//! What is created is created as the program does it by itself up to the first number of tenant clusters; up to the
//! further ones it may ask faster, because that only takes time, and another one that asks as it does by itself takes over.
//! Invariant: goals are only said beside the figures: none of them fails the bench.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use api::{ConditionType, Reason, TenantCluster};
use serde_json::{Value, json};
use testkit::AuditEntry;
use testkit::figures::round;
use testkit::fixtures::{ask_until, is_settled};
use testkit::waiting::Watched;

use crate::process::{Launch, Operator};
use crate::site::{Site, USER};

/// Measures an operator that has a fleet of tenant clusters
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The operator's program
    #[arg(long)]
    program: PathBuf,
    /// Tenant clusters with which all is measured, one number after the other, each higher than the one before
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000])]
    tenants: Vec<usize>,
    /// Requests a second by which the further ones are made
    #[arg(long, default_value_t = 1500)]
    fill_qps: u32,
    /// Seconds of rest in which writes are counted
    #[arg(long, default_value_t = 30)]
    idle: u64,
    /// Seconds that one step may take
    #[arg(long, default_value_t = 1200)]
    patience: u64,
    /// Where the operators' log is kept. Default: nowhere
    #[arg(long)]
    log: Option<PathBuf>,
}

/// What is wanted of one process.
const GOAL_CREATED_S: f64 = 60.0;
const GOAL_MIB: f64 = 150.0;
const GOAL_TAKEN_OVER_S: f64 = 30.0;
/// For how long each look at one that was at rest may take after another one leads ([`operator::turns::Pace`]).
const LOOK: Duration = Duration::from_millis(110);
/// After the last look, until all that came of it is written.
const CALM: Duration = Duration::from_secs(10);

/// Measures, and gives the figures.
pub(crate) async fn run(args: &Args) -> Result<Value> {
    let patience = Duration::from_secs(args.patience);
    let site = Site::new(&args.program, args.log.as_deref(), patience).await?;
    let mut bench = Bench {
        clusters: Watched::start(site.clusters()),
        site: &site,
        patience,
        idle: Duration::from_secs(args.idle),
        made: 0,
        started: 0,
    };
    let mut stages = Vec::new();
    for (number, tenants) in args.tenants.iter().enumerate() {
        let rate = (number > 0).then_some(args.fill_qps);
        stages.push(bench.stage(*tenants, rate).await?);
    }
    Ok(json!({
        "goals": {
            "created_s": GOAL_CREATED_S, "rss_mib": GOAL_MIB, "writes": 0, "taken_over_s": GOAL_TAKEN_OVER_S,
            "restarted_pods": 0,
        },
        "stages": stages,
    }))
}

struct Bench<'a> {
    site: &'a Site,
    clusters: Watched<TenantCluster>,
    patience: Duration,
    idle: Duration,
    /// Tenant clusters that were made so far.
    made: usize,
    /// Operators that were started so far: each has its name.
    started: usize,
}

impl Bench<'_> {
    /// All of it with so many; `rate`: how fast the operator may ask while they are made.
    async fn stage(&mut self, tenants: usize, rate: Option<u32>) -> Result<Value> {
        let site = self.site;
        let filler = Launch {
            rate,
            ..site.launch.clone()
        };
        let (_, filler) = self.start(&filler)?;
        let made = tenants.saturating_sub(self.made);
        let window = site.api.audit().window()?;
        let created = self.create(tenants).await?;
        let requests = of_operators(window.entries()?);
        let writes = requests.iter().filter(|entry| entry.is_write()).count();
        let per_one = |count: usize| round(count as f64 / made.max(1) as f64);
        let after_creation = filler.used()?;
        eprintln!(
            "{tenants}: {made} made in {created:.1?}, {:.1} MiB",
            after_creation.rss_mib
        );

        let (name, heir) = self.start(&site.launch)?;
        let taken_over = self.crash(filler, &name).await?;
        eprintln!("{tenants}: {taken_over}");

        let looks = LOOK * u32::try_from(tenants)? + CALM;
        let window = site.api.audit().window()?;
        tokio::time::sleep(looks).await;
        let of_looks = of_operators(window.entries()?);
        let (window, before) = (site.api.audit().window()?, heir.used()?);
        tokio::time::sleep(self.idle).await;
        let (idle, after) = (of_operators(window.entries()?), heir.used()?);
        let written = |entries: &[AuditEntry]| -> Vec<String> {
            let writes = entries.iter().filter(|entry| entry.is_write());
            writes
                .map(|entry| format!("{} {}", entry.verb, entry.uri))
                .collect()
        };
        let seconds = self.idle.as_secs_f64().max(1.0);
        eprintln!(
            "{tenants}: at rest {:.1} MiB, writes: {:?}",
            after.rss_mib,
            written(&idle)
        );
        let upgrade = self.upgrade(tenants, heir).await?;
        eprintln!("{tenants}: {upgrade}");
        Ok(json!({
            "tenants": tenants, "made": made, "as_it_does_by_itself": rate.is_none(),
            "created_s": round(created.as_secs_f64()),
            "reads_per_create": per_one(requests.len() - writes), "writes_per_create": per_one(writes),
            "rss_mib": {
                "after_creation": round(after_creation.rss_mib), "at_rest": round(after.rss_mib),
                "most": round(after_creation.peak_mib.max(after.peak_mib)),
            },
            "taken_over": taken_over,
            "writes_of_first_looks": written(&of_looks).len(),
            "idle": {
                "seconds": seconds, "writes": written(&idle).len(), "reads_per_s": round((idle.len() - written(&idle).len()) as f64 / seconds),
                "cores": round((after.cpu_s - before.cpu_s) / seconds),
            },
            "upgrade": upgrade,
        }))
    }

    fn start(&mut self, launch: &Launch) -> Result<(String, Operator)> {
        self.started += 1;
        let name = format!("operator-{}", self.started);
        let operator = launch.start(&name)?;
        Ok((name, operator))
    }

    /// Waits until so many are so.
    async fn until(
        &self,
        what: &str,
        tenants: usize,
        is: impl Fn(&TenantCluster) -> bool,
    ) -> Result<Duration> {
        let begin = Instant::now();
        let wanted = self.clusters.until(what, self.patience, |seen| {
            seen.all.values().filter(|cluster| is(cluster)).count() >= tenants
        });
        wanted.await?;
        Ok(begin.elapsed())
    }

    /// Makes as many as there are then, and waits until all are up.
    async fn create(&mut self, tenants: usize) -> Result<Duration> {
        let (site, begin) = (self.site, Instant::now());
        site.create_all(self.made..tenants).await?;
        self.made = self.made.max(tenants);
        self.until("all are up", tenants, is_settled).await?;
        Ok(begin.elapsed())
    }

    /// Ends the one that leads as the kernel would; the other one has this name. Gives how long it took until that led, and
    /// until a change that came right after the end was carried out.
    async fn crash(&self, mut leads: Operator, heir: &str) -> Result<Value> {
        // It has seen all that there is before.
        tokio::time::sleep(CALM).await;
        leads.process.kill();
        let begin = Instant::now();
        let name = "t-0";
        self.site.scale(name, 2).await?;
        ask_until("the other one leads", self.patience, || async {
            let holder = self.site.leader().await?;
            Ok(match holder.as_deref() == Some(heir) {
                true => Ok(()),
                false => Err(format!("{holder:?}")),
            })
        })
        .await?;
        let leads = begin.elapsed();
        let is_done = |cluster: &TenantCluster| {
            cluster.metadata.name.as_deref() == Some(name) && is_settled(cluster)
        };
        // Its watch may be behind: a generation that it has not seen is settled.
        let changed = self
            .clusters
            .until("the change is seen", self.patience, |seen| {
                let replicas = seen.all.get(name).map(|c| c.spec.control_plane.replicas);
                replicas == Some(2)
            });
        changed.await?;
        self.until("the change is carried out", 1, is_done).await?;
        let carried_out = begin.elapsed();
        // As all others are, for the next stage.
        self.site.scale(name, 1).await?;
        Ok(json!({
            "leads_s": round(leads.as_secs_f64()),
            "change_carried_out_s": round(carried_out.as_secs_f64()),
        }))
    }

    /// Another operator, with other templates, under a policy by which nobody begins: whose pods are others then?
    async fn upgrade(&mut self, tenants: usize, leads: Operator) -> Result<Value> {
        self.until("all are up before the upgrade", tenants, is_settled)
            .await?;
        self.site.hold_all().await?;
        let before = self.site.pods().await?;
        leads.stop().await?;
        let other = Launch {
            settings: self.site.other_settings()?,
            ..self.site.launch.clone()
        };
        let (_, other) = self.start(&other)?;
        let told = self.until("all say that they wait", tenants, waits).await;
        let told = told.context("not all say that they wait for their turn");
        if let Err(error) = &told {
            eprintln!("{error:#}");
        }
        let after = self.site.pods().await?;
        let used = other.used()?;
        other.stop().await?;
        Ok(json!({
            "pods": before.len(), "restarted_pods": before.difference(&after).count(),
            "new_pods": after.difference(&before).count(),
            "all_wait_s": told.ok().map(|took| round(took.as_secs_f64())),
            "rss_mib": round(used.rss_mib),
        }))
    }
}

/// Whether it waits for its turn to follow the operator.
fn waits(cluster: &TenantCluster) -> bool {
    let mut conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|c| {
        c.type_ == ConditionType::Progressing.as_str() && c.reason == Reason::WaitingForRollout
    })
}

/// What operators asked for, their Leases aside.
pub(crate) fn of_operators(mut entries: Vec<AuditEntry>) -> Vec<AuditEntry> {
    entries.retain(|entry| entry.user == USER && !entry.is_lease());
    entries
}
