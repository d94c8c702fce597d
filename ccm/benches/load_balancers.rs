//! Measures the program between a tenant's and a management API server, both real; the bench plays
//! kubelets, KubeVirt and the load balancer. `cargo xtask bench ccm` builds and calls it.
//!
//! Invariant: it never fails on time alone, and everything it started ends with it. Figures go to
//! standard output as JSON, what is going on to standard error.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use api::foreign::kubevirt::{VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES};
use ccm::names;
use clap::Parser;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kit_client::untyped;
use kit_objects::kinds;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use testkit::figures::{round, spread};
use testkit::process::{Process, Workdir};
use testkit::{ManagementApi, Options};
use tokio::sync::watch;

#[derive(Parser)]
#[command(name = "bench ccm", about = "Measures the cloud controller manager")]
struct Args {
    /// The program
    #[arg(long)]
    program: PathBuf,
    /// Services that are made one after another
    #[arg(long, default_value_t = 40)]
    rounds: usize,
    /// Services of the great pass
    #[arg(long, default_value_t = 500)]
    services: usize,
    /// Nodes of the great pass
    #[arg(long, default_value_t = 120)]
    nodes: usize,
    /// Seconds in which nothing happens and writes are counted
    #[arg(long, default_value_t = 60)]
    idle: u64,
    /// JSON in one line instead of several
    #[arg(long)]
    json: bool,
}

const PATIENCE: Duration = Duration::from_secs(300);
const NS: &str = "covey-bench";
const UID: &str = "0a1b2c3d-0000-4000-8000-000000000001";
const USER: &str = "covey-ccm";
const MASTERS: &[&str] = &["system:masters"];

/// What a watch told last of each object, and when.
type Seen<K> = Arc<Mutex<HashMap<String, (Instant, K)>>>;

struct Watch<K> {
    seen: Seen<K>,
    changed: watch::Receiver<u64>,
}

impl<K> Watch<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
    K: serde::de::DeserializeOwned,
{
    fn start(api: Api<K>) -> Self {
        let seen: Seen<K> = Arc::default();
        let (tell, changed) = watch::channel(0);
        let into = Arc::clone(&seen);
        tokio::spawn(async move {
            let mut events = watcher(api, Config::default()).boxed();
            while let Some(event) = events.next().await {
                let now = Instant::now();
                match event {
                    Ok(Event::Apply(o) | Event::InitApply(o)) => {
                        into.lock().unwrap().insert(o.name_any(), (now, o));
                    }
                    Ok(Event::Delete(o)) => drop(into.lock().unwrap().remove(&o.name_any())),
                    _ => {}
                }
                tell.send_modify(|n| *n += 1);
            }
        });
        Self { seen, changed }
    }

    /// Waits until what was seen is as wanted, and gives what that says.
    async fn until<T>(
        &self,
        what: &str,
        mut wanted: impl FnMut(&HashMap<String, (Instant, K)>) -> Option<T>,
    ) -> Result<T> {
        let mut changed = self.changed.clone();
        let wait = async {
            loop {
                if let Some(found) = wanted(&self.seen.lock().unwrap()) {
                    return found;
                }
                let _ = changed.changed().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        waited.with_context(|| format!("{what} did not happen"))
    }
}

struct Bench {
    args: Args,
    management: ManagementApi,
    tenant: ManagementApi,
    outside: Client,
    inside: Client,
    dir: Workdir,
    admin: SocketAddr,
}

#[tokio::main]
async fn main() -> Result<()> {
    kit_client::crypto::install_crypto();
    let args = Args::parse();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let Some(management) = ManagementApi::start().await? else {
        bail!("the programs of the lab are missing: `cargo run -p lab --example programs`")
    };
    for foreign in [VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES] {
        let crd: Value = serde_saphyr::from_str(foreign)?;
        management
            .install_crd(&serde_json::from_value(crd)?)
            .await?;
    }
    let options = Options {
        apiserver_flags: vec!["--service-node-port-range=30000-39999".to_owned()],
        controllers: Vec::new(),
    };
    let tenant = ManagementApi::start_with(options).await?;
    let tenant = tenant.context("the programs were there a moment ago")?;
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let bench = Bench {
        outside: management.admin()?,
        inside: tenant.admin()?,
        dir: Workdir::new()?,
        admin: free,
        management,
        tenant,
        args,
    };
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NS } });
    kit_client::write::apply(&bench.outside, &namespace, "bench", true).await?;
    let mut report = bench.run().await?;
    report["machine"] = json!({
        "load_before": load.split(' ').next(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "services": bench.args.services, "nodes": bench.args.nodes,
    });
    match bench.args.json {
        true => println!("{report}"),
        false => println!("{report:#}"),
    }
    Ok(())
}

impl Bench {
    fn start(&self, identity: &str) -> Result<Process> {
        let kubeconfig = |api: &ManagementApi, name: &str| {
            self.dir.write(name, &api.kubeconfig_as(USER, MASTERS)?)
        };
        let flags = [
            (
                "tenant-kubeconfig",
                kubeconfig(&self.tenant, "tenant")?.display().to_string(),
            ),
            (
                "management-kubeconfig",
                kubeconfig(&self.management, "management")?
                    .display()
                    .to_string(),
            ),
            ("namespace", NS.to_owned()),
            ("cluster-uid", UID.to_owned()),
            ("identity", identity.to_owned()),
            ("admin-address", self.admin.to_string()),
            // The program is measured, not the rate at which a tenant may have it write.
            ("management-qps", "200".to_owned()),
            ("management-burst", "1000".to_owned()),
        ];
        let flags = flags.map(|(name, value)| format!("--{name}={value}"));
        let log = self.dir.path().join(format!("{identity}.log"));
        Process::spawn("ccm", &self.args.program, &flags, &log)
    }

    /// A metric of the program; the sum of a family.
    fn metric(&self, name: &str) -> Result<f64> {
        let mut stream = TcpStream::connect(self.admin)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let lines = text.lines().filter(|line| line.starts_with(name));
        let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
        Ok(lines.filter_map(value).sum())
    }

    async fn run(&self) -> Result<Value> {
        let mirrors = Watch::start(Api::<Service>::namespaced(self.outside.clone(), NS));
        let slices = Watch::start(Api::<EndpointSlice>::namespaced(self.outside.clone(), NS));
        let services = Watch::start(Api::<Service>::namespaced(self.inside.clone(), "default"));
        let nodes = Watch::start(Api::<Node>::all(self.inside.clone()));
        let first = self.start("first")?;
        for number in 0..3 {
            self.worker(number).await?;
        }
        self.initialised(&nodes, 3).await?;
        eprintln!("{} Services, one after another", self.args.rounds);
        let (mut mirrored, mut back) = (Vec::new(), Vec::new());
        for number in 0..self.args.rounds {
            let name = format!("web-{number}");
            let begin = Instant::now();
            let service = self.service(&name).await?;
            let mirror = names::mirror(UID, &service.uid().unwrap_or_default());
            let at = mirrors
                .until("mirror", |all| all.get(&mirror).map(|(at, _)| *at))
                .await?;
            mirrored.push(at.duration_since(begin).as_secs_f64());
            slices.until("slice", |all| ready(all, &mirror, 3)).await?;
            let begin = Instant::now();
            self.allocate(&mirror, number).await?;
            let has = |s: &Service| {
                let status = s.status.as_ref().and_then(|s| s.load_balancer.as_ref());
                status
                    .and_then(|l| l.ingress.as_ref())
                    .is_some_and(|i| !i.is_empty())
            };
            let at = services.until("address", |all| {
                all.get(&name).filter(|(_, s)| has(s)).map(|(at, _)| *at)
            });
            back.push(at.await?.duration_since(begin).as_secs_f64());
        }
        eprintln!(
            "a node is lost and comes back, {} Services",
            self.args.rounds
        );
        let mut loss = Vec::new();
        for round in 0..5 {
            let begin = Instant::now();
            self.node_ready(round % 3, "Unknown").await?;
            loss.extend(self.all_slices(&slices, begin, self.args.rounds, 2).await?);
            let begin = Instant::now();
            self.node_ready(round % 3, "True").await?;
            self.all_slices(&slices, begin, self.args.rounds, 3).await?;
        }
        let (services_wanted, nodes_wanted) = (self.args.services, self.args.nodes);
        eprintln!("{services_wanted} Services and {nodes_wanted} nodes");
        for number in 3..nodes_wanted {
            self.worker(number).await?;
        }
        for number in self.args.rounds..services_wanted {
            self.service(&format!("web-{number}")).await?;
        }
        self.initialised(&nodes, nodes_wanted).await?;
        let begin = Instant::now();
        self.all_slices(&slices, begin, services_wanted, nodes_wanted)
            .await?;
        self.rest().await?;
        let before = self.metric("process_cpu_seconds_total")?;
        let begin = Instant::now();
        self.node_ready(0, "Unknown").await?;
        let all = self
            .all_slices(&slices, begin, services_wanted, nodes_wanted - 1)
            .await?;
        let great_loss = all.iter().copied().fold(0.0, f64::max);
        self.rest().await?;
        let change_cpu = self.metric("process_cpu_seconds_total")? - before;
        let peak = self.metric("process_resident_memory_bytes")? / 1_048_576.0;
        drop(first);
        eprintln!("a start with all of that");
        let _second = self.start("second")?;
        self.rest_after(services_wanted + nodes_wanted).await?;
        let pass_cpu = self.metric("process_cpu_seconds_total")?;
        let rss = self.metric("process_resident_memory_bytes")? / 1_048_576.0;
        eprintln!("{} s at rest", self.args.idle);
        let windows = [
            self.management.audit().window()?,
            self.tenant.audit().window()?,
        ];
        let cpu = self.metric("process_cpu_seconds_total")?;
        tokio::time::sleep(Duration::from_secs(self.args.idle)).await;
        let idle_cpu = self.metric("process_cpu_seconds_total")? - cpu;
        let mut writes = 0;
        for window in windows {
            writes += window.writes_of(USER)?.len();
        }
        let per_minute = 60.0 / self.args.idle.max(1) as f64;
        Ok(json!({
            "mirror_s": spread(&mirrored), "address_back_s": spread(&back),
            "backend_loss_s": spread(&loss),
            "pass_cpu_s": round(pass_cpu), "rss_mib": round(rss),
            "idle_writes_per_min": round(writes as f64 * per_minute),
            "idle_cpu_s_per_min": round(idle_cpu * per_minute),
            "loss_in_all_services_s": round(great_loss),
            "loss_in_all_services_cpu_s": round(change_cpu),
            "rss_after_loss_mib": round(peak),
        }))
    }

    /// Waits until nothing is in hand.
    async fn rest(&self) -> Result<()> {
        self.rest_after(0).await
    }

    /// Waits until so many reconciles have ended and nothing is in hand.
    async fn rest_after(&self, reconciles: usize) -> Result<()> {
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        let deadline = Instant::now() + PATIENCE;
        let mut still = 0;
        while Instant::now() < deadline {
            ticks.tick().await;
            let state = self.state().unwrap_or_default();
            let done = self
                .metric("covey_reconcile_runs_total")
                .unwrap_or_default()
                >= reconciles as f64;
            still = match done && state["ccm"]["leads"] == true && state["ccm"]["queued"] == 0 {
                true => still + 1,
                false => 0,
            };
            if still == 10 {
                return Ok(());
            }
        }
        bail!("it does not come to rest")
    }

    fn state(&self) -> Result<Value> {
        let mut stream = TcpStream::connect(self.admin)?;
        stream.write_all(b"GET /state HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (_, body) = text.split_once("\r\n\r\n").context("no answer")?;
        Ok(serde_json::from_str(body)?)
    }

    /// When each Service's slices had just so many ready endpoints, in seconds since `begin`.
    async fn all_slices(
        &self,
        slices: &Watch<EndpointSlice>,
        begin: Instant,
        services: usize,
        endpoints: usize,
    ) -> Result<Vec<f64>> {
        let all = slices.until("slices of all Services", |all| {
            let mut of: HashMap<&str, (usize, Instant)> = HashMap::new();
            for (at, slice) in all.values() {
                let entry = of.entry(service_of(slice)).or_insert((0, *at));
                entry.0 += ready_in(slice);
                entry.1 = entry.1.max(*at);
            }
            let done = of.len() == services && of.values().all(|(n, _)| *n == endpoints);
            done.then(|| of.values().map(|(_, at)| *at).collect::<Vec<_>>())
        });
        let seconds = |at: Instant| at.saturating_duration_since(begin).as_secs_f64();
        Ok(all.await?.into_iter().map(seconds).collect())
    }

    async fn initialised(&self, nodes: &Watch<Node>, count: usize) -> Result<()> {
        let new = |n: &Node| {
            let taints = n.spec.as_ref().and_then(|s| s.taints.as_ref());
            taints
                .into_iter()
                .flatten()
                .any(|t| t.key == names::TAINT_UNINITIALIZED)
        };
        let all = nodes.until("initialisation", |all| {
            let done = all.len() == count && all.values().all(|(_, n)| !new(n));
            done.then_some(())
        });
        all.await
    }

    async fn worker(&self, number: usize) -> Result<()> {
        let name = format!("node-{number}");
        let vm = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": { "name": name, "namespace": NS,
                "labels": { "topology.kubernetes.io/zone": "zone-a" } },
            "spec": { "runStrategy": "Always",
                "template": { "spec": { "domain": { "devices": {} } } } },
        });
        let ip = format!("10.9.{}.{}", number / 250, number % 250 + 1);
        let instance = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
            "metadata": { "name": name, "namespace": NS }, "spec": { "hostname": name },
            "status": { "phase": "Running", "nodeName": format!("host-{number}"),
                "interfaces": [{ "name": "default", "ipAddress": ip, "ipAddresses": [ip] }] },
        });
        for object in [vm, instance] {
            kit_client::write::apply(&self.outside, &object, "bench", true).await?;
        }
        let vms = untyped::of(kinds::VIRTUAL_MACHINE, &self.outside, Some(NS));
        let created = Patch::Merge(json!({ "status": { "created": true } }));
        vms.patch_status(&name, &PatchParams::default(), &created)
            .await?;
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
            "spec": { "providerID": format!("kubevirt://{name}"), "taints": [{
                "key": names::TAINT_UNINITIALIZED, "value": "true", "effect": "NoSchedule" }] },
        });
        let nodes = Api::<Node>::all(self.inside.clone());
        nodes
            .create(&Default::default(), &serde_json::from_value(node)?)
            .await?;
        self.node_ready(number, "True").await
    }

    async fn node_ready(&self, number: usize, ready: &str) -> Result<()> {
        let condition = json!({ "type": "Ready", "status": ready });
        let patch = Patch::Merge(json!({ "status": { "conditions": [condition] } }));
        let nodes = Api::<Node>::all(self.inside.clone());
        let name = format!("node-{number}");
        nodes
            .patch_status(&name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn service(&self, name: &str) -> Result<Service> {
        let object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80, "protocol": "TCP" }] },
        });
        let services = Api::<Service>::namespaced(self.inside.clone(), "default");
        Ok(services
            .create(&Default::default(), &serde_json::from_value(object)?)
            .await?)
    }

    async fn allocate(&self, mirror: &str, number: usize) -> Result<()> {
        let ip = format!("192.0.{}.{}", number / 250, number % 250 + 1);
        let patch = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": ip }] } } });
        let mirrors = Api::<Service>::namespaced(self.outside.clone(), NS);
        mirrors
            .patch_status(mirror, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }
}

fn service_of(slice: &EndpointSlice) -> &str {
    let labels = slice.metadata.labels.as_ref();
    let name = labels.and_then(|l| l.get(names::LABEL_SLICE_OF));
    name.map(String::as_str).unwrap_or_default()
}

fn ready_in(slice: &EndpointSlice) -> usize {
    let is_ready = |e: &&k8s_openapi::api::discovery::v1::Endpoint| {
        e.conditions.as_ref().and_then(|c| c.ready) == Some(true)
    };
    slice.endpoints.iter().filter(is_ready).count()
}

fn ready(
    all: &HashMap<String, (Instant, EndpointSlice)>,
    mirror: &str,
    count: usize,
) -> Option<()> {
    let slices = all.values().filter(|(_, s)| service_of(s) == mirror);
    let found: usize = slices.map(|(_, s)| ready_in(s)).sum();
    (found == count).then_some(())
}
