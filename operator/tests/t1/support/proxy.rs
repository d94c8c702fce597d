//! The out-of-process fault proxy before one site's operator.
//!
//! Invariant: all sites share one proxy, and every rule names its site's user, so no site sees the
//! faults of another.

use anyhow::{Context as _, Result};
use kube::Config;
use testkit::FaultProxy;
use testkit::proxy::{Rule, RuleCounters};
use tokio::sync::OnceCell;

use super::Site;

/// The faults of one site.
pub(crate) struct Faults<'a> {
    site: &'a Site,
    proxy: &'static FaultProxy,
}

impl<'a> Faults<'a> {
    pub(crate) async fn of(site: &'a Site) -> Result<Self> {
        static SHARED: OnceCell<FaultProxy> = OnceCell::const_new();
        let proxy = SHARED
            .get_or_try_init(|| FaultProxy::start(site.api))
            .await?;
        Ok(Self { site, proxy })
    }

    /// The operator's way to the management API, through the proxy.
    pub(crate) fn config(&self) -> Result<Config> {
        let groups = ["system:serviceaccounts"];
        self.proxy
            .config_as(self.site.api, &self.site.user(), &groups)
    }

    fn id(&self, name: &str) -> String {
        format!("{}-{name}", self.site.system)
    }

    /// Adds or replaces a rule for this site's operator.
    pub(crate) async fn set(&self, name: &str, rule: Rule) -> Result<()> {
        self.proxy
            .set(&self.id(name), &rule.user(&self.site.user()))
            .await
    }

    pub(crate) async fn remove(&self, name: &str) -> Result<()> {
        self.proxy.remove(&self.id(name)).await
    }

    /// What a rule did so far.
    pub(crate) async fn counted(&self, name: &str) -> Result<RuleCounters> {
        let counters = self.proxy.counters().await?;
        counters
            .rules
            .get(&self.id(name))
            .copied()
            .context("there is no such rule")
    }
}
