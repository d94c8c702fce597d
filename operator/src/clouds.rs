//! The providers that are clouds: each makes machines by ProviderConfigs.
//!
//! Invariant: which clouds this program has is decided when it is built (a feature of the crate for each); of one that
//! it does not have it says so, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::ProviderConfig;
use api::node_pool::ProviderKind;
use jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, ResourceExt as _};
#[cfg(feature = "aws")]
use provider_aws::calls::Endpoints as AwsEndpoints;
#[cfg(feature = "aws")]
use provider_aws::cloud::Cloud as Aws;
#[cfg(feature = "aws")]
use provider_aws::credentials::WebIdentity;
#[cfg(feature = "azure")]
use provider_azure::calls::Endpoints as AzureEndpoints;
#[cfg(feature = "azure")]
use provider_azure::cloud::Cloud as Azure;
#[cfg(feature = "gcp")]
use provider_gcp::calls::Endpoints as GcpEndpoints;
#[cfg(feature = "gcp")]
use provider_gcp::cloud::Cloud as Gcp;
#[cfg(feature = "hetzner")]
use provider_hetzner::cloud::Cloud as Hetzner;
use providers::clock::{Clock, SystemClock};
use providers::cloud::clients::Find;
use providers::cloud::provider::AccountProvider;
#[cfg(any(
    feature = "aws",
    feature = "azure",
    feature = "gcp",
    feature = "hetzner"
))]
use providers::cloud::provider::CloudProvider;
use providers::leaks::{Kind, Leak, Outcome};
use providers::{Answer, Checked, Doubt, Error, Providers, Standing};
use tenant_cp::settings::ProviderSettings;

/// Most things that are named of what nobody has any more.
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
    known: BTreeMap<ProviderKind, Arc<dyn AccountProvider>>,
}

impl Clouds {
    /// As they are configured. Nothing is asked yet.
    #[must_use]
    pub fn new(
        client: Client,
        settings: &ProviderSettings,
        configs: Store<ProviderConfig>,
    ) -> Self {
        Self::with_clock(client, settings, configs, Arc::new(SystemClock))
    }

    /// The same, with another clock than the machine's, which tests do.
    #[must_use]
    pub fn with_clock(
        client: Client,
        settings: &ProviderSettings,
        configs: Store<ProviderConfig>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let find: Find = Arc::new(move |namespace: &str, name: &str| {
            configs.get(&ObjectRef::new(name).within(namespace))
        });
        let (aws, azure) = (&settings.aws, &settings.azure);
        let (gcp, hetzner) = (&settings.gcp, &settings.hetzner);
        let known: [(ProviderKind, Arc<dyn AccountProvider>); _] = [
            #[cfg(feature = "aws")]
            (
                ProviderKind::Aws,
                Arc::new(CloudProvider::<Aws>::new(
                    client.clone(),
                    aws.enabled,
                    AwsEndpoints {
                        ec2: aws.endpoint.clone(),
                        sts: aws.token_endpoint.clone(),
                        web_identity: WebIdentity {
                            token: aws.web_identity.token_file.clone().into(),
                            roles: aws.web_identity.roles.clone(),
                        },
                    },
                    Arc::clone(&clock),
                    Arc::clone(&find),
                )),
            ),
            #[cfg(feature = "azure")]
            (
                ProviderKind::Azure,
                Arc::new(CloudProvider::<Azure>::new(
                    client.clone(),
                    azure.enabled,
                    AzureEndpoints {
                        management: azure.endpoint.clone(),
                        authority: azure.token_endpoint.clone(),
                    },
                    Arc::clone(&clock),
                    Arc::clone(&find),
                )),
            ),
            #[cfg(feature = "gcp")]
            (
                ProviderKind::Gcp,
                Arc::new(CloudProvider::<Gcp>::new(
                    client.clone(),
                    gcp.enabled,
                    GcpEndpoints {
                        compute: gcp.endpoint.clone(),
                        token_uri: gcp.token_endpoint.clone(),
                    },
                    Arc::clone(&clock),
                    Arc::clone(&find),
                )),
            ),
            #[cfg(feature = "hetzner")]
            (
                ProviderKind::Hetzner,
                Arc::new(CloudProvider::<Hetzner>::new(
                    client.clone(),
                    hetzner.enabled,
                    hetzner.endpoint.clone(),
                    Arc::clone(&clock),
                    Arc::clone(&find),
                )),
            ),
        ];
        // Each cloud has its own; without any there is nothing to use them.
        drop((client, aws, azure, gcp, hetzner, clock, find));
        Self {
            known: known.into(),
        }
    }

    /// Adds them.
    #[must_use]
    pub fn register(&self, providers: Providers) -> Providers {
        self.known.iter().fold(providers, |all, (kind, cloud)| {
            let cloud: Arc<dyn AccountProvider> = Arc::clone(cloud);
            all.with(*kind, cloud)
        })
    }

    /// Proves that a ProviderConfig lets us in, and that what it names is there. Its credentials are read anew.
    ///
    /// # Errors
    /// Why machines could not be made.
    pub async fn check(&self, config: &ProviderConfig) -> Result<Checked, Error> {
        let kind = config.spec.cloud().ok_or(Error::NoneNamed)?.kind;
        let cloud = self.known.get(&kind);
        let cloud = cloud.ok_or(Error::NotConfigured(kind.as_str()))?;
        cloud.check_config(config).await
    }

    /// Finds what nobody has any more by a ProviderConfig, and deletes it, but for what was made in a time of `doubts`.
    /// `machines` reads the UIDs of all Machines.
    ///
    /// # Errors
    /// When nobody knows all that there is, or a deletion was not taken.
    pub async fn sweep<'a>(
        &'a self,
        config: &'a ProviderConfig,
        doubts: &'a [Doubt],
        machines: Answer<'a, BTreeSet<String>>,
    ) -> Result<Swept, Error> {
        let Some(cloud) = self.of(config) else {
            return Ok(Swept::default());
        };
        let outcome = cloud.sweep(config, doubts, machines).await?;
        Ok(swept(&outcome))
    }

    /// Prices of an hour by size, in the currency of the account, as far as they are known.
    #[must_use]
    pub fn prices(
        &self,
        config: &ProviderConfig,
        sizes: &BTreeSet<String>,
    ) -> BTreeMap<String, f64> {
        let namespace = config.namespace().unwrap_or_default();
        let cloud = self.of(config);
        let prices = cloud.map(|cloud| cloud.prices(&namespace, &config.name_any(), sizes));
        prices.unwrap_or_default()
    }

    /// Whether the API of the cloud that a ProviderConfig names answers; none where nobody called it yet, or it is of no
    /// cloud of this program.
    #[must_use]
    pub fn answers(&self, kind: ProviderKind, namespace: &str, name: &str) -> Option<bool> {
        self.known.get(&kind)?.answers(namespace, name)
    }

    /// Whether a call by a ProviderConfig was not let in since its credentials were checked last.
    #[must_use]
    pub fn is_refused(&self, config: &ProviderConfig) -> bool {
        let namespace = config.namespace().unwrap_or_default();
        let cloud = self.of(config);
        cloud.is_some_and(|cloud| cloud.is_refused(&namespace, &config.name_any()))
    }

    /// Lets go of the credentials of a ProviderConfig that is gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        for cloud in self.known.values() {
            cloud.forget(namespace, name);
        }
    }

    fn of(&self, config: &ProviderConfig) -> Option<&dyn AccountProvider> {
        let kind = config.spec.cloud()?.kind;
        self.known.get(&kind).map(AsRef::as_ref)
    }
}

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
