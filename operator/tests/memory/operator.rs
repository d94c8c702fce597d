//! A running operator: the very parts of the binary, minus signals and the admin port.
//!
//! Invariant: dropping it is a crash; every task is aborted and nothing is tidied up.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use kit::lease::Leadership;
use kit::shutdown::Shutdown;
use kit_client::errors::{Class, Classify as _, chain};
use kube::ResourceExt;
use operator::context::Context;
use operator::controllers::tenant_cluster;
use operator::manager::Manager;
use testkit::FaultPlan;
use testkit::faults::Deaths;
use testkit::fixtures::PATIENCE;
use tokio::task::JoinHandle;

use crate::Site;

/// One that runs.
pub(crate) struct Operator {
    context: Arc<Context>,
    plan: FaultPlan,
    tasks: [JoinHandle<()>; 2],
    _shutdown: Shutdown,
}

impl Operator {
    /// One that leads and dies as planned; with `COVEY_ALL=1` by writes inside the tenant cluster too.
    pub(crate) fn start(site: &Site, plan: &FaultPlan) -> Result<Self> {
        if Deaths::asked_for() == Deaths::BothSides {
            site.tenants.obey(Some(plan));
        }
        let client = site.client(plan)?;
        let port = kit::admin::Admin::new();
        let leadership = Leadership::always();
        let mut manager = Manager::new(
            client,
            site.settings(),
            leadership,
            site.dial(),
            "operator-1",
            &port,
        );
        // So many operators in one process make each of them slow, and none of their tenants is.
        Arc::get_mut(&mut manager.context)
            .context("the context is shared already")?
            .tenant_wait = PATIENCE;
        let context = Arc::clone(&manager.context);
        let shutdown = Shutdown::new();
        let store = tokio::spawn(manager.run_stores());
        let lead = manager.lead(16, shutdown.clone());
        let lead = tokio::spawn(async move {
            if let Err(error) = Box::pin(lead).await {
                eprintln!("the operator ended: {error:#}");
            }
        });
        Ok(Self {
            context,
            plan: plan.clone(),
            tasks: [store, lead],
            _shutdown: shutdown,
        })
    }

    /// Waits for its death (true) or for the end of `work`.
    pub(crate) async fn dies(&self, work: impl Future<Output = Result<()>>) -> Result<bool> {
        tokio::select! {
            biased;
            () = self.plan.crashed() => Ok(true),
            result = work => match self.plan.is_crashed() {
                true => Ok(true),
                false => result.map(|()| false),
            },
        }
    }

    /// Until a TenantCluster is up and a reconcile of it writes nothing any more.
    pub(crate) async fn comes_up(&self, site: &Site, name: &str) -> Result<()> {
        const MOST: usize = 10;
        site.wait_ready(name).await?;
        for _ in 0..MOST {
            let before = self.plan.writes();
            self.reconcile(site, name).await?;
            if self.plan.writes() == before {
                return Ok(());
            }
        }
        anyhow::bail!("{name} does not come to rest in {MOST} reconciles")
    }

    /// One reconcile, and again as the operator's own loop does it where that one was faster.
    async fn reconcile(&self, site: &Site, name: &str) -> Result<()> {
        const MOST: usize = 5;
        let mut tries = 0;
        loop {
            tries += 1;
            let cluster = Arc::new(site.clusters().get(name).await?);
            match tenant_cluster::reconcile(Arc::clone(&cluster), Arc::clone(&self.context)).await {
                Ok(_) => return Ok(()),
                Err(error) if error.class() == Class::Conflict && tries < MOST => {}
                Err(error) => {
                    anyhow::bail!("reconcile of {}: {}", cluster.name_any(), chain(&error))
                }
            }
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.plan.crash();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
