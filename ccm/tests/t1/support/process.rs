//! A running cloud controller manager: the very manager of the binary, minus signals and admin port.
//!
//! Invariant: dropping it is a crash: every task is aborted, nothing is tidied up.

use anyhow::{Context as _, Result};
use ccm::cache::triggers::Key;
use ccm::manager::Manager;
use ccm::settings::Settings;
use k8s_openapi::api::core::v1::Service;
use kit::lease::Leadership;
use kit::shutdown::Shutdown;
use kit_client::args::{ClientArgs, TENANT_BURST, TENANT_QPS};
use kit_client::count::RequestCounter;
use kube::ResourceExt as _;
use testkit::FaultPlan;
use testkit::faults::failures_of_a_silence;
use testkit::fixtures::ask_until;
use tokio::task::JoinHandle;

use super::{Environment, PATIENCE};

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
        Self::begin(environment, settings, plan, &fast())
    }

    /// A healthy one whose requests to the management API are limited as those of a pod are.
    pub(crate) fn paced(environment: &Environment) -> Result<Self> {
        let paced = ClientArgs {
            qps: TENANT_QPS,
            burst: TENANT_BURST,
            ..ClientArgs::default()
        };
        Self::limited(environment, &paced)
    }

    /// A healthy one whose requests to the management API are limited to this.
    pub(crate) fn limited(environment: &Environment, management: &ClientArgs) -> Result<Self> {
        let (settings, plan) = (environment.settings(), FaultPlan::none());
        Self::begin(environment, settings, &plan, management)
    }

    fn begin(
        environment: &Environment,
        settings: Settings,
        plan: &FaultPlan,
        management: &ClientArgs,
    ) -> Result<Self> {
        let client = |config, args: &ClientArgs| {
            let requests = RequestCounter::new();
            kit_client::connect::build_with_reserve(config, args, &requests, &plan.layer())
        };
        let user = environment.tenant_user();
        let tenant = client(environment.tenant.config_as(&user, &[])?, &fast())?.usual;
        let user = environment.user();
        let management = client(environment.management.config_as(&user, &[])?, management)?;
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

impl Ccm {
    /// Returns once everything that there is has been looked at.
    pub(crate) async fn rest(&self) {
        let context = &self.manager.context;
        context.cache.listed().await;
        // Whoever leads queues everything in one go; asking for it here, too, leaves no gap before that.
        context.queue_all();
        context.queue.idle().await;
    }

    /// Returns once reconciling this Service has failed, for which a silent API takes 30 s, and as long again where all workers
    /// wait for it with others first.
    pub(crate) async fn failed(&self, service: &Service) -> Result<()> {
        let key = Key::Service(service.uid().context("it was made")?);
        let attempts = &self.manager.context.attempts;
        for wanted in 1..=failures_of_a_silence() {
            ask_until("a reconcile fails", 2 * PATIENCE, || async {
                let count = attempts.count(&key);
                Ok(match count < wanted {
                    true => Err(format!("{count} of {wanted}")),
                    false => Ok(()),
                })
            })
            .await?;
        }
        Ok(())
    }
}

/// The tests share two cores; what most of them test is not the rate limit.
fn fast() -> ClientArgs {
    ClientArgs {
        qps: 500.0,
        burst: 1000,
        ..ClientArgs::default()
    }
}

impl Drop for Ccm {
    fn drop(&mut self) {
        self.plan.crash();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
