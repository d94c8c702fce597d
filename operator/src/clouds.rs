//! The providers that are clouds: each makes machines by ProviderConfigs.
//!
//! Invariant: which clouds this program has is decided when it is built (a feature of the crate for each); of one that
//! it does not have it says so, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
#[cfg(feature = "hetzner")]
use std::sync::Arc;

use api::ProviderConfig;
#[cfg(feature = "hetzner")]
use api::node_pool::ProviderKind;
use jiff::Timestamp;
use kube::Client;
#[cfg(feature = "hetzner")]
use kube::ResourceExt as _;
#[cfg(feature = "hetzner")]
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::Store;
#[cfg(feature = "hetzner")]
use provider_hetzner::provider::Hetzner;
#[cfg(feature = "hetzner")]
use providers::Standing;
#[cfg(feature = "hetzner")]
use providers::clock::{Clock, SystemClock};
#[cfg(feature = "hetzner")]
use providers::leaks::{Kind, Leak, Outcome};
use providers::{Checked, Doubt, Error, Providers};
use tenant_cp::settings::ProviderSettings;

/// Most things that are named of what nobody has any more.
#[cfg(feature = "hetzner")]
const NAMED: usize = 10;

/// What came of a look for what nobody has any more.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Swept {
    /// How much there is of it.
    pub count: usize,
    /// The first ones, by kind and name.
    pub named: Vec<String>,
    /// So much that nothing is deleted but what a person has confirmed.
    pub held: bool,
    /// How much of it is of a time of doubt, and therefore not deleted.
    pub doubted: usize,
    /// When servers and addresses of it were made, but for those that a person has confirmed.
    pub unconfirmed: Vec<Timestamp>,
    /// When all its servers and addresses were made.
    pub made: Vec<Timestamp>,
}

/// The clouds.
#[derive(Clone)]
pub struct Clouds {
    #[cfg(feature = "hetzner")]
    hetzner: Arc<Hetzner>,
}

impl Clouds {
    /// As they are configured. Nothing is asked yet.
    #[must_use]
    #[cfg(feature = "hetzner")]
    pub fn new(
        client: Client,
        settings: &ProviderSettings,
        configs: Store<ProviderConfig>,
    ) -> Self {
        Self::with_clock(client, settings, configs, Arc::new(SystemClock))
    }

    /// As they are configured: there are none.
    #[must_use]
    #[cfg(not(feature = "hetzner"))]
    pub fn new(_: Client, _: &ProviderSettings, _: Store<ProviderConfig>) -> Self {
        Self {}
    }

    /// The same, with another clock than the machine's, which tests do.
    #[must_use]
    #[cfg(feature = "hetzner")]
    pub fn with_clock(
        client: Client,
        settings: &ProviderSettings,
        configs: Store<ProviderConfig>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let find =
            move |namespace: &str, name: &str| configs.get(&ObjectRef::new(name).within(namespace));
        let settings = &settings.hetzner;
        let (is_enabled, endpoint) = (settings.enabled, &settings.endpoint);
        let hetzner = Hetzner::new(client, is_enabled, endpoint, clock, Arc::new(find));
        Self {
            hetzner: Arc::new(hetzner),
        }
    }

    /// Adds them.
    #[must_use]
    pub fn register(&self, providers: Providers) -> Providers {
        #[cfg(feature = "hetzner")]
        let hetzner = Arc::clone(&self.hetzner);
        #[cfg(feature = "hetzner")]
        let providers = providers.with(ProviderKind::Hetzner, hetzner);
        providers
    }

    /// Proves that a ProviderConfig lets us in, and that what it names is there. Its credentials are read anew.
    ///
    /// # Errors
    /// Why machines could not be made.
    pub async fn check(&self, config: &ProviderConfig) -> Result<Checked, Error> {
        match &config.spec.hetzner {
            #[cfg(feature = "hetzner")]
            Some(_) => Box::pin(self.hetzner.check_config(config)).await,
            #[cfg(not(feature = "hetzner"))]
            Some(_) => Err(Error::NotConfigured("hetzner")),
            None => Err(Error::NoneNamed),
        }
    }

    /// Finds what nobody has any more by a ProviderConfig, and deletes it, but for what was made in a time of `doubts`.
    /// `machines` reads the UIDs of all Machines.
    ///
    /// # Errors
    /// When nobody knows all that there is, or a deletion was not taken.
    pub async fn sweep(
        &self,
        config: &ProviderConfig,
        doubts: &[Doubt],
        machines: impl Future<Output = Result<BTreeSet<String>, Error>>,
    ) -> Result<Swept, Error> {
        match &config.spec.hetzner {
            #[cfg(feature = "hetzner")]
            Some(_) => {
                let outcome = Box::pin(self.hetzner.sweep(config, doubts, machines)).await?;
                Ok(swept(&outcome))
            }
            #[cfg(not(feature = "hetzner"))]
            Some(_) => {
                let _ = doubts;
                machines.await.map(|_| Swept::default())
            }
            None => Ok(Swept::default()),
        }
    }

    /// Prices of an hour by size, in the currency of the account, as far as they are known.
    #[must_use]
    pub fn prices(
        &self,
        config: &ProviderConfig,
        sizes: &BTreeSet<String>,
    ) -> BTreeMap<String, f64> {
        match &config.spec.hetzner {
            #[cfg(feature = "hetzner")]
            Some(_) => {
                let namespace = config.namespace().unwrap_or_default();
                self.hetzner.prices(&namespace, &config.name_any(), sizes)
            }
            #[cfg(not(feature = "hetzner"))]
            Some(_) => {
                let _ = sizes;
                BTreeMap::new()
            }
            None => BTreeMap::new(),
        }
    }

    /// Lets go of the credentials of a ProviderConfig that is gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        #[cfg(feature = "hetzner")]
        self.hetzner.forget(namespace, name);
        #[cfg(not(feature = "hetzner"))]
        let _ = (namespace, name);
    }
}

#[cfg(feature = "hetzner")]
fn swept(outcome: &Outcome) -> Swept {
    let is_doubted = |leak: &&Leak| leak.standing == Standing::Doubted;
    let doubted = outcome.leaks.iter().filter(is_doubted);
    let others = outcome.leaks.iter().filter(|leak| !is_doubted(leak));
    // What somebody has to look at first.
    let named = doubted.clone().chain(others).take(NAMED).map(|leak| {
        let kind = match leak.kind {
            Kind::Server => "server",
            Kind::Disk => "disk",
            Kind::Interface => "interface",
            Kind::Address => "primary IP",
            Kind::Volume => "volume",
        };
        format!("{kind} {} ({})", leak.name, leak.id)
    });
    let costs = outcome.leaks.iter();
    let costs = costs.filter(|leak| leak.kind != Kind::Volume);
    let unconfirmed = costs
        .clone()
        .filter(|leak| leak.standing != Standing::Confirmed);
    Swept {
        count: outcome.leaks.len(),
        named: named.collect(),
        held: outcome.held,
        doubted: doubted.count(),
        unconfirmed: unconfirmed.map(|leak| leak.made).collect(),
        made: costs.map(|leak| leak.made).collect(),
    }
}
