//! Manager: watches in every replica, controllers in the one that leads.
//!
//! Invariant: nothing is reconciled before this replica leads and everything has been listed once.

use std::sync::Arc;
use std::time::Duration;

use kit::admin::{Admin, Progress};
use kit::events::Publisher;
use kit::lease::Leadership;
use kit::metrics::ControllerMetrics;
use kit::shutdown::Shutdown;
use kit::workqueue::Queue;
use kit_client::backoff::{Attempts, Backoff};
use kit_client::connect::Clients;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cache::{Cache, watches};
use crate::client::Client;
use crate::context::Context;
use crate::metrics::{self, Sources};
use crate::pending::Pending;
use crate::settings::Settings;
use crate::{controllers, names};

/// A reconcile that takes longer is stuck, and the process is not live.
const STUCK: Duration = Duration::from_secs(180);
/// Workers that only take dead machines out of load balancers: all others may wait for requests that a flood
/// of Services has used up, or for the tenant cluster's API.
const URGENT: usize = 4;
/// How often orphans are looked for, although every change has been seen.
const SWEEP: Duration = Duration::from_secs(600);
/// Failures are tried again after 0.2 s at first, and once a minute at last.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(60));

/// Everything of a running process but the process around it; tests run it too.
#[derive(Clone)]
pub struct Manager {
    /// Shared by all reconciles.
    pub context: Arc<Context>,
}

impl Manager {
    /// Wires everything; nothing runs yet.
    #[must_use]
    pub fn new(
        tenant: kube::Client,
        management: impl Into<Clients>,
        settings: Settings,
        leadership: Leadership,
        instance: &str,
        port: &Admin,
    ) -> Self {
        let settings = Arc::new(settings);
        let queue = Queue::new();
        let cache = Arc::new(Cache::new(Arc::clone(&settings)));
        let progress = Progress::new(STUCK);
        let check = progress.clone();
        port.live("reconciles", move || check.check());
        let listed = Arc::clone(&cache);
        port.ready("watches", move || match listed.missing().as_slice() {
            [] => Ok(()),
            missing => Err(format!("not listed yet: {missing:?}")),
        });
        let (shown, queued, leads) = (Arc::clone(&cache), queue.clone(), leadership.clone());
        port.state("ccm", move || {
            let mut state = shown.read(|state| state.counts());
            state["leads"] = leads.is_leader().into();
            state["queued"] = queued.len().into();
            state
        });
        let controllers = port.metrics(ControllerMetrics::register);
        let pending = Arc::new(Pending::default());
        let sources = Sources {
            cache: Arc::clone(&cache),
            queue: queue.clone(),
            pending: Arc::clone(&pending),
            leadership: leadership.clone(),
        };
        port.metrics(|registry| metrics::register(registry, sources));
        let context = Arc::new(Context {
            events: Publisher::new(tenant.clone(), "covey.dev/ccm", instance),
            client: Client {
                tenant,
                management: management.into(),
                namespace: settings.namespace.clone(),
                leadership,
            },
            settings,
            cache,
            queue,
            heartbeats: Default::default(),
            nodes: controllers.controller("node"),
            services: controllers.controller("service"),
            pending,
            attempts: Attempts::new(BACKOFF),
            progress,
        });
        Self { context }
    }

    /// Keeps the cache up to date, in every replica. Ends never.
    pub fn watches(&self) -> impl Future<Output = ()> + Send + 'static {
        let ctx = Arc::clone(&self.context);
        let Client {
            tenant, management, ..
        } = &self.context.client;
        let (cache, settings) = (&self.context.cache, &self.context.settings);
        watches::all(cache, tenant, &management.usual, settings, move |changes| {
            ctx.on_change(changes);
        })
    }

    /// Waits for the Lease, then works until the Lease is lost or the shutdown starts.
    ///
    /// # Errors
    /// When the Lease is lost.
    pub async fn lead(&self, concurrency: u16, shutdown: Shutdown) -> anyhow::Result<()> {
        let ctx = &self.context;
        let leadership = &ctx.client.leadership;
        let begin = async {
            leadership.acquired().await;
            ctx.cache.listed().await;
        };
        if shutdown.until(begin).await.is_none() {
            return Ok(());
        }
        tracing::info!("leads");
        ctx.pending.lead(Instant::now());
        ctx.queue_all();
        let mut workers = JoinSet::new();
        for _ in 0..concurrency.max(1) {
            workers.spawn(work(Arc::clone(ctx), shutdown.clone()));
        }
        for _ in 0..URGENT {
            workers.spawn(work_urgently(Arc::clone(ctx), shutdown.clone()));
        }
        let swept = Arc::clone(ctx);
        let sweeper = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(SWEEP);
            loop {
                ticks.tick().await;
                swept.queue_orphans();
            }
        });
        let result = tokio::select! {
            () = async { while workers.join_next().await.is_some() {} } => Ok(()),
            () = leadership.lost() => {
                Err(anyhow::anyhow!("the Lease {} is lost; another replica leads", names::LEASE))
            }
        };
        sweeper.abort();
        result
    }
}

async fn work_urgently(ctx: Arc<Context>, shutdown: Shutdown) {
    while let Some(turn) = shutdown.until(ctx.queue.next_urgent()).await {
        controllers::reconcile(&ctx, &turn).await;
        ctx.queue.done(&turn.key);
    }
}

async fn work(ctx: Arc<Context>, shutdown: Shutdown) {
    while let Some(turn) = shutdown.until(ctx.queue.next()).await {
        controllers::reconcile(&ctx, &turn).await;
        ctx.queue.done(&turn.key);
    }
}
