//! Measures one full loop of the Cluster Autoscaler's calls against the real service: gRPC over
//! loopback with mutual TLS, and a cache in memory. `cargo xtask bench autoscaler` calls it.
//!
//! Invariant: it never fails on time alone. Figures go to standard output as one line of JSON, what
//! is going on to standard error.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)]

mod floor;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use autoscaler::cache::Cache;
use autoscaler::cache::state::{Kind, WatchEvent};
use autoscaler::manager::Manager;
use autoscaler::server::calls::Service;
use autoscaler::server::tls::Tls;
use autoscaler::settings::Settings;
use autoscaler_client::cluster::Node;
use autoscaler_client::observe::{external, observe};
use autoscaler_client::protocol::Options;
use autoscaler_client::{Credentials, Generation, Protocol};
use clap::Parser;
use kit::admin::Admin;
use kit::shutdown::Shutdown;
use kube::Client;
use proto::autoscaler as rpc;
use proto::autoscaler::cloud_provider_server::CloudProvider as _;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use testkit::figures::{round, spread};
use tonic::{Request, Status};

#[derive(Parser)]
#[command(
    name = "bench autoscaler",
    about = "Measures the loop of the Cluster Autoscaler's calls"
)]
struct Args {
    /// Node pools; every tenth has no machine, and is asked for its template
    #[arg(long, default_value_t = 100)]
    pools: usize,
    /// Nodes in all of them
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// Loops that are measured, after a few that are not
    #[arg(long, default_value_t = 40)]
    loops: usize,
    /// As in other benches; there is only this form
    #[arg(long)]
    json: bool,
}

const UID: &str = "0a1b2c3d-0000-4000-8000-000000000001";

fn main() -> Result<()> {
    kit_client::crypto::install_crypto();
    let args = Args::parse();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let certificates = Certificates::new()?;
    let (service, shutdown) = serve(&args, &certificates)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut report = runtime.block_on(measure(&args, &certificates, &service))?;
    shutdown.trigger();
    let calls = report["calls"].as_u64().unwrap_or_default();
    report["floor"] = floor::floor(usize::try_from(calls)?, &certificates)?;
    report["loop_ratio"] = ratio(&report).into();
    report["machine"] = json!({
        "load_before": load.split(' ').next(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "pools": args.pools, "nodes": args.nodes,
    });
    println!("{report}");
    Ok(())
}

/// A loop in as many round trips over bare TCP of the same run: what a busy machine does to both, it leaves out.
fn ratio(report: &Value) -> Option<f64> {
    let [ours, bare] = [&report["loop_ms"], &report["floor"]["tcp"]["ms"]]
        .map(|times| times["p50"].as_f64().filter(|p50| *p50 > 0.0));
    Some(round(ours? / bare?))
}

/// The service that runs.
struct Running {
    address: SocketAddr,
    /// Its thread, as the kernel numbers it.
    thread: i32,
    /// The same, to be asked without a network between.
    service: Service,
}

/// What its thread has used so far.
#[derive(Clone, Copy)]
struct Used {
    /// Milliseconds on a processor.
    cpu_ms: f64,
    /// How often it had nothing to do and slept.
    sleeps: f64,
}

impl Running {
    fn used(&self) -> Result<Used> {
        let read =
            |file: &str| std::fs::read_to_string(format!("/proc/self/task/{}/{file}", self.thread));
        let text = read("schedstat")?;
        let nanoseconds = text.split_whitespace().next().context("no schedstat")?;
        let text = read("status")?;
        let mut lines = text.lines();
        let sleeps = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        Ok(Used {
            cpu_ms: nanoseconds.parse::<f64>()? / 1e6,
            sleeps: sleeps.context("no switches")?.trim().parse()?,
        })
    }
}

/// The service in a thread of its own, as in its process.
fn serve(args: &Args, certificates: &Certificates) -> Result<(Running, Shutdown)> {
    let tls = Tls::from_pem(
        certificates.server.0.as_bytes(),
        certificates.server.1.as_bytes(),
        certificates.ca.as_bytes(),
    )?;
    let (tell, told) = std::sync::mpsc::channel();
    let (pools, nodes) = (args.pools, args.nodes);
    let shutdown = Shutdown::new();
    let stop = shutdown.clone();
    std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let nowhere = || {
                let none =
                    async |_| Ok::<_, Infallible>(http::Response::new(kube::client::Body::empty()));
                Client::new(tower::service_fn(none), "team")
            };
            let settings = Settings {
                user_namespace: "team".to_owned(),
                cluster_name: "demo".to_owned(),
                cluster_uid: UID.to_owned(),
                ..Settings::default()
            };
            let manager = Manager::new(nowhere(), nowhere(), settings, "bench", &Admin::new());
            fill(&manager.context.cache, pools, nodes)?;
            let server = manager
                .serve(([127, 0, 0, 1], 0).into(), &tls, &stop)
                .await?;
            tell.send(Running {
                address: server.address,
                thread: rustix::thread::gettid().as_raw_nonzero().get(),
                service: Service::new(Arc::clone(&manager.context)),
            })?;
            server.ended().await;
            Ok(())
        })
    });
    let running = told.recv().context("the service does not start")?;
    Ok((running, shutdown))
}

fn pool_of(number: usize, pools: usize) -> usize {
    let filled = pools - pools / 10;
    number % filled.max(1)
}

fn fill(cache: &Arc<Cache>, pools: usize, nodes: usize) -> Result<()> {
    for kind in Kind::ALL {
        cache.begin(kind);
    }
    for number in 0..pools {
        let replicas = (0..nodes).filter(|n| pool_of(*n, pools) == number).count();
        let pool = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
            "metadata": { "name": format!("pool-{number}"), "namespace": "team",
                "uid": format!("pool-{number}"), "resourceVersion": "1", "generation": 1 },
            "spec": { "clusterName": "demo", "replicas": replicas,
                "labels": { "example.com/pool": number.to_string() },
                "autoscaling": { "min": 0, "max": 1000, "scaleDownDelay": "2m" },
                "provider": { "kubevirt": { "cpu": 2, "memory": "4Gi" } } },
            "status": { "locations": [{ "name": "default", "template": { "cpu": 2, "memory": "4Gi",
                "ephemeralStorage": "7516192768", "architecture": "amd64",
                "labels": { "example.com/pool": number.to_string() } } }] },
        });
        cache.apply(&WatchEvent::Pool(Box::new(serde_json::from_value(pool)?)));
    }
    for number in 0..nodes {
        let name = format!("node-{number}");
        let machine = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
            "metadata": { "name": name, "namespace": "team", "uid": name, "resourceVersion": "1" },
            "spec": { "clusterName": "demo", "clusterUID": UID, "version": "1.35.4",
                "poolName": format!("pool-{}", pool_of(number, pools)),
                "provider": { "kubevirt": {} } },
            "status": { "phase": "Running" },
        });
        cache.apply(&WatchEvent::Machine(Box::new(serde_json::from_value(
            machine,
        )?)));
        let node = json!({ "metadata": { "name": name, "uid": name, "resourceVersion": "1" } });
        cache.apply(&WatchEvent::Node(Box::new(serde_json::from_value(node)?)));
    }
    for kind in Kind::ALL {
        cache.end(kind);
    }
    Ok(())
}

async fn measure(args: &Args, certificates: &Certificates, service: &Running) -> Result<Value> {
    let credentials = Credentials {
        ca: certificates.ca.clone(),
        identity: Some(certificates.client.clone()),
    };
    let address = service.address.to_string();
    let mut protocol = Protocol::new(&address, "localhost", &credentials, Generation::New)?
        .within(Duration::from_secs(5));
    let node = |number: usize| Node {
        name: format!("node-{number}"),
        provider_id: api::names::kubevirt_provider_id(&format!("node-{number}")),
        ready: true,
        ..Node::default()
    };
    let nodes: Vec<_> = (0..args.nodes).map(node).collect();
    let defaults = Options::default();
    let (mut times, mut cpu, mut sleeps) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..args.loops + 3 {
        let (begin, before) = (Instant::now(), service.used()?);
        let seen = observe(&mut protocol, &nodes, &defaults).await?;
        let time = begin.elapsed().as_secs_f64() * 1000.0;
        assert_eq!(
            (seen.groups.len(), seen.group_of.len()),
            (args.pools, args.nodes)
        );
        if number >= 3 {
            let after = service.used()?;
            times.push(time);
            cpu.push(after.cpu_ms - before.cpu_ms);
            sleeps.push(after.sleeps - before.sleeps);
        }
    }
    let mut alone = Vec::new();
    for _ in 0..args.loops {
        let begin = Instant::now();
        answers(&service.service, args, &nodes).await?;
        alone.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    // Refresh and NodeGroups; of each group its size, its machines and its options; of each node its
    // group and its options; templates of empty groups.
    let calls = 2 + 3 * args.pools + 2 * args.nodes + args.pools / 10;
    let loops = spread(&times);
    let per_call = per_call(&loops, calls);
    Ok(json!({
        "loop_ms": loops, "calls": calls, "call_us": per_call,
        // The share of it that is the adapter's; the rest is the client's and the kernel's.
        "service_cpu_ms": spread(&cpu),
        // Of that, what it takes to make the answers, without anything between the two.
        "answers_ms": spread(&alone),
        "service_sleeps": spread(&sleeps),
        // Of the whole process, the client's included.
        "rss_mib": kit::metrics::usage().map(|usage| round(usage.rss_mib())),
    }))
}

/// The calls of a loop, without gRPC, TLS and sockets.
async fn answers(service: &Service, args: &Args, nodes: &[Node]) -> Result<(), Status> {
    service
        .refresh(Request::new(rpc::RefreshRequest {}))
        .await?;
    let all = service.node_groups(Request::new(rpc::NodeGroupsRequest {}));
    let all = all.await?.into_inner().node_groups;
    let options = async |id: &str| {
        let defaults = Some(rpc::NodeGroupAutoscalingOptions::default());
        let id = id.to_owned();
        let request = Request::new(rpc::NodeGroupGetOptionsRequest { id, defaults });
        service.node_group_get_options(request).await
    };
    for group in &all {
        let id = || group.id.clone();
        let request = Request::new(rpc::NodeGroupTargetSizeRequest { id: id() });
        service.node_group_target_size(request).await?;
        let request = Request::new(rpc::NodeGroupNodesRequest { id: id() });
        service.node_group_nodes(request).await?;
        options(&group.id).await?;
    }
    for node in nodes {
        let node = Some(external(node));
        let request = Request::new(rpc::NodeGroupForNodeRequest { node });
        let group = service.node_group_for_node(request).await?.into_inner();
        options(&group.node_group.unwrap_or_default().id).await?;
    }
    for group in all.iter().take(args.pools / 10) {
        let id = group.id.clone();
        let request = Request::new(rpc::NodeGroupTemplateNodeInfoRequest { id });
        service.node_group_template_node_info(request).await?;
    }
    Ok(())
}

struct Certificates {
    ca: String,
    server: (String, String),
    client: (String, String),
}

impl Certificates {
    fn new() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let ca = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        let issue = |name: &str| -> Result<_> {
            let key = KeyPair::generate()?;
            let certificate = CertificateParams::new(vec![name.to_owned()])?;
            let certificate = certificate.signed_by(&key, &issuer)?;
            Ok((certificate.pem(), key.serialize_pem()))
        };
        Ok(Self {
            server: issue("localhost")?,
            client: issue("client")?,
            ca,
        })
    }
}

/// Microseconds, at the median.
fn per_call(times: &Value, calls: usize) -> f64 {
    round(times["p50"].as_f64().unwrap_or_default() * 1000.0 / calls as f64)
}
