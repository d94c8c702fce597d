//! Events in an etcd of their own, with real etcd processes and a real kube-apiserver of a tenant cluster.
//!
//! Invariant: nothing but Events is there; with it killed everything else goes on, and is said to.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;

use anyhow::{Context as _, Result, ensure};
use api::tenant_cluster::EtcdEvents;
use api::{Reason, TenantCluster};
use futures::StreamExt as _;
use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tenant_cp::names::EVENTS_LOST;
use testkit::fixtures::{is_settled, minimal};
use testkit::ports::unused;
use testkit::process::{Process, Workdir};
use testkit::programs::Programs;
use testkit::waiting::{ask_until, wait_for, wait_gone};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::checks::files;
use crate::support::etcd_members::{EtcdMembers, keys, member_at, members};
use crate::support::site::tenant_namespace;
use crate::support::tenant_api::TenantApi;
use crate::support::{Launch, PATIENCE, Site};

const FLAG: &str = "--etcd-servers-overrides=";
const NAME: &str = "etcd-events";

/// The etcd of Events with the flags of its Deployment; but for ports, addresses and folders.
struct EventsEtcd {
    address: SocketAddr,
    process: Process,
    _dir: Workdir,
}

impl EventsEtcd {
    async fn start(management: &Client, namespace: &str) -> Result<Option<Self>> {
        let Some(programs) = Programs::find_or_skip()? else {
            return Ok(None);
        };
        let deployments: Api<Deployment> = Api::namespaced(management.clone(), namespace);
        let deployment = serde_json::to_value(deployments.get("etcd-events").await?)?;
        let dir = Workdir::new()?;
        files(management, namespace, "etcd-events", dir.path()).await?;
        let place = dir.path().display().to_string();
        let (client, metrics, peer) = (unused()?, unused()?, unused()?);
        let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
        let args = args.as_array().context("no args")?.iter();
        let arg = |arg: &Value| {
            let arg = arg.as_str().unwrap_or_default();
            match arg.split_once('=') {
                Some((flag @ ("--listen-client-urls" | "--advertise-client-urls"), _)) => {
                    format!("{flag}=https://127.0.0.1:{client}")
                }
                Some((flag @ "--listen-metrics-urls", _)) => {
                    format!("{flag}=http://127.0.0.1:{metrics}")
                }
                _ => arg
                    .replace("127.0.0.1:2380", &format!("127.0.0.1:{peer}"))
                    .replace("/etc/kubernetes", &place)
                    .replace("/var/lib/etcd", &place),
            }
        };
        let mut args: Vec<_> = args.map(arg).collect();
        // Tests ask by JSON, for which it is its own client; its own certificate is a server's alone.
        let reader = "etcd-healthcheck-client";
        files(management, namespace, reader, dir.path()).await?;
        args.extend(["crt", "key"].map(|end| {
            let flag = if end == "crt" { "cert" } else { "key" };
            format!("--client-{flag}-file={place}/{reader}.{end}")
        }));
        let log = dir.path().join("log");
        let process = Process::spawn("etcd of Events", &programs.etcd, &args, &log)?;
        Ok(Some(Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, client)),
            process,
            _dir: dir,
        }))
    }

    fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}

/// What the controller of Deployments says of the etcd of Events, also after each change of it. It ends when it is dropped.
struct Played {
    /// Whether it is available, and since when it is so.
    said: watch::Sender<(bool, Timestamp)>,
    task: JoinHandle<()>,
}

impl Played {
    fn start(deployments: &Api<Deployment>, available: bool, since: Timestamp) -> Self {
        let (said, told) = watch::channel((available, since));
        let task = tokio::spawn(play(deployments.clone(), told));
        Self { said, task }
    }

    fn say(&self, available: bool, since: Timestamp) {
        self.said.send_replace((available, since));
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn play(deployments: Api<Deployment>, mut told: watch::Receiver<(bool, Timestamp)>) {
    let changes = watch_object(deployments.clone(), NAME).default_backoff();
    let mut changes = pin!(changes);
    loop {
        tokio::select! {
            change = changes.next() => if change.is_none() { return },
            changed = told.changed() => if changed.is_err() { return },
        }
        let (available, since) = *told.borrow_and_update();
        if let Err(error) = write_status(&deployments, available, since).await {
            eprintln!("the controller of Deployments could not be played: {error:#}");
        }
    }
}

async fn write_status(
    deployments: &Api<Deployment>,
    available: bool,
    since: Timestamp,
) -> Result<()> {
    let Some(live) = deployments.get_opt(NAME).await? else {
        return Ok(());
    };
    let ready = i32::from(available);
    let (status, reason) = match available {
        true => ("True", "MinimumReplicasAvailable"),
        false => ("False", "MinimumReplicasUnavailable"),
    };
    let status = json!({ "status": {
        "observedGeneration": live.metadata.generation, "replicas": 1, "updatedReplicas": 1,
        "readyReplicas": ready, "availableReplicas": ready, "unavailableReplicas": 1 - ready,
        "conditions": [{ "type": "Available", "status": status, "reason": reason, "message": "",
            "lastTransitionTime": since.to_string() }],
    } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(&status));
    deployments.patch_status(NAME, &params, &patch).await?;
    Ok(())
}

/// So long ago, in whole seconds, as objects have it.
fn ago(seconds: i64) -> Result<Timestamp> {
    Ok(Timestamp::from_second(
        Timestamp::now().as_second() - seconds,
    )?)
}

fn is_ready(cluster: &TenantCluster) -> bool {
    let mut conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|c| c.type_ == "Ready" && c.status == "True")
}

fn is_told(cluster: &TenantCluster) -> bool {
    let mut conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let reason = Reason::EventsUnavailable.as_str();
    conditions.any(|c| c.type_ == "Degraded" && c.reason == reason)
}

/// Kube-apiservers do without it a minute after it is lost, and not with it again at once.
async fn it_is_lost_and_comes_back(
    site: &Site,
    deployments: &Api<Deployment>,
    played: &Played,
) -> Result<()> {
    // For most of a minute: that the rest is over nobody tells the operator but its own clock.
    let lost = ago(50)?;
    played.say(false, lost);
    let is_not_named = |found: Option<&Deployment>| found.is_some_and(|live| !names_it(live));
    wait_for(deployments, "control-plane", is_not_named, 2 * PATIENCE).await?;
    let told = site.wait("demo", is_told).await?;
    ensure!(is_ready(&told), "{told:?}");
    let live = deployments.get(NAME).await?;
    let noted = live.annotations().get(EVENTS_LOST);
    ensure!(noted == Some(&lost.to_string()), "{noted:?}");
    // Steady again, and it is not ten minutes since it was lost.
    played.say(true, ago(40)?);
    site.wait("demo", |cluster| !is_told(cluster) && is_settled(cluster))
        .await?;
    ensure!(!names_it(&deployments.get("control-plane").await?));
    Ok(())
}

fn names_it(deployment: &Deployment) -> bool {
    let spec = deployment
        .spec
        .as_ref()
        .and_then(|s| s.template.spec.as_ref());
    let containers = spec.into_iter().flat_map(|spec| &spec.containers);
    let mut args = containers.flat_map(|container| container.args.iter().flatten());
    args.any(|arg| arg.starts_with(FLAG))
}

/// Where the kubelet asks whether the kube-apiserver is ready.
fn readiness(deployment: &Deployment) -> Option<String> {
    let spec = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let mut containers = spec.containers.iter();
    let server = containers.find(|container| container.name == "apiserver")?;
    server
        .readiness_probe
        .as_ref()?
        .http_get
        .as_ref()?
        .path
        .clone()
}

async fn answers(client: &Client, path: &str) -> Result<bool> {
    let request = Request::get(path).body(Vec::new())?;
    Ok(client.request_text(request).await.is_ok())
}

async fn write_config(client: &Client, name: &str) -> Result<()> {
    let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.create(&PostParams::default(), &map).await?;
    Ok(())
}

async fn write_event(client: &Client, name: &str) -> Result<()> {
    let event: Event = serde_json::from_value(json!({
        "metadata": { "name": name }, "reason": "Tested", "message": "it is", "type": "Normal",
        "involvedObject": { "kind": "Namespace", "name": "default", "namespace": "default" },
    }))?;
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    events.create(&PostParams::default(), &event).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_alone_are_in_an_etcd_of_their_own_and_everything_else_goes_on_without_it()
-> Result<()> {
    let Some(site) = Site::without_etcd("etcd-events").await? else {
        return Ok(());
    };
    let mut cluster = minimal(&site.users, "demo");
    cluster.spec.etcd.events = Some(EtcdEvents::default());
    let cluster = site.create_as(&cluster).await?;
    let ns = tenant_namespace(&cluster);
    let Some(etcd) = EtcdMembers::start(&site.admin, &ns, &[]).await? else {
        return Ok(());
    };
    let mut launch = Launch::new(&site)?;
    launch.dial = Some(etcd.dial(site.dial()));
    let operator = launch.start(&site)?;
    let deployments: Api<Deployment> = Api::namespaced(site.admin.clone(), &ns);
    let played = Played::start(&deployments, true, ago(40)?);
    let is_named = |found: Option<&Deployment>| found.is_some_and(names_it);
    let named = wait_for(&deployments, "control-plane", is_named, 2 * PATIENCE).await?;
    let path = named.as_ref().and_then(readiness).context("no probe")?;
    site.wait("demo", is_settled).await?;

    let Some(mut events) = EventsEtcd::start(&site.admin, &ns).await? else {
        return Ok(());
    };
    let url = etcd.client_url(0);
    let tenant = TenantApi::start_with(&site.admin, &ns, &url, Some(&events.url())).await?;
    let api = tenant.context("no programs")?;
    let client = api.administrator()?;
    write_config(&client, "before").await?;
    write_event(&client, "before").await?;
    let there = member_at(&site.admin, &ns, events.address, "etcd-events").await?;
    let elsewhere = keys(&there, "/registry/").await?;
    ensure!(
        elsewhere.contains(&"/registry/events/default/before".to_owned()),
        "{elsewhere:?}"
    );
    let odd = elsewhere
        .iter()
        .filter(|key| !key.starts_with("/registry/events/"));
    let odd: Vec<_> = odd.collect();
    ensure!(odd.is_empty(), "{odd:?}");
    let first = &members(&site.admin, &ns, &etcd).await?[0];
    let main = keys(first, "/registry/events/").await?;
    ensure!(main.is_empty(), "{main:?}");
    ensure!(!keys(first, "/registry/configmaps/").await?.is_empty());
    ensure!(answers(&client, &path).await? && answers(&client, "/readyz").await?);

    events.process.kill();
    ask_until("its own check says no", PATIENCE, || async {
        let answers = answers(&client, "/readyz").await?;
        Ok(if answers {
            Err("it is ready".to_owned())
        } else {
            Ok(())
        })
    })
    .await?;
    ensure!(answers(&client, &path).await?, "{path}");
    write_config(&client, "after").await?;
    drop(api);
    Box::pin(it_is_lost_and_comes_back(&site, &deployments, &played)).await?;

    site.change("demo", &json!({ "spec": { "etcd": { "events": null } } }))
        .await?;
    wait_gone(&deployments, "etcd-events", 2 * PATIENCE).await?;
    site.wait("demo", is_settled).await?;
    drop(operator);
    Ok(())
}
