//! The wiring of the process: store, webhook and admin port in every replica, the controller in
//! the one that leads.
//!
//! Invariant: a replica that loses the Lease ends; it never goes on with what it had in hand.

use std::fmt::Debug;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use api::TenantCluster;
use api::node_pool::ProviderKind;
use futures::StreamExt;
use kit::admin::{Admin, Progress};
use kit::events::Publisher;
use kit::lease::{Election, Leadership, LeaseConfig};
use kit::metrics::ControllerMetrics;
use kit::shutdown::Shutdown;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{Controller, WatchStreamExt, controller};
use kube::{Api, Client, Resource};
use providers::Providers;
use providers::kubevirt::{KubeVirt, needs};
use serde::de::DeserializeOwned;
use tenant_cp::Settings;
use tokio::sync::mpsc;

use crate::admission::{Judge, serve::Webhook};
use crate::args::RunArgs;
use crate::calm::Calm;
use crate::context::{Breaker, Context};
use crate::desk::{self, Desk};
use crate::machine::watch::VmWatches;
use crate::room::Room;
use crate::starts::Starts;
use crate::tenant::Dial;
use crate::tenant_cluster;
use crate::tenant_watch::Tenants;
use crate::triggers::{self, SecretWatches};
use crate::workers::{self, Workers};

/// Name of the Lease.
pub const LEASE: &str = "covey-operator";
/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(25);
/// A reconcile that takes longer is stuck, and the process is not live.
const STUCK: Duration = Duration::from_secs(180);

/// Runs until a signal, or until the Lease is lost.
///
/// # Errors
/// When it cannot start, or has to end because it no longer leads.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let RunArgs {
        log,
        admin,
        client,
        config,
        namespace,
        identity,
        webhook_address,
        concurrency,
    } = args;
    kit::telemetry::init(&log)?;
    kit::client::install_crypto();
    let shutdown = Shutdown::on_signals(GRACE)?;
    let settings = settings(config.as_deref())?;
    let problems = tenant_cp::validate::check_settings(&settings);
    if !problems.is_empty() {
        let problems: Vec<_> = problems
            .iter()
            .map(|p| format!("{}: {}", p.field, p.message))
            .collect();
        anyhow::bail!("the configuration is wrong: {}", problems.join("; "));
    }
    let requests = kit::client::RequestCounter::new();
    let client = kit::client::connect(&client, &requests).await?;
    let port = Admin::new();
    port.metrics(|registry| requests.register(registry));
    port.metrics(kit::metrics::ProcessMetrics::register);

    let timing = kit::lease::Timing::default();
    let lease = LeaseConfig {
        namespace: namespace.clone(),
        name: LEASE.into(),
        identity: identity.clone(),
        timing,
    };
    let (leadership, election) = Election::start(client.clone(), lease);
    let dial: Dial = Arc::new(|_, address| address);
    let mut parts = Parts::new(
        client.clone(),
        settings.clone(),
        leadership.clone(),
        dial,
        &identity,
        &port,
    );
    let store = parts.store();
    let clusters = parts.context.clusters.clone();
    let synced = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&synced);
    port.ready("store", move || match flag.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err("TenantClusters, NodePools and Machines are not listed yet".to_owned()),
    });
    let (starts, watched) = (Arc::clone(&parts.context), leadership.clone());
    port.state("operator", move || {
        let (running, waiting) = starts.starts.counts();
        let (nodes, pods) = starts.room.counts();
        serde_json::json!({
            "leads": watched.is_leader(),
            "starts": { "running": running, "waiting": waiting },
            "secretWatches": starts.secrets.len(),
            "tenantsWatched": starts.tenants.len(),
            "tenantClusters": starts.clusters.len(),
            "nodePools": starts.pools.len(),
            "machines": starts.machines.len(),
            "virtualMachinesWatched": starts.vms.len(),
            "room": { "nodes": nodes, "pods": pods },
        })
    });
    let admin_address = port
        .serve(admin.address, &shutdown)
        .await
        .context("open the admin port")?;
    tracing::info!(%admin_address, "admin port is open");

    let (judged, pools) = (clusters.clone(), parts.context.pools.clone());
    let webhook = Webhook::new(Judge {
        settings: Arc::new(settings),
        clusters: Arc::new(move || judged.state()),
        pools: Arc::new(move || pools.state()),
    });
    port.ready("webhook", webhook.readiness());
    let serve = webhook.run(
        client,
        namespace,
        webhook_address,
        leadership.clone(),
        shutdown.clone(),
    );
    let webhook = async {
        serve.await.context("serve the webhook")?;
        // It ends first at a shutdown; what the controller has in hand still has to end.
        std::future::pending::<anyhow::Result<()>>().await
    };
    let listed = Arc::clone(&parts.context);
    let ready = async move {
        let all = futures::try_join!(
            listed.clusters.wait_until_ready(),
            listed.pools.wait_until_ready(),
            listed.machines.wait_until_ready(),
        );
        if all.is_ok() {
            synced.store(true, Ordering::Relaxed);
        }
        std::future::pending::<()>().await;
    };
    let lead = parts.lead(concurrency, shutdown.clone());
    let result = tokio::select! {
        result = lead => result,
        result = webhook => result,
        () = store => Err(anyhow::anyhow!("the watches on our kinds ended")),
        () = ready => Ok(()),
    };
    tracing::info!("stops");
    election.release().await;
    result
}

/// Everything of a running operator but the process around it; tests run it too.
pub struct Parts {
    /// Shared by all reconciles.
    pub context: Arc<Context>,
    writer: Option<Writer<TenantCluster>>,
    woken: mpsc::UnboundedReceiver<ObjectRef<TenantCluster>>,
    workers: Workers,
}

impl Parts {
    /// Puts the parts together; nothing runs yet.
    #[must_use]
    pub fn new(
        client: Client,
        settings: Settings,
        leadership: Leadership,
        dial: Dial,
        instance: &str,
        port: &Admin,
    ) -> Self {
        let (clusters, writer) = reflector::store();
        let (wake, woken) = mpsc::unbounded_channel();
        let breaker = Breaker::default();
        let progress = Progress::new(STUCK);
        let check = progress.clone();
        port.live("reconciles", move || check.check());
        let metrics = port.metrics(ControllerMetrics::register);
        let events = |name: &str| Publisher::new(client.clone(), name, instance);
        let (workers, wakers, pools, machines) = Workers::new();
        let kubevirt = KubeVirt::new(
            client.clone(),
            settings.providers.kubevirt.clone(),
            crate::FIELD_MANAGER,
        );
        let context = Arc::new(Context {
            calm: Calm::default(),
            cluster_desk: Desk::new(
                events("covey.dev/tenant-cluster"),
                metrics.controller("tenant_cluster"),
            ),
            pool_desk: Desk::new(
                events("covey.dev/node-pool"),
                metrics.controller("node_pool"),
            ),
            machine_desk: Desk::new(events("covey.dev/machine"), metrics.controller("machine")),
            providers: Providers::default().with(ProviderKind::KubeVirt, Arc::new(kubevirt)),
            vms: VmWatches::new(client.clone(), wakers.machines.clone()),
            room: Arc::new(Room::new(needs::labels(&settings.providers.kubevirt))),
            wakers,
            pools,
            machines,
            starts: Starts::new(settings.max_concurrent_starts),
            secrets: SecretWatches::new(client.clone(), wake.clone()),
            given: Mutex::default(),
            tenants: Tenants::new(breaker.clone(), wake.clone()),
            breaker,
            progress,
            client,
            settings,
            leadership,
            clusters,
            dial,
            wake,
        });
        Self {
            context,
            writer: Some(writer),
            woken,
            workers,
        }
    }

    /// Keeps the stores of our kinds up to date, in every replica. Ends never.
    pub fn store(&mut self) -> impl Future<Output = ()> + Send + 'static {
        let context = Arc::clone(&self.context);
        let writer = self.writer.take();
        let workers = self.workers.stores(Arc::clone(&context));
        async move {
            let clusters = keep(&context, writer, note);
            futures::join!(clusters, workers);
        }
    }

    /// Waits for the Lease, then reconciles until the Lease is lost or the shutdown starts.
    ///
    /// # Errors
    /// When the Lease is lost.
    pub async fn lead(self, concurrency: u16, shutdown: Shutdown) -> anyhow::Result<()> {
        let Self {
            context,
            mut woken,
            workers,
            ..
        } = self;
        let synced = async {
            context.leadership.acquired().await;
            context.clusters.wait_until_ready().await?;
            context.pools.wait_until_ready().await?;
            context.machines.wait_until_ready().await
        };
        tokio::select! {
            result = synced => result.context("list TenantClusters, NodePools and Machines")?,
            () = shutdown.triggered() => return Ok(()),
        }
        tracing::info!("leads");
        for cluster in context.clusters.state() {
            // The receiver is in this very function.
            let _ = context.wake.send(ObjectRef::from_obj(&*cluster));
        }
        let woken = futures::stream::poll_fn(move |cx| woken.poll_recv(cx));
        let (of_wake, of_change) = (Arc::clone(&context), Arc::clone(&context));
        let woken = woken.inspect(move |cluster| of_wake.cluster_desk.is_due(cluster));
        let changed = triggers::owned(&context.client);
        let changed = changed.inspect(move |cluster| of_change.cluster_desk.is_due(cluster));
        let controller =
            Controller::for_stream(futures::stream::pending(), context.clusters.clone())
                .with_config(controller::Config::default().concurrency(concurrency))
                .reconcile_on(woken)
                .reconcile_on(changed)
                .graceful_shutdown_on(shutdown.triggered())
                .run(
                    |cluster, context: Arc<Context>| async move {
                        let key = desk::key_of(&*cluster);
                        let work = tenant_cluster::reconcile(cluster, Arc::clone(&context));
                        context.calm.look(&key, work).await
                    },
                    tenant_cluster::error_policy,
                    Arc::clone(&context),
                )
                .for_each(|_| std::future::ready(()));
        let workers = workers.run(Arc::clone(&context), shutdown);
        let all = async {
            futures::join!(controller, workers);
        };
        let lost = context.leadership.lost();
        tokio::select! {
            () = all => Ok(()),
            () = lost => Err(anyhow::anyhow!("the Lease {LEASE} is lost; another replica leads")),
        }
    }
}

/// Keeps a store up to date, and tells of each object that changed (true) or went.
pub(crate) async fn keep<K>(
    context: &Arc<Context>,
    writer: Option<Writer<K>>,
    note: fn(&Context, &K, bool),
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let Some(writer) = writer else { return };
    let api = Api::<DeserializeGuard<K>>::all(context.client.clone());
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let valid = events.filter_map(|event| std::future::ready(decoded(event)));
    reflector::reflector(writer, valid)
        .for_each(|event| {
            match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => note(context, &object, true),
                Ok(Event::Delete(object)) => note(context, &object, false),
                Ok(Event::Init | Event::InitDone) | Err(_) => {}
            }
            std::future::ready(())
        })
        .await;
}

/// What can be decoded; the rest is logged and left as it was in the store, so that one broken
/// object stops nobody.
fn decoded<K: Resource<DynamicType = ()>>(
    event: Result<Event<DeserializeGuard<K>>, watcher::Error>,
) -> Option<Result<Event<K>, watcher::Error>> {
    let kind = K::kind(&());
    let decode = |guard: DeserializeGuard<K>| match guard.0 {
        Ok(mut object) => {
            object.meta_mut().managed_fields = None;
            Some(object)
        }
        Err(error) => {
            tracing::error!(
                error = error.error,
                "cannot read {kind} {}/{}; correct it with kubectl edit",
                error.metadata.namespace.unwrap_or_default(),
                error.metadata.name.unwrap_or_default(),
            );
            None
        }
    };
    match event {
        Ok(Event::Apply(guard)) => decode(guard).map(|c| Ok(Event::Apply(c))),
        Ok(Event::InitApply(guard)) => decode(guard).map(|c| Ok(Event::InitApply(c))),
        Ok(Event::Delete(guard)) => decode(guard).map(|c| Ok(Event::Delete(c))),
        Ok(Event::Init) => Some(Ok(Event::Init)),
        Ok(Event::InitDone) => Some(Ok(Event::InitDone)),
        Err(error) => {
            tracing::warn!(error = kit::errors::chain(&error), "watch on {kind}s");
            Some(Err(error))
        }
    }
}

fn note(context: &Context, cluster: &TenantCluster, there: bool) {
    if !there {
        context.forget(cluster.metadata.uid.as_deref().unwrap_or_default());
    } else if context.leadership.is_leader() {
        // Fails only once the controller has ended.
        let _ = context.wake.send(ObjectRef::from_obj(cluster));
    }
    workers::note_cluster(context, cluster, there);
}

fn settings(path: Option<&Path>) -> anyhow::Result<Settings> {
    let Some(path) = path else {
        return Ok(Settings::default());
    };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("read the configuration {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| {
        format!(
            "understand the configuration {}; `operator print config` shows all keys",
            path.display()
        )
    })
}

/// The CustomResourceDefinitions, as YAML documents.
///
/// # Errors
/// When one cannot be written as YAML, which is a bug.
pub fn crds_yaml() -> anyhow::Result<String> {
    let mut text = String::new();
    for crd in api::crds() {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&crd)?);
    }
    Ok(text)
}

/// The default configuration.
///
/// # Errors
/// When it cannot be written as YAML, which is a bug.
pub fn config_yaml() -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(&Settings::default())?)
}
