//! A running adapter: the very [`Manager`] of the binary, minus signals and admin port.
//!
//! Invariant: dropping it is a crash: every task is aborted, nothing is tidied up.

use anyhow::{Context as _, Result};
use autoscaler::cache::staleness::Staleness;
use autoscaler::manager::Manager;
use autoscaler::server::tls::Tls;
use autoscaler::settings::Settings;
use autoscaler_client::{Credentials, Generation, Protocol};
use kit::shutdown::Shutdown;
use kit_client::args::ClientArgs;
use kit_client::count::RequestCounter;
use testkit::FaultPlan;
use tokio::task::JoinHandle;

use super::certs::SERVER;
use super::{Environment, PATIENCE};

/// One that runs.
pub(crate) struct Adapter {
    pub(crate) plan: FaultPlan,
    /// Where it listens.
    pub(crate) address: String,
    pub(crate) manager: Manager,
    background: JoinHandle<()>,
    shutdown: Shutdown,
}

impl Adapter {
    /// A healthy one that has listed everything.
    pub(crate) async fn start(environment: &Environment) -> Result<Self> {
        Self::with(environment, environment.settings(), &FaultPlan::none()).await
    }

    /// One with other settings, or faults on the way to both APIs. It has listed everything.
    pub(crate) async fn with(
        environment: &Environment,
        settings: Settings,
        plan: &FaultPlan,
    ) -> Result<Self> {
        Self::run(environment, settings, plan, Staleness::default()).await
    }

    /// A healthy one with another clock for how long an API has been away.
    pub(crate) async fn timed(environment: &Environment, staleness: Staleness) -> Result<Self> {
        Self::run(
            environment,
            environment.settings(),
            &FaultPlan::none(),
            staleness,
        )
        .await
    }

    async fn run(
        environment: &Environment,
        settings: Settings,
        plan: &FaultPlan,
        staleness: Staleness,
    ) -> Result<Self> {
        // The tests share two cores; what is tested is not the rate limit.
        let args = ClientArgs {
            qps: 500.0,
            burst: 1000,
            ..ClientArgs::default()
        };
        let client = |config| {
            kit_client::connect::build(config, &args, &RequestCounter::new(), &plan.layer())
        };
        let tenant = client(
            environment
                .tenant
                .config_as(&environment.tenant_user(), &[])?,
        )?;
        let management = client(environment.management.config_as(&environment.user(), &[])?)?;
        let port = kit::admin::Admin::new();
        let manager = Manager::with_staleness(
            tenant,
            management,
            settings,
            "autoscaler-1",
            &port,
            staleness,
        );
        let background = tokio::spawn(manager.run());
        let (chain, key) = &environment.authority.server;
        let authority = environment.authority.pem();
        let tls = Tls::from_pem(chain.as_bytes(), key.as_bytes(), authority.as_bytes())?;
        let shutdown = Shutdown::new();
        let address = ([127, 0, 0, 1], 0).into();
        let server = manager.serve(address, &tls, &shutdown).await?;
        let adapter = Self {
            plan: plan.clone(),
            address: server.address.to_string(),
            manager,
            background,
            shutdown,
        };
        let listed = tokio::time::timeout(PATIENCE, async {
            tokio::select! {
                () = plan.crashed() => {}
                () = adapter.manager.context.cache.listed() => {}
            }
        });
        listed.await.context("the watches do not come about")?;
        Ok(adapter)
    }

    /// A client that may connect.
    pub(crate) fn client(
        &self,
        environment: &Environment,
        generation: Generation,
    ) -> Result<Protocol> {
        self.shown(&environment.authority.client()?, generation)
    }

    /// A client that shows this.
    pub(crate) fn shown(&self, shown: &Credentials, generation: Generation) -> Result<Protocol> {
        Protocol::new(&self.address, SERVER, shown, generation)
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.plan.crash();
        self.background.abort();
        self.shutdown.trigger();
    }
}
