//! `bench hosts`: how long machines that are reached by SSH take to be nodes, one and many at once, and to be clean again;
//! and whether anything secret is left on them.
//!
//! Invariant: everything lives in the namespace of the run, and in the hosts that it makes, which go whatever happens; what was
//! planted is looked for on the disk of the host that had it, without SSH and Covey.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::node_pool::{Provider, Static};
use api::{ConditionType, Host, Machine, condition};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::runtime::watcher::Config;
use serde::Serialize;
use serde_json::json;
use suites::cluster::pool::small;
use suites::cluster::wait::wait_list;
use suites::cluster::{Pool, Tenant, suffix};
use suites::scenario::kubectl::Kubectl;
use suites::scenario::lab_hosts::{LabHosts, inside};
use suites::scenario::workload::{IMAGE, list};
use suites::scenario::{self, Scenario};

use super::machine::Machine as Place;
use super::place::unless_interrupted;
use super::report::{Spread, number, pair, table};
use super::round;

/// The pod that has what was planted.
const PLANTED: &str = "planted";
/// Lines that nobody but this node has: its kubelet's key, and what it joined with.
const OWN_SECRETS: &str = r#"
sed -n '/PRIVATE KEY/,/PRIVATE KEY/{/PRIVATE KEY/d;p;}' /var/lib/kubelet/pki/*.pem | head -n 8
sed -n 's/^ *token: *//p' /run/covey/join.yaml 2> /dev/null || true
"#;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Machines, one after another.
    pub rounds: usize,
    /// Hosts, and machines at once; 0 leaves the latter out.
    pub many: usize,
    /// Kubernetes version of tenant cluster and nodes.
    pub version: String,
    /// How long any one step may take.
    pub patience: Duration,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where and when.
    pub machine: Place,
    /// Kubernetes version of tenant cluster and nodes.
    pub version: String,
    /// From when the Machine was seen until its Node was seen ready, seconds.
    pub ready_s: Spread,
    /// From when the first of ten Machines was seen until all their Nodes were seen ready, seconds; none where it was another
    /// number.
    pub ready10_s: Option<f64>,
    /// The same with the number of machines that was asked for.
    pub many: Option<(usize, f64)>,
    /// From when a Machine was too many until its Host was seen clean and nobody's, drain included, seconds.
    pub reset_s: Spread,
    /// Files of hosts in which something secret was found after that.
    pub secrets_left: usize,
    /// What went wrong, in words, and those files.
    pub notes: Vec<String>,
}

impl Report {
    /// For people.
    #[must_use]
    pub fn table(&self) -> String {
        let at_once = self.many.map_or(0, |(many, _)| many);
        let at_once = format!("{at_once} Machines at once, s");
        let many = self.many.map(|(_, seconds)| seconds);
        let rows = [
            (
                "Machine to ready Node, s, p50 / p95",
                pair(&self.ready_s),
                "12 / 20",
            ),
            (&at_once, number(many), "40"),
            ("Host clean again, s, p50 / p95", pair(&self.reset_s), "10"),
            (
                "files with something secret left",
                self.secrets_left.to_string(),
                "0",
            ),
        ];
        table(&self.machine, &self.version, &rows, &self.notes)
    }
}

/// Measures. What it did is told to `say`.
///
/// # Errors
/// When the lab or the operator is missing, a host cannot be made, or an API fails.
pub async fn run(options: &Options, say: &(dyn Fn(String) + Sync)) -> Result<Report> {
    let mut measured = Measured::default();
    let machine = Place::here();
    let taken = &mut measured;
    let mut hosts = LabHosts::default();
    let made = &mut hosts;
    scenario::command("bench-hosts", async |s| {
        unless_interrupted(measure(s, made, options, taken, say)).await
    })
    .await?;
    hosts.end()?;
    let many = measured.many.map(|seconds| (options.many, seconds));
    Ok(Report {
        machine,
        version: options.version.clone(),
        ready_s: Spread::of(&measured.ready),
        ready10_s: measured.many.filter(|_| options.many == 10),
        many,
        reset_s: Spread::of(&measured.resets),
        secrets_left: measured.notes.len(),
        notes: measured.notes,
    })
}

#[derive(Default)]
struct Measured {
    ready: Vec<f64>,
    many: Option<f64>,
    resets: Vec<f64>,
    notes: Vec<String>,
}

async fn measure(
    s: &Scenario,
    made: &mut LabHosts,
    options: &Options,
    measured: &mut Measured,
    say: &(dyn Fn(String) + Sync),
) -> Result<()> {
    let tenant = s
        .tenant("bench", |spec| spec.version.clone_from(&options.version))
        .await?;
    let mut objects = Vec::new();
    for number in 0..options.many.max(1) {
        objects.extend(made.add(s, &format!("bench{number}"), &[]).await?.objects);
    }
    tenant.usable(options.patience).await?;
    let manifest = s.file("hosts.json", &list(&objects))?;
    let manifest = manifest.to_str().context("a path that is no text")?;
    s.manage(&["apply", "-f", manifest]).await?;
    let bench = Bench::new(s, &tenant, options).await?;
    bench.are_clean().await?;
    say(format!("{} hosts are clean", options.many.max(1)));
    for number in 0..options.rounds {
        let ready = bench.grows(1).await?;
        say(format!("node {} is ready after {ready} s", number + 1));
        measured.ready.push(ready);
        let (host, planted) = bench.plant().await?;
        let reset = bench.shrinks().await?;
        say(format!("its host is clean after {reset} s"));
        measured.resets.push(reset);
        measured.notes.extend(bench.left(&host, &planted)?);
    }
    if options.many > 0 {
        let ready = bench.grows(options.many).await?;
        say(format!("{} nodes are ready after {ready} s", options.many));
        measured.many = Some(ready);
        bench.shrinks().await?;
    }
    Ok(())
}

struct Bench<'a> {
    s: &'a Scenario,
    pool: Pool,
    nodes: Api<Node>,
    hosts: Api<Host>,
    kubectl: Kubectl,
    patience: Duration,
}

impl<'a> Bench<'a> {
    async fn new(s: &'a Scenario, tenant: &Tenant, options: &Options) -> Result<Self> {
        let mut spec = small(&tenant.name);
        spec.version = Some(options.version.clone());
        spec.replicas = 0;
        spec.provider = Some(Provider {
            static_: Some(Static::default()),
            ..Provider::default()
        });
        Ok(Self {
            s,
            pool: Pool::create(tenant, "hosts", spec).await?,
            nodes: Api::all(tenant.admin(options.patience).await?),
            hosts: Api::namespaced(s.client().clone(), &tenant.namespace),
            kubectl: Kubectl::of(s, tenant).await?,
            patience: options.patience,
        })
    }

    /// So many machines, where there is none: seconds from the first one until all are ready nodes.
    async fn grows(&self, machines: usize) -> Result<f64> {
        self.pool.patch(json!({ "replicas": machines })).await?;
        let any = |all: &BTreeMap<String, Machine>| (!all.is_empty()).then_some(());
        let all = self.pool.machines();
        wait_list(
            &all,
            self.pool.own(),
            "there is a Machine",
            self.patience,
            any,
        )
        .await?;
        let begun = Instant::now();
        let what = "all nodes are ready";
        wait_list(&self.nodes, Config::default(), what, self.patience, |all| {
            let ready = all.values().filter(|node| is_ready(node));
            (ready.count() == machines).then_some(())
        })
        .await?;
        Ok(round(begun.elapsed().as_secs_f64()))
    }

    /// No machine: seconds until all hosts are clean.
    async fn shrinks(&self) -> Result<f64> {
        let begun = Instant::now();
        self.pool.patch(json!({ "replicas": 0 })).await?;
        self.are_clean().await?;
        Ok(round(begun.elapsed().as_secs_f64()))
    }

    async fn are_clean(&self) -> Result<()> {
        let what = "nobody has a Host, and all are clean";
        let found = wait_list(&self.hosts, Config::default(), what, self.patience, |all| {
            let is_clean = |host: &Host| {
                let status = host.status.as_ref();
                status.is_some_and(|status| {
                    let is_clean = condition::is_true(&status.conditions, ConditionType::Clean);
                    status.claim.is_none() && is_clean
                })
            };
            (!all.is_empty() && all.values().all(is_clean)).then_some(())
        });
        found.await
    }

    /// Has a pod hold a secret on the one node: its host, and what must not be left there.
    async fn plant(&self) -> Result<(String, BTreeSet<String>)> {
        let secret = format!("planted-{}-{}", suffix(), suffix());
        let labels = json!({ "app": PLANTED });
        let manifest = list(&[
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": PLANTED },
                "stringData": { "value": secret } }),
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": PLANTED, "labels": labels },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{ "name": "holder", "image": IMAGE, "args": ["planted.default.svc"],
                        "env": [{ "name": "PLANTED", "valueFrom": { "secretKeyRef":
                            { "name": PLANTED, "key": "value" } } }],
                        "volumeMounts": [{ "name": "planted", "mountPath": "/planted" }] }],
                    "volumes": [{ "name": "planted", "secret": { "secretName": PLANTED } }],
                } }),
        ]);
        self.kubectl.apply(&manifest).await?;
        let wait = ["wait", "--for=condition=Ready", "pod/planted"];
        let timeout = format!("--timeout={}s", self.patience.as_secs());
        let wait = [&wait[..], &[timeout.as_str()]].concat();
        self.kubectl.run_within(self.patience, &wait).await?;
        let what = "a Host has a Machine";
        let host = wait_list(&self.hosts, Config::default(), what, self.patience, |all| {
            let has = |host: &&Host| host.status.as_ref().is_some_and(|it| it.claim.is_some());
            all.values().find(has)?.metadata.name.clone()
        });
        let host = host.await?;
        let own = inside(self.s, &host, OWN_SECRETS)?;
        let own = own.lines().map(str::trim);
        let mut all: BTreeSet<_> = own
            .filter(|line| line.len() > 15)
            .map(str::to_owned)
            .collect();
        ensure!(!all.is_empty(), "no key of the kubelet was found on {host}");
        all.insert(secret);
        Ok((host, all))
    }

    /// The files on the host's disk that have any of it, and that one was in use that is there whatever happens.
    fn left(&self, host: &str, planted: &BTreeSet<String>) -> Result<Vec<String>> {
        let look = |values: &[&str]| {
            let patterns = values.join("\\n");
            // The patterns themselves come by standard input, and stand in no file.
            let script = format!(
                "printf '{patterns}' | grep -rlsF -f - --exclude-dir=proc --exclude-dir=sys / || true"
            );
            inside(self.s, host, &script)
        };
        // A scan that finds nothing at all would be no scan.
        let known = look(&["root:x:0:0"])?;
        ensure!(
            known.lines().any(|file| file == "/etc/passwd"),
            "the disk of {host} cannot be searched: {known}"
        );
        let planted: Vec<_> = planted.iter().map(String::as_str).collect();
        let found = look(&planted)?;
        let found = found.lines().filter(|file| !file.is_empty());
        Ok(found
            .map(|file| format!("{host} has something secret in {file}"))
            .collect())
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.flatten();
    conditions.any(|found| found.type_ == "Ready" && found.status == "True")
}
