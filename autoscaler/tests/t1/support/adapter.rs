//! A running adapter: the very parts of the binary, minus signals and admin port.
//!
//! Invariant: dropping it is a crash: every task is aborted, nothing is tidied up.

use anyhow::{Context as _, Result};
use autoscaler::reach::Reach;
use autoscaler::run::Parts;
use autoscaler::serve::Tls;
use autoscaler::settings::Settings;
use autoscaler_client::{Credentials, Generation, Protocol};
use kit::args::ClientArgs;
use kit::client::RequestCounter;
use kit::shutdown::Shutdown;
use testkit::FaultPlan;
use tokio::task::JoinHandle;

use super::certs::SERVER;
use super::{PATIENCE, Site};

/// One that runs.
pub(crate) struct Adapter {
    pub(crate) plan: FaultPlan,
    /// Where it listens.
    pub(crate) address: String,
    pub(crate) parts: Parts,
    background: JoinHandle<()>,
    shutdown: Shutdown,
}

impl Adapter {
    /// A healthy one that has listed everything.
    pub(crate) async fn start(site: &Site) -> Result<Self> {
        Self::with(site, site.settings(), &FaultPlan::none()).await
    }

    /// One with other settings, or faults on the way to both APIs. It has listed everything.
    pub(crate) async fn with(site: &Site, settings: Settings, plan: &FaultPlan) -> Result<Self> {
        Self::run(site, settings, plan, Reach::default()).await
    }

    /// A healthy one with another clock for how long an API has been away.
    pub(crate) async fn timed(site: &Site, reach: Reach) -> Result<Self> {
        Self::run(site, site.settings(), &FaultPlan::none(), reach).await
    }

    async fn run(site: &Site, settings: Settings, plan: &FaultPlan, reach: Reach) -> Result<Self> {
        // The tests share two cores; what is tested is not the rate limit.
        let args = ClientArgs {
            qps: 500.0,
            burst: 1000,
            ..ClientArgs::default()
        };
        let client =
            |config| kit::client::build(config, &args, &RequestCounter::new(), &plan.layer());
        let tenant = client(site.tenant.config_as(&site.tenant_user(), &[])?)?;
        let management = client(site.management.config_as(&site.user(), &[])?)?;
        let port = kit::admin::Admin::new();
        let parts = Parts::with(tenant, management, settings, "autoscaler-1", &port, reach);
        let background = tokio::spawn(parts.background());
        let (chain, key) = &site.authority.server;
        let authority = site.authority.pem();
        let tls = Tls::from_pem(chain.as_bytes(), key.as_bytes(), authority.as_bytes())?;
        let shutdown = Shutdown::new();
        let address = ([127, 0, 0, 1], 0).into();
        let server = parts.serve(address, &tls, &shutdown).await?;
        let adapter = Self {
            plan: plan.clone(),
            address: server.address.to_string(),
            parts,
            background,
            shutdown,
        };
        let listed = tokio::time::timeout(PATIENCE, async {
            tokio::select! {
                () = plan.crashed() => {}
                () = adapter.parts.context.world.listed() => {}
            }
        });
        listed.await.context("the watches do not come about")?;
        Ok(adapter)
    }

    /// A client that may connect.
    pub(crate) fn client(&self, site: &Site, generation: Generation) -> Result<Protocol> {
        self.shown(&site.authority.client()?, generation)
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
