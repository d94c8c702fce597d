//! A running cloud controller manager: the very manager of the binary, minus signals and admin port.
//!
//! Invariant: dropping it is a crash: every task is aborted, nothing is tidied up.

use anyhow::Result;
use ccm::manager::Manager;
use ccm::settings::Settings;
use kit::lease::Leadership;
use kit::shutdown::Shutdown;
use kit_client::args::ClientArgs;
use kit_client::count::RequestCounter;
use testkit::FaultPlan;
use tokio::task::JoinHandle;

use super::Environment;

/// One that runs.
pub(crate) struct Ccm {
    pub(crate) plan: FaultPlan,
    pub(crate) manager: Manager,
    tasks: Vec<JoinHandle<()>>,
}

impl Ccm {
    /// A healthy one.
    pub(crate) fn start(environment: &Environment) -> Result<Self> {
        Self::with(environment, environment.settings(), &FaultPlan::none())
    }

    /// One with other settings, or faults on the way to both APIs.
    pub(crate) fn with(
        environment: &Environment,
        settings: Settings,
        plan: &FaultPlan,
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
        let leadership = Leadership::always();
        let manager = Manager::new(tenant, management, settings, leadership, "ccm-1", &port);
        let watches = tokio::spawn(manager.watches());
        let leads = manager.clone();
        let lead = tokio::spawn(async move {
            let _ = leads.lead(8, Shutdown::new()).await;
        });
        Ok(Self {
            plan: plan.clone(),
            manager,
            tasks: vec![watches, lead],
        })
    }
}

impl Drop for Ccm {
    fn drop(&mut self) {
        self.plan.crash();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
