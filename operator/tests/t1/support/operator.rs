//! A running operator: the very parts of the binary, minus signals and the admin port.
//!
//! Invariant: dropping it is a crash (every task is aborted, nothing is tidied up), [`Operator::stop`]
//! is an orderly end; either way nothing of it goes on.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::TenantCluster;
use kit::lease::Leadership;
use kit::shutdown::Shutdown;
use kit_client::args::ClientArgs;
use kit_client::count::RequestCounter;
use kit_client::errors::{Class, Classify};
use kit_client::fence::FenceLayer;
use kit_client::meter::MeterLayer;
use kube::{Client, Config, ResourceExt};
use operator::clouds::Clouds;
use operator::context::Context;
use operator::controllers::{machine, node_pool, tenant_cluster};
use operator::etcd_replacement::patience::Patience;
use operator::manager::Manager;
use operator::tenant_session::session::Dial;
use operator::turns::Pace;
use providers::clock::Clock;
use tenant_cp::Settings;
use testkit::FaultPlan;
use tokio::task::JoinHandle;
use tower::layer::util::Stack;

use super::scope::Scope;
use super::site::{Site, tenant_namespace};

/// The operator's default (`--concurrency`).
const CONCURRENCY: u16 = 16;

/// How an operator is started.
pub(crate) struct Launch {
    pub(crate) plan: FaultPlan,
    pub(crate) config: Config,
    pub(crate) settings: Settings,
    pub(crate) leadership: Leadership,
    pub(crate) instance: String,
    /// How tenants are reached; none: by the site's stand-ins.
    pub(crate) dial: Option<Dial>,
    /// How fast first looks at what is at rest follow each other.
    pub(crate) pace: Pace,
    /// How long something has to be so before a member of etcd is replaced.
    pub(crate) etcd_patience: Patience,
    /// How long a tenant cluster has to be Ready before an upgrade begins.
    pub(crate) upgrade_calm: Duration,
    /// The time of clouds; none: the machine's own.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// How many tenant clusters are reconciled at once.
    pub(crate) concurrency: u16,
    /// Whether it shares the work with others.
    pub(crate) is_shared: bool,
}

impl Launch {
    /// As it should be: leading, without faults.
    pub(crate) fn new(site: &Site) -> Result<Self> {
        Ok(Self {
            plan: FaultPlan::none(),
            config: site.config()?,
            settings: site.settings(),
            leadership: Leadership::always(),
            instance: "operator-1".to_owned(),
            dial: None,
            pace: Pace::default(),
            etcd_patience: Patience::default(),
            upgrade_calm: Duration::ZERO,
            clock: None,
            concurrency: CONCURRENCY,
            is_shared: false,
        })
    }

    /// With faults.
    pub(crate) fn plan(self, plan: &FaultPlan) -> Self {
        Self {
            plan: plan.clone(),
            ..self
        }
    }

    /// The operator's client: the binary's own layers and its fence above, faults and scope below.
    pub(crate) fn client(&self, site: &Site) -> Result<Client> {
        // The tests share two cores and one server; what is tested is not the rate limit.
        let args = ClientArgs {
            qps: 500.0,
            burst: 1000,
            ..ClientArgs::default()
        };
        let below = Stack::new(Scope::new(&site.users), self.plan.layer());
        let below = Stack::new(below, MeterLayer);
        let below = Stack::new(below, FenceLayer::new(self.leadership.clone()));
        Ok(kit_client::connect::build(
            self.config.clone(),
            &args,
            &RequestCounter::new(),
            &below,
        )?)
    }

    pub(crate) fn start(self, site: &Site) -> Result<Operator> {
        let client = self.client(site)?;
        let port = kit::admin::Admin::new();
        let Self {
            settings,
            leadership,
            instance,
            plan,
            dial,
            pace,
            etcd_patience,
            upgrade_calm,
            clock,
            concurrency,
            is_shared,
            ..
        } = self;
        let dial = dial.unwrap_or_else(|| site.dial());
        let mut manager = Manager::new(client, settings, leadership, dial, &instance, &port);
        let shared = Arc::get_mut(&mut manager.context);
        let shared = shared.context("the context is shared already")?;
        shared.etcd_patience = etcd_patience;
        shared.upgrade_calm = upgrade_calm;
        if let Some(clock) = clock {
            let configs = shared.stores.configs.clone();
            let (client, settings) = (shared.client.clone(), &shared.settings.providers);
            shared.clouds = Clouds::with_clock(client, settings, configs, clock);
            shared.providers = shared.clouds.register(shared.providers.clone());
        }
        if is_shared {
            manager.context.shards.share();
        }
        let context = Arc::clone(&manager.context);
        // As above.
        context.throttle.limit(500.0, 1000.0);
        context.throttle.pace(pace);
        let shutdown = Shutdown::new();
        let store = tokio::spawn(manager.run_stores());
        let lead = tokio::spawn(manager.lead(concurrency, shutdown.clone()));
        Ok(Operator {
            context,
            plan,
            shutdown,
            store,
            lead: Some(lead),
        })
    }
}

/// One that runs.
pub(crate) struct Operator {
    pub(crate) context: Arc<Context>,
    pub(crate) plan: FaultPlan,
    shutdown: Shutdown,
    store: JoinHandle<()>,
    lead: Option<JoinHandle<Result<()>>>,
}

impl Operator {
    /// A healthy one.
    pub(crate) fn start(site: &Site) -> Result<Self> {
        Launch::new(site)?.start(site)
    }

    /// One reconcile from the top, at once and to its end.
    pub(crate) async fn reconcile(&self, site: &Site, name: &str) -> Result<()> {
        let cluster = Arc::new(site.clusters().get(name).await?);
        let namespace = cluster.namespace().unwrap_or_default();
        let run = || {
            let context = Arc::clone(&self.context);
            Box::pin(tenant_cluster::reconcile(Arc::clone(&cluster), context))
        };
        unraced(run).await.map_err(|error| {
            anyhow::anyhow!(
                "reconcile of {namespace}/{name}: {}",
                kit_client::errors::chain(&error)
            )
        })
    }

    /// One reconcile of a node pool, and of none of its Machines.
    pub(crate) async fn reconcile_pool_alone(&self, site: &Site, name: &str) -> Result<()> {
        let pool = Arc::new(site.pools().get(name).await?);
        let run = || {
            let context = Arc::clone(&self.context);
            Box::pin(node_pool::reconcile(Arc::clone(&pool), context))
        };
        let done = unraced(run).await;
        done.with_context(|| format!("reconcile of NodePool {name}"))
    }

    /// One reconcile of a node pool and of each of its Machines.
    pub(crate) async fn reconcile_pool(&self, site: &Site, name: &str) -> Result<()> {
        self.reconcile_pool_alone(site, name).await?;
        for machine in site.machines_of(name).await? {
            let (name, machine) = (machine.name_any(), Arc::new(machine));
            let run = || {
                let context = Arc::clone(&self.context);
                Box::pin(machine::reconcile(Arc::clone(&machine), context))
            };
            let done = unraced(run).await;
            done.with_context(|| format!("reconcile of Machine {name}"))?;
        }
        Ok(())
    }

    /// As [`Self::settle`], for a tenant cluster and one of its node pools, in both APIs.
    pub(crate) async fn settle_pool(&self, site: &Site, cluster: &str, pool: &str) -> Result<()> {
        const MOST: usize = 10;
        let ns = tenant_namespace(&site.clusters().get(cluster).await?);
        let mut last = Vec::new();
        for _ in 0..MOST {
            let window = site.api.audit().window()?;
            let inside = site.writes_inside(&ns).len();
            self.reconcile(site, cluster).await?;
            self.reconcile_pool(site, pool).await?;
            last = window.writes_of(&site.user())?;
            if last.is_empty() && site.writes_inside(&ns).len() == inside {
                return Ok(());
            }
        }
        anyhow::bail!("{pool} does not come to rest in {MOST} reconciles: {last:#?}")
    }

    /// Reconciles until one of them writes nothing: everything that was on its way has arrived.
    pub(crate) async fn settle(&self, site: &Site, name: &str) -> Result<()> {
        const MOST: usize = 10;
        for _ in 0..MOST {
            let window = site.api.audit().window()?;
            self.reconcile(site, name).await?;
            if window.writes_of(&site.user())?.is_empty() {
                return Ok(());
            }
        }
        anyhow::bail!("{name} does not come to rest in {MOST} reconciles")
    }

    /// Waits until it has ended by itself, and says how.
    pub(crate) async fn ended(&mut self) -> Result<()> {
        let lead = self.lead.take().context("it was waited for already")?;
        tokio::time::timeout(super::PATIENCE, lead)
            .await
            .context("it does not end")??
    }

    /// Ends it in an orderly way.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.end().await
    }

    /// As [`Self::settle`], once nothing of it runs beside: what both wrote would be written twice.
    pub(crate) async fn stop_and_settle(mut self, site: &Site, name: &str) -> Result<()> {
        self.end().await?;
        self.settle(site, name).await
    }

    async fn end(&mut self) -> Result<()> {
        self.shutdown.trigger();
        self.ended().await
    }
}

/// Again, as the operator's own loops do it, when one of them was faster: they run at the same time as
/// what a test asks for.
async fn unraced<T, E, F>(mut run: impl FnMut() -> F) -> Result<(), E>
where
    E: Classify,
    F: Future<Output = Result<T, E>>,
{
    const MOST: usize = 5;
    for _ in 1..MOST {
        match run().await {
            Err(error) if error.class() == Class::Conflict => {}
            done => return done.map(drop),
        }
    }
    run().await.map(drop)
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.store.abort();
        if let Some(lead) = &self.lead {
            self.plan.crash();
            lead.abort();
        }
    }
}

/// An installation whose only TenantCluster, `demo`, is up and settled; none without servers.
pub(crate) async fn settled(prefix: &str) -> Result<Option<(Site, Operator, TenantCluster)>> {
    let Some(site) = Site::new(prefix).await? else {
        return Ok(None);
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    Ok(Some((site, operator, cluster)))
}
