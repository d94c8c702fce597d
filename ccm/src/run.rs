//! The wiring of the process: watches in every replica, writes in the one that leads.
//!
//! Invariant: a replica that loses the Lease ends; it never goes on with what it had in hand.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kit::admin::{Admin, Progress};
use kit::args::ClientArgs;
use kit::backoff::{Attempts, Backoff};
use kit::client::RequestCounter;
use kit::errors::{Class, Classify};
use kit::events::Publisher;
use kit::lease::{Election, Leadership, LeaseConfig, Timing};
use kit::metrics::{Controller, ControllerMetrics};
use kit::shutdown::Shutdown;
use kube::Client;
use tokio::task::JoinSet;

use crate::args::Args;
use crate::node::pulse::Pulses;
use crate::queue::{Key, Queue, Turn};
use crate::settings::Settings;
use crate::world::World;
use crate::{node, service, watch};

/// Name of the Lease in the tenant namespace.
pub const LEASE: &str = api::names::LEASE_CLOUD_CONTROLLER;
/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(15);
/// A look that takes longer is stuck, and the process is not live.
const STUCK: Duration = Duration::from_secs(180);
/// How often orphans are looked for, although every change has been seen.
pub const SWEEP: Duration = Duration::from_secs(600);
/// Failures are tried again after 0.2 s at first, and once a minute at last.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(60));

/// What every look shares.
pub struct Context {
    /// The tenant cluster's API.
    pub tenant: Client,
    /// The management cluster's API.
    pub management: Client,
    /// What can be configured.
    pub settings: Arc<Settings>,
    /// What the watches told.
    pub world: Arc<World>,
    /// Who is next.
    pub queue: Queue,
    /// Kubelets that were listened to.
    pub pulses: Pulses,
    /// The fence.
    pub leadership: Leadership,
    /// Events in the tenant cluster.
    pub events: Publisher,
    /// Metrics of nodes.
    pub nodes: Controller,
    /// Metrics of Services.
    pub services: Controller,
    attempts: Attempts<Key>,
    progress: Progress,
}

/// Runs until a signal, or until the Lease is lost.
///
/// # Errors
/// When it cannot start, or has to end because it no longer leads.
pub async fn run(args: Args) -> anyhow::Result<()> {
    kit::telemetry::init(&args.log)?;
    kit::client::install_crypto();
    let shutdown = Shutdown::on_signals(GRACE)?;
    let (settings, management_kubeconfig) = args.settings()?;
    let Args {
        admin,
        tenant_kubeconfig,
        client_qps,
        client_burst,
        identity,
        concurrency,
        ..
    } = args;
    let port = Admin::new();
    port.metrics(kit::metrics::ProcessMetrics::register);
    let client = async |api: &'static str, kubeconfig| {
        let requests = RequestCounter::new();
        let args = ClientArgs {
            kubeconfig,
            qps: client_qps,
            burst: client_burst,
        };
        let client = kit::client::connect(&args, &requests).await;
        port.metrics(|r| requests.register(r.sub_registry_with_label(("api".into(), api.into()))));
        client.with_context(|| format!("set up the client of the {api} cluster's API"))
    };
    let tenant = client("tenant", Some(tenant_kubeconfig)).await?;
    let management = client("management", management_kubeconfig).await?;
    let lease = LeaseConfig {
        namespace: settings.namespace.clone(),
        name: LEASE.to_owned(),
        identity: identity.clone(),
        timing: Timing {
            // Another replica takes over within two seconds of a release.
            retry: Duration::from_secs(1),
            ..Timing::default()
        },
    };
    let (leadership, election) = Election::start(management.clone(), lease);
    let parts = Parts::new(tenant, management, settings, leadership, &identity, &port);
    let address = port.serve(admin.address, &shutdown).await;
    let address = address.context("open the admin port")?;
    tracing::info!(%address, "admin port is open");
    let watches = tokio::spawn(parts.watches());
    let result = parts.lead(concurrency, shutdown).await;
    tracing::info!("stops");
    watches.abort();
    election.release().await;
    result
}

/// Everything of a running process but the process around it; tests run it too.
#[derive(Clone)]
pub struct Parts {
    /// Shared by all looks.
    pub context: Arc<Context>,
}

impl Parts {
    /// Puts the parts together; nothing runs yet.
    #[must_use]
    pub fn new(
        tenant: Client,
        management: Client,
        settings: Settings,
        leadership: Leadership,
        instance: &str,
        port: &Admin,
    ) -> Self {
        let settings = Arc::new(settings);
        let queue = Queue::new();
        let world = Arc::new(World::new(Arc::clone(&settings), queue.clone()));
        let progress = Progress::new(STUCK);
        let check = progress.clone();
        port.live("looks", move || check.check());
        let listed = Arc::clone(&world);
        port.ready("watches", move || match listed.missing().as_slice() {
            [] => Ok(()),
            missing => Err(format!("not listed yet: {missing:?}")),
        });
        let (shown, queued, leads) = (Arc::clone(&world), queue.clone(), leadership.clone());
        port.state("ccm", move || {
            let mut state = shown.counts();
            state["leads"] = leads.is_leader().into();
            state["queued"] = queued.len().into();
            state
        });
        let metrics = port.metrics(ControllerMetrics::register);
        let context = Arc::new(Context {
            events: Publisher::new(tenant.clone(), "covey.dev/ccm", instance),
            tenant,
            management,
            settings,
            world,
            queue,
            pulses: Pulses::default(),
            leadership,
            nodes: metrics.controller("node"),
            services: metrics.controller("service"),
            attempts: Attempts::new(BACKOFF),
            progress,
        });
        Self { context }
    }

    /// Keeps the world up to date, in every replica. Ends never.
    pub fn watches(&self) -> impl Future<Output = ()> + Send + 'static {
        let ctx = &self.context;
        watch::all(&ctx.world, &ctx.tenant, &ctx.management, &ctx.settings)
    }

    /// Waits for the Lease, then works until the Lease is lost or the shutdown starts.
    ///
    /// # Errors
    /// When the Lease is lost.
    pub async fn lead(&self, concurrency: u16, shutdown: Shutdown) -> anyhow::Result<()> {
        let ctx = &self.context;
        let begin = async {
            ctx.leadership.acquired().await;
            ctx.world.listed().await;
        };
        if shutdown.until(begin).await.is_none() {
            return Ok(());
        }
        tracing::info!("leads");
        ctx.world.queue_all();
        let mut workers = JoinSet::new();
        for _ in 0..concurrency.max(1) {
            workers.spawn(work(Arc::clone(ctx), shutdown.clone()));
        }
        let swept = Arc::clone(ctx);
        let sweeper = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(SWEEP);
            loop {
                ticks.tick().await;
                swept.world.sweep();
            }
        });
        let result = tokio::select! {
            () = async { while workers.join_next().await.is_some() {} } => Ok(()),
            () = ctx.leadership.lost() => {
                Err(anyhow::anyhow!("the Lease {LEASE} is lost; another replica leads"))
            }
        };
        sweeper.abort();
        result
    }
}

async fn work(ctx: Arc<Context>, shutdown: Shutdown) {
    while let Some(turn) = shutdown.until(ctx.queue.next()).await {
        look(&ctx, &turn).await;
        ctx.queue.done(&turn.key);
    }
}

/// One look, and when to look again if it failed.
async fn look(ctx: &Context, Turn { key, age }: &Turn) {
    let in_hand = ctx.progress.begin();
    let failed = match key {
        Key::Node(name) if ctx.settings.nodes => {
            let run = ctx.nodes.begin(*age);
            let result = node::reconcile(ctx, name).await;
            run.finish(result.as_ref().err().map(Classify::class));
            result.err().map(|e| (e.class(), kit::errors::chain(&e)))
        }
        Key::Service(uid) if ctx.settings.services => {
            let run = ctx.services.begin(*age);
            let result = service::reconcile(ctx, uid).await;
            run.finish(result.as_ref().err().map(Classify::class));
            if let Err(error) = &result {
                service::failed(ctx, uid, error, ctx.attempts.count(key) + 1).await;
            }
            result.err().map(|e| (e.class(), kit::errors::chain(&e)))
        }
        Key::Node(_) | Key::Service(_) => None,
    };
    drop(in_hand);
    let Some((class, error)) = failed else {
        ctx.attempts.reset(key);
        return;
    };
    let wait = ctx.attempts.failed(key);
    let wait = match class {
        Class::Conflict => wait.min(Duration::from_millis(200)),
        Class::Transient => wait,
        Class::Invalid | Class::Bug => wait.max(Duration::from_secs(5)),
    };
    tracing::warn!(
        key = ?key, error.class = class.label(), error,
        "look at {} failed; again in {} ms", key.name(), wait.as_millis()
    );
    ctx.queue.add_after(key.clone(), wait);
}
