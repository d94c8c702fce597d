//! `bench workers`: a control plane that scales and renews its certificates under a steady client,
//! then node pools of one, one after another, then a bigger one that shrinks, grows and rolls.
//!
//! All of it in one tenant cluster. Each pool of one is gone before the next is made, so its virtual
//! machine shares the processors with nothing but the management cluster and that tenant's control
//! plane.
//! Invariant: everything lives in the bench's own namespace, which goes whatever happens.

mod boot;
mod renewal;
mod report;
mod timeline;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use api::{TenantCluster, TenantClusterSpec};
use kube::{Api, api::ListParams};
use serde_json::json;

pub use boot::Systemd;
pub use report::{Phases, Report, Sizes};

use super::{
    Machine,
    place::{self, sweep, unless_interrupted},
    report::Spread,
    round,
};
use suites::{
    cluster::{Management, Pool, Tenant, operator, pool},
    scenario::{kubectl::Kubectl, steady::Steady},
};
use timeline::{Moment, Timeline};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pools of one to make one after another.
    pub rounds: usize,
    /// Size of the bigger pool; none of it if zero.
    pub pool: i32,
    /// Whether the control plane is scaled and renewed under a steady client.
    pub steady: bool,
    /// Kubernetes version of tenant cluster and nodes.
    pub version: String,
    /// How long any one step may take.
    pub patience: Duration,
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
    if options.rounds > 0 || options.pool > 0 {
        management.virtual_machines().await?;
    }
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
        rounds: options.rounds,
        pool_to_vm_s: Spread::default(),
        vm_running_to_ready_s: Spread::default(),
        phases: Phases::default(),
        vm_to_machine_s: Spread::default(),
        pool_ready_s: Spread::default(),
        pool_delete_s: Spread::default(),
        pool: None,
        systemd: None,
        failed_requests: None,
        answered_requests: None,
        longest_gap_s: None,
        failures: Vec::new(),
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

/// The values of all rounds, by figure.
type Values = BTreeMap<&'static str, Vec<f64>>;

impl Bench<'_> {
    fn note(&mut self, text: String) {
        (self.say)(text.clone());
        self.report.notes.push(text);
    }

    async fn measure(&mut self) -> Result<()> {
        let all: Api<TenantCluster> = Api::all(self.management.client.clone());
        let others = all.list(&ListParams::default()).await?.items.len();
        if others > 0 {
            self.note(format!(
                "{others} other TenantClusters are there and disturb the figures"
            ));
        }
        let spec = TenantClusterSpec {
            version: self.options.version.clone(),
            ..TenantClusterSpec::default()
        };
        let client = &self.management.client;
        let tenant = Tenant::create(client, &self.namespace, "bench", spec).await?;
        let inside = tenant.usable(self.options.patience).await?.client;
        tenant.settled(self.options.patience).await?;
        if self.options.steady {
            self.steady(&tenant).await?;
        }
        let timeline = Timeline::of(&tenant, inside);
        self.one_by_one(&tenant, &timeline).await?;
        if self.options.pool > 0 {
            self.bigger(&tenant, &timeline).await?;
        }
        Ok(())
    }

    /// Scales 1 → 3 → 1 and renews every leaf certificate while a client asks steadily.
    async fn steady(&mut self, tenant: &Tenant) -> Result<()> {
        let patience = self.options.patience;
        let kubeconfig = tenant.kubeconfig(patience).await?;
        let client = Steady::start(&kubeconfig).await?;
        let mut result = Ok(());
        for replicas in [3, 1] {
            if result.is_ok() {
                let begun = Instant::now();
                result = renewal::scale(tenant, replicas, patience).await;
                let failed = client.so_far().failed();
                (self.say)(format!(
                    "{replicas} control-plane pods after {:.1?}, {failed} failed requests so far",
                    begun.elapsed()
                ));
            }
        }
        if result.is_ok() {
            let begun = Instant::now();
            result = renewal::renew(tenant, patience).await;
            let failed = client.so_far().failed();
            (self.say)(format!(
                "certificates renewed and served after {:.1?}, {failed} failed requests so far",
                begun.elapsed()
            ));
        }
        let outcome = client.finish().await?;
        result?;
        self.report.failed_requests = Some(outcome.failed());
        self.report.answered_requests = Some(outcome.answered());
        self.report.longest_gap_s = Some(round(outcome.gap().as_secs_f64()));
        self.report.failures = outcome.failures();
        Ok(())
    }

    fn spec(&self, replicas: i32) -> api::NodePoolSpec {
        let mut spec = pool::small("bench");
        spec.replicas = replicas;
        if let Some(kubevirt) = spec.provider.as_mut().and_then(|p| p.kubevirt.as_mut()) {
            // Nobody reads it here, and a console costs the emulated processor something.
            kubevirt.serial_console = false;
        }
        spec
    }

    async fn one_by_one(&mut self, tenant: &Tenant, timeline: &Timeline) -> Result<()> {
        use Moment::{Asked, Joined, Made, Ready, Running, Told};
        let patience = self.options.patience;
        let kubeconfig = tenant.kubeconfig(patience).await?;
        let file = kubeconfig_file(&self.management, &kubeconfig)?;
        let kubectl = Kubectl::with(&self.management.layout, file);
        let mut values = Values::new();
        for number in 0..self.options.rounds {
            let pool = Pool::create(tenant, &format!("one-{number}"), self.spec(1)).await?;
            let machines = match pool.settled(1, patience).await {
                Ok(machines) => machines,
                Err(error) => {
                    self.note(format!("{}: {error:#}", pool.name));
                    pool.delete().await?;
                    pool.gone(patience).await?;
                    continue;
                }
            };
            let mut add = |figure: &'static str, value: Option<f64>| {
                values.entry(figure).or_default().extend(value);
            };
            add("ready", Some(pool.created.elapsed().as_secs_f64()));
            let machine = machines.keys().next().context("no Machine")?;
            let made = timeline.at(machine, Made);
            let since = |at: Instant| at.checked_duration_since(pool.created);
            add("made", made.and_then(since).map(|d| d.as_secs_f64()));
            for (figure, from, to) in [
                ("start", Made, Running),
                ("told", Running, Told),
                ("way", Running, Ready),
                ("cni", Joined, Ready),
            ] {
                add(figure, timeline.between(machine, from, to));
            }
            match boot::ask(&kubectl, machine, patience).await {
                Ok(boot) => {
                    let joined = timeline.at(machine, Joined);
                    let join = joined.zip(boot.joining);
                    let join = join.and_then(|(to, from)| to.checked_duration_since(from));
                    add("boot", boot.kernel);
                    add("cloud_init", boot.set_up);
                    add("join", join.map(|d| d.as_secs_f64()));
                    self.report.systemd.get_or_insert(boot.systemd);
                }
                Err(error) => self.note(format!("{machine} was not asked: {error:#}")),
            }
            let asked = timeline.between(machine, Running, Asked);
            (self.say)(format!(
                "{}: Ready after {:.1?}; Running to the kubelet's first request {}, to ready {}",
                pool.name,
                pool.created.elapsed(),
                seconds(asked),
                seconds(timeline.between(machine, Running, Ready)),
            ));
            let asked = Instant::now();
            pool.delete().await?;
            pool.gone(patience).await?;
            values
                .entry("deleted")
                .or_default()
                .push(asked.elapsed().as_secs_f64());
        }
        let spread = |figure| {
            values
                .get(figure)
                .map_or_else(Spread::default, |v| Spread::of(v))
        };
        let report = &mut self.report;
        report.pool_ready_s = spread("ready");
        report.pool_to_vm_s = spread("made");
        report.vm_to_machine_s = spread("told");
        report.vm_running_to_ready_s = spread("way");
        report.pool_delete_s = spread("deleted");
        report.phases = Phases {
            start: spread("start"),
            boot: spread("boot"),
            cloud_init: spread("cloud_init"),
            join: spread("join"),
            cni: spread("cni"),
        };
        Ok(())
    }

    async fn bigger(&mut self, tenant: &Tenant, timeline: &Timeline) -> Result<()> {
        let (patience, size) = (self.options.patience, self.options.pool);
        let mut sizes = Sizes {
            size,
            ..Sizes::default()
        };
        let taken = |begun: Instant| Some(round(begun.elapsed().as_secs_f64()));
        let pool = Pool::create(tenant, "many", self.spec(size)).await?;
        let machines = pool.settled(size, patience).await?;
        sizes.ready_s = taken(pool.created);
        let way = |name: &String| timeline.between(name, Moment::Running, Moment::Ready);
        sizes.each_running_to_ready_s = machines.keys().filter_map(way).map(round).collect();
        (self.say)(format!("{size} nodes after {}", seconds(sizes.ready_s)));

        let begun = Instant::now();
        pool.patch(json!({ "replicas": 0 })).await?;
        pool.settled(0, patience).await?;
        sizes.to_zero_s = taken(begun);
        let left = pool::remains(tenant).await?;
        ensure!(left.is_empty(), "a pool of none has {left:?}");
        (self.say)(format!("none after {}", seconds(sizes.to_zero_s)));

        let begun = Instant::now();
        pool.patch(json!({ "replicas": 2 })).await?;
        let before = pool.settled(2, patience).await?;
        sizes.back_to_2_s = taken(begun);
        (self.say)(format!("2 nodes after {}", seconds(sizes.back_to_2_s)));

        let begun = Instant::now();
        let template = json!({ "provider": { "kubevirt": { "memory": "1600Mi" } } });
        pool.patch(template).await?;
        pool.machines_are("both are replaced", patience * 2, |all| {
            (!all.keys().any(|name| before.contains_key(name))).then_some(())
        })
        .await?;
        pool.settled(2, patience).await?;
        sizes.rollout_of_2_s = taken(begun);
        (self.say)(format!("rolled after {}", seconds(sizes.rollout_of_2_s)));
        self.report.pool = Some(sizes);
        Ok(())
    }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("not seen".to_owned(), |value| format!("{value:.1} s"))
}

/// Where kubectl finds it; nobody else may read it.
pub(super) fn kubeconfig_file(management: &Management, text: &str) -> Result<std::path::PathBuf> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let folder = management.layout.root().join("bench");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("kubeconfig");
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&path)?.write_all(text.as_bytes())?;
    Ok(path)
}
