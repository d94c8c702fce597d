//! `bench control-plane`: tenants one after another, then in bursts, then nothing at all.
//!
//! Each of the first ones is deleted, and gone, before the next is created: so a creation shares
//! the machine with nothing but the management cluster. The idle minute and the memory per tenant
//! are measured with the tenants of the last burst still there.
//! Invariant: tenants live in the bench's own namespace, which goes whatever happens.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use api::condition::is_true;
use api::{ConditionType, TenantCluster, TenantClusterSpec};
use futures::future::join_all;
use kube::{Api, ResourceExt, api::ListParams};

use super::{
    Machine, Report, machine, observe,
    place::{self, sweep, unless_interrupted},
    processes::{self, IdleTenant},
    report::{Burst, OperatorCost, Spread},
    round,
};
use suites::cluster::{
    Management, OPERATOR_NAMESPACE, Tenant,
    audit::{Request, by_verb_and_resource},
    operator::{self, cpu_between, largest},
    wait::wait_for,
};

/// The operator may still write a status after the first answer.
const AFTERMATH: Duration = Duration::from_secs(2);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Tenants to create one after another.
    pub tenants: usize,
    /// Sizes of bursts.
    pub bursts: Vec<usize>,
    /// Kubernetes version of the tenants.
    pub version: String,
    /// How long one tenant, or one burst, may take.
    pub patience: Duration,
    /// How long nothing happens while requests are counted; none of it if zero.
    pub idle: Duration,
}

/// Measures. What it did is told to `say`.
///
/// # Errors
/// When the lab or the operator is missing, or the management API fails.
pub async fn run(options: &Options, say: &(dyn Fn(String) + Sync)) -> Result<Report> {
    let management = Management::connect().await?;
    let management = management
        .context("the lab is not up: `cargo xtask demo` brings it up with the operator")?;
    operator::usage(&management.client).await?;
    sweep(&management, say).await?;
    let namespace = place::create(&management).await?;
    let mut bench = Bench {
        management,
        options,
        namespace,
        say,
        report: empty(options),
    };
    let result = unless_interrupted(bench.measure()).await;
    let swept = sweep(&bench.management, say).await;
    result?;
    swept?;
    Ok(bench.report)
}

fn empty(options: &Options) -> Report {
    Report {
        machine: Machine::here(),
        version: options.version.clone(),
        tenants: options.tenants,
        usable_s: Spread::default(),
        ready_s: Spread::default(),
        standby_usable_s: Spread::default(),
        standby_ready_s: Spread::default(),
        operator: OperatorCost::default(),
        burst8_s: None,
        burst20_s: None,
        burst_restarts: None,
        writes_per_create: None,
        reads_per_create: None,
        core_s_per_create: None,
        idle_tenant: IdleTenant::default(),
        rollouts_per_create: None,
        requests_per_create: BTreeMap::new(),
        idle_requests_per_min: BTreeMap::new(),
        single_restarts: 0,
        bursts: Vec::new(),
        delete_s: Spread::default(),
        client_cpu_s_per_create: None,
        notes: Vec::new(),
    }
}

struct Bench<'a> {
    management: Management,
    options: &'a Options,
    namespace: String,
    say: &'a (dyn Fn(String) + Sync),
    report: Report,
}

impl Bench<'_> {
    fn note(&mut self, text: String) {
        (self.say)(text.clone());
        self.report.notes.push(text);
    }

    async fn create(&self, name: &str) -> Result<Tenant> {
        let version = self.options.version.clone();
        let spec = TenantClusterSpec {
            version,
            ..TenantClusterSpec::default()
        };
        Tenant::create(&self.management.client, &self.namespace, name, spec).await
    }

    async fn measure(&mut self) -> Result<()> {
        if self.standby().await? {
            return Ok(());
        }
        let all: Api<TenantCluster> = Api::all(self.management.client.clone());
        let others = all.list(&ListParams::default()).await?.items.len();
        if others > 0 {
            self.note(format!(
                "{others} other TenantClusters are there and disturb the figures"
            ));
        }
        let begin = operator::usage(&self.management.client).await?;
        self.report.operator.rss_mib = Some(round(largest(&begin)));
        self.one_by_one().await?;
        let bursts = self.options.bursts.clone();
        let mut kept = Vec::new();
        for count in bursts {
            self.remove(std::mem::take(&mut kept)).await?;
            kept = self.burst(count).await?;
        }
        if kept.is_empty() && !self.options.idle.is_zero() {
            kept.push(self.create("idle").await?);
        }
        self.idle(&kept).await?;
        self.remove(kept).await
    }

    /// Creations that take over a control plane that waits; false where the operator keeps none.
    async fn standby(&mut self) -> Result<bool> {
        let space = format!("{OPERATOR_NAMESPACE}-standby");
        let waiting: Api<TenantCluster> = Api::namespaced(self.management.client.clone(), &space);
        let found = waiting.list(&ListParams::default()).await?;
        let Some(name) = found.items.first().map(ResourceExt::name_any) else {
            return Ok(false);
        };
        let patience = self.options.patience;
        let (mut usable, mut ready, mut taken) = (Vec::new(), Vec::new(), String::new());
        for number in 0..self.options.tenants {
            let waits = |c: &TenantCluster| {
                let uid = c.uid().filter(|uid| *uid != taken)?;
                let conditions = &c.status.as_ref()?.conditions;
                is_true(conditions, ConditionType::Ready).then_some(uid)
            };
            taken = wait_for(&waiting, &name, "waits for somebody", patience, waits).await?;
            // As it is when nobody has just started anything.
            tokio::time::sleep(AFTERMATH).await;
            let tenant = self.create(&format!("taking-{number}")).await?;
            let (answer, condition) = tokio::join!(tenant.usable(patience), tenant.ready(patience));
            let (answer, (_, after)) = (answer?, condition?);
            let bears = tenant.get().await?.taken_over().map(|of| of.uid.clone());
            ensure!(
                bears.as_ref() == Some(&taken),
                "{} took nothing over",
                tenant.name
            );
            (self.say)(format!(
                "{}: {:.2?} usable, {after:.2?} Ready, taken over",
                tenant.name, answer.after
            ));
            usable.push(answer.after.as_secs_f64());
            ready.push(after.as_secs_f64());
            tenant.delete().await?;
            tenant.gone(Duration::from_secs(300)).await?;
        }
        self.report.standby_usable_s = Spread::of(&usable);
        self.report.standby_ready_s = Spread::of(&ready);
        Ok(true)
    }

    async fn one_by_one(&mut self) -> Result<()> {
        let (mut usable, mut ready, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
        let (mut cpu, mut requests, mut own) = (Vec::new(), Vec::new(), 0.0);
        let mut cores = Vec::new();
        for number in 0..self.options.tenants {
            let log = self.management.audit_log();
            let (mark, before) = (log.mark()?, operator::usage(&self.management.client).await?);
            let (own_before, busy_before) = (own_cpu(), machine::busy_s());
            let tenant = self.create(&format!("single-{number}")).await?;
            let patience = self.options.patience;
            let (answer, condition) = tokio::join!(tenant.usable(patience), tenant.ready(patience));
            own += own_cpu() - own_before;
            if answer.is_ok() && condition.is_ok() {
                tenant.settled(patience).await?;
                let busy = machine::busy_s();
                cores.extend(busy.zip(busy_before).map(|(now, then)| now - then));
            }
            // Not a wait for something to happen, but the length of what is measured.
            tokio::time::sleep(AFTERMATH).await;
            let after = operator::usage(&self.management.client).await?;
            cpu.extend(cpu_between(&before, &after));
            requests.extend(log.since(mark)?.into_iter().filter(Request::is_operators));
            self.report.single_restarts += observe::restarts(&tenant).await?;
            let rollouts = Some(observe::rollouts(&tenant).await?);
            self.report.rollouts_per_create = self.report.rollouts_per_create.max(rollouts);
            match (answer, condition) {
                (Ok(answer), Ok((_, after))) => {
                    (self.say)(format!(
                        "{}: {:.2?} usable, {after:.2?} Ready",
                        tenant.name, answer.after
                    ));
                    usable.push(answer.after.as_secs_f64());
                    ready.push(after.as_secs_f64());
                }
                (Err(error), _) | (_, Err(error)) => {
                    self.note(format!("{}: {error:#}", tenant.name));
                }
            }
            let asked = Instant::now();
            tenant.delete().await?;
            tenant.gone(Duration::from_secs(300)).await?;
            deleted.push(asked.elapsed().as_secs_f64());
        }
        let report = &mut self.report;
        report.usable_s = Spread::of(&usable);
        report.ready_s = Spread::of(&ready);
        report.delete_s = Spread::of(&deleted);
        let per_create =
            |total: f64, count: usize| (count > 0).then(|| round(total / count as f64));
        report.operator.cpu_s_per_create = per_create(cpu.iter().sum(), cpu.len());
        report.client_cpu_s_per_create = per_create(own, self.options.tenants);
        let writes = requests.iter().filter(|r| r.is_write()).count();
        report.writes_per_create = per_create(writes as f64, self.options.tenants);
        let reads = requests.iter().filter(|r| r.is_read()).count();
        report.reads_per_create = per_create(reads as f64, self.options.tenants);
        report.core_s_per_create = per_create(cores.iter().sum(), cores.len());
        report.requests_per_create = shares(&requests, self.options.tenants as f64);
        Ok(())
    }

    async fn burst(&mut self, count: usize) -> Result<Vec<Tenant>> {
        let before = operator::usage(&self.management.client).await?;
        let begun = Instant::now();
        let names: Vec<_> = (0..count).map(|n| format!("burst{count}-{n}")).collect();
        let created = join_all(names.iter().map(|name| self.create(name))).await;
        let tenants = created.into_iter().collect::<Result<Vec<_>>>()?;
        let answers = join_all(tenants.iter().map(|t| t.usable(self.options.patience))).await;
        let total = begun.elapsed().as_secs_f64();
        let mut each: Vec<_> = answers
            .iter()
            .flatten()
            .map(|answer| round(answer.after.as_secs_f64()))
            .collect();
        each.sort_by(f64::total_cmp);
        let usable = each.len();
        let seconds = (usable == count).then(|| round(total));
        for (tenant, answer) in tenants.iter().zip(&answers) {
            match answer {
                Err(error) => self.note(format!("{}: {error:#}", tenant.name)),
                Ok(_) => {
                    tenant.settled(self.options.patience).await?;
                }
            }
        }
        let restarts = join_all(tenants.iter().map(observe::restarts)).await;
        let restarts = restarts.into_iter().sum::<Result<i64>>()?;
        let after = operator::usage(&self.management.client).await?;
        if before.keys().ne(after.keys()) {
            self.note(format!("operator pods changed during the burst of {count}"));
        }
        (self.say)(format!(
            "burst of {count}: {usable} usable after {total:.1} s, {restarts} restarts"
        ));
        match count {
            8 => self.report.burst8_s = seconds,
            20 => self.report.burst20_s = seconds,
            _ => {}
        }
        *self.report.burst_restarts.get_or_insert(0) += restarts;
        self.report.bursts.push(Burst {
            count,
            usable,
            seconds,
            each,
            restarts,
            rss_mib: round(largest(&after)),
        });
        self.report.operator.rss_mib_per_tenant = self.rss_per_tenant();
        Ok(tenants)
    }

    /// What each further tenant adds: between the smallest and the largest burst, so that the parts
    /// of the program that the first tenant touches are not charged to tenants; with one burst only,
    /// since before the first tenant.
    fn rss_per_tenant(&self) -> Option<f64> {
        let bursts = || self.report.bursts.iter();
        let largest = bursts().max_by_key(|b| b.count)?;
        let smallest = bursts().min_by_key(|b| b.count)?;
        let (from, count) = if smallest.count < largest.count {
            (smallest.rss_mib, smallest.count)
        } else {
            (self.report.operator.rss_mib?, 0)
        };
        Some(round(
            (largest.rss_mib - from) / (largest.count - count) as f64,
        ))
    }

    async fn idle(&mut self, tenants: &[Tenant]) -> Result<()> {
        let idle = self.options.idle;
        if idle.is_zero() {
            return Ok(());
        }
        for tenant in tenants {
            tenant.settled(self.options.patience).await?;
        }
        (self.say)(format!(
            "nothing for {idle:?} with {} tenants",
            tenants.len()
        ));
        tokio::time::sleep(AFTERMATH).await;
        let log = self.management.audit_log();
        let (mark, before) = (log.mark()?, operator::usage(&self.management.client).await?);
        let (begun, at_rest) = (Instant::now(), processes::of(tenants).await?);
        tokio::time::sleep(idle).await;
        let (slept, rested) = (begun.elapsed(), processes::of(tenants).await?);
        let tenant = processes::idle(&at_rest, &rested, slept, tenants.len());
        self.report.idle_tenant = tenant.map(round);
        let after = operator::usage(&self.management.client).await?;
        let mut requests = log.since(mark)?;
        requests.retain(Request::is_operators);
        let minutes = idle.as_secs_f64() / 60.0;
        let writes = requests.iter().filter(|r| r.is_write()).count() as f64;
        let cost = &mut self.report.operator;
        cost.idle_writes_per_min = Some(round(writes / minutes));
        cost.idle_cpu_s_per_min = cpu_between(&before, &after).map(|cpu| round(cpu / minutes));
        cost.idle_tenants = tenants.len();
        self.report.idle_requests_per_min = shares(&requests, minutes);
        Ok(())
    }

    async fn remove(&self, tenants: Vec<Tenant>) -> Result<()> {
        for tenant in &tenants {
            tenant.delete().await?;
        }
        for tenant in &tenants {
            tenant.gone(Duration::from_secs(600)).await?;
        }
        Ok(())
    }
}

fn shares(requests: &[Request], by: f64) -> BTreeMap<String, f64> {
    let counts = by_verb_and_resource(requests);
    counts
        .into_iter()
        .map(|(what, count)| (what, round(count as f64 / by)))
        .collect()
}

fn own_cpu() -> f64 {
    kit::metrics::usage().map_or(0.0, |usage| usage.cpu_seconds)
}
