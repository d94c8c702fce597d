//! The webhook of one replica: serves with what the Secret holds, and, while it leads, keeps Secret
//! and `caBundle` in order.
//!
//! Invariant: no decision is made here; each write is a [`Step`] of [`certificate::plan`], fenced
//! by the Lease and by the resource version of what the step was planned on.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kit::backoff::Backoff;
use kit::errors::chain;
use kit::lease::{Leadership, NotLeader};
use kit::shutdown::Shutdown;
use kit::tls_reload::{self, Certificate};
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher::watch_object;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::net::TcpListener;

use super::body::Bodies;
use super::certificate::{self, Material, NAME, Next, Observed, Step};
use super::router::router;
use super::validator::Validator;
use crate::FIELD_MANAGER;

/// Name of the ValidatingWebhookConfiguration in the chart.
pub const CONFIGURATION: &str = "covey";

/// Limits of the port. API servers put many requests on one connection each; what strangers can
/// make it hold besides bodies stays below a tenth of the memory that the chart allows.
const LIMITS: tls_reload::Settings = tls_reload::Settings {
    connections: 256,
    streams: 64,
    window: 64 * 1024,
    handshake: Duration::from_secs(5),
    grace: Duration::from_secs(10),
    at_once: false,
};

/// Why the webhook does not run, or a step failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be bound.
    #[error("could not listen on {address} for the webhook; free the port or choose another one")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The port that is open does not say which one it is.
    #[error("could not tell the address of the webhook's port")]
    Address(#[source] std::io::Error),
    /// No TLS.
    #[error("could not set up TLS for the webhook")]
    Tls(#[source] tls_reload::Error),
    /// Another replica leads.
    #[error("the webhook's certificate is another replica's work now")]
    NotLeader(#[source] NotLeader),
    /// No certificate could be made.
    #[error("could not make a certificate for the webhook")]
    Issue(#[source] pki::Error),
    /// The API refused or did not answer.
    #[error("could not write {0}")]
    Write(&'static str, #[source] Box<kube::Error>),
    /// A watch ended for good, which it never should.
    #[error("the watch on the webhook's Secret or configuration ended; restart the operator")]
    WatchEnded,
}

/// The webhook of this replica.
pub struct Webhook {
    certificate: Certificate,
    validator: Validator,
    configuration: String,
}

impl Webhook {
    /// Nothing runs yet.
    #[must_use]
    pub fn new(validator: Validator) -> Self {
        Self {
            certificate: Certificate::empty(),
            validator,
            configuration: CONFIGURATION.to_owned(),
        }
    }

    /// The same for a ValidatingWebhookConfiguration of another name than [`CONFIGURATION`].
    #[must_use]
    pub fn configured_by(self, configuration: &str) -> Self {
        Self {
            configuration: configuration.to_owned(),
            ..self
        }
    }

    /// For the admin port: not ready until there is a certificate to serve.
    pub fn readiness(&self) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
        let certificate = self.certificate.clone();
        move || match certificate.is_set() {
            true => Ok(()),
            false => Err(format!("the Secret {NAME} holds no usable certificate yet")),
        }
    }

    /// Serves until the shutdown starts.
    ///
    /// # Errors
    /// When it cannot serve at all; a certificate that cannot be renewed is logged and tried again.
    pub async fn run(
        self,
        client: Client,
        namespace: String,
        listen: SocketAddr,
        leadership: Leadership,
        shutdown: Shutdown,
    ) -> Result<(), Error> {
        let failed = |source| Error::Listen {
            address: listen,
            source,
        };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        self.run_on(client, namespace, listener, leadership, shutdown)
            .await
    }

    /// As [`Self::run`], on a port that is open already.
    ///
    /// # Errors
    /// As there.
    pub async fn run_on(
        self,
        client: Client,
        namespace: String,
        listener: TcpListener,
        leadership: Leadership,
        shutdown: Shutdown,
    ) -> Result<(), Error> {
        let config = self.certificate.server_config().map_err(Error::Tls)?;
        let router = router(self.validator, Bodies::default());
        let server = tls_reload::serve_on(listener, config, router, LIMITS, &shutdown)
            .map_err(Error::Address)?;
        tracing::info!(address = %server.address, "webhook is open");
        let keeper = Keeper {
            secrets: Api::namespaced(client.clone(), &namespace),
            configurations: Api::all(client),
            name: self.configuration,
            namespace,
            leadership,
            leads: false,
            certificate: self.certificate,
            secret: Seen::default(),
            configuration: Seen::default(),
            next: None,
        };
        if let Some(result) = shutdown.until(Box::pin(keeper.run())).await {
            return result;
        }
        server.ended().await;
        Ok(())
    }
}

/// An object as last seen; before the first list nothing is known about it.
struct Seen<K> {
    known: bool,
    object: Option<K>,
}

impl<K> Default for Seen<K> {
    fn default() -> Self {
        Self {
            known: false,
            object: None,
        }
    }
}

impl<K> Seen<K> {
    fn set(&mut self, object: Option<K>) {
        *self = Self {
            known: true,
            object,
        };
    }
}

struct Keeper {
    secrets: Api<Secret>,
    configurations: Api<ValidatingWebhookConfiguration>,
    name: String,
    namespace: String,
    leadership: Leadership,
    leads: bool,
    certificate: Certificate,
    secret: Seen<Secret>,
    configuration: Seen<ValidatingWebhookConfiguration>,
    next: Option<Next>,
}

impl Keeper {
    async fn run(mut self) -> Result<(), Error> {
        let mut secrets = pin!(steady(watch_object(self.secrets.clone(), NAME)));
        let mut configurations = pin!(steady(watch_object(
            self.configurations.clone(),
            &self.name
        )));
        let (backoff, mut failures) = (Backoff::default(), 0);
        let mut wait = Duration::ZERO;
        loop {
            // Counted from what the last round saw, so that no change in between is missed.
            let (leads, leadership) = (self.leads, self.leadership.clone());
            let turn = async move {
                match leads {
                    true => leadership.lost().await,
                    false => leadership.acquired().await,
                }
            };
            tokio::select! {
                seen = secrets.next() => {
                    self.secret.set(seen.ok_or(Error::WatchEnded)?);
                    self.reload();
                }
                seen = configurations.next() => {
                    self.configuration.set(seen.ok_or(Error::WatchEnded)?);
                }
                () = turn => self.next = None,
                () = tokio::time::sleep(wait) => {}
            }
            wait = match self.reconcile().await {
                Ok(wait) => {
                    failures = 0;
                    wait
                }
                Err(error) => {
                    tracing::warn!(error = chain(&error), "the webhook's certificate waits");
                    failures += 1;
                    backoff.next(failures, rand::random())
                }
            };
        }
    }

    /// Serves what the Secret holds; what does not fit leaves the certificate as it is.
    fn reload(&self) {
        let Some(material) = self.secret.object.as_ref().and_then(material) else {
            return;
        };
        let (chain_pem, key) = (
            material.certificate.as_bytes(),
            material.key.reveal().as_bytes(),
        );
        match self.certificate.replace(chain_pem, key) {
            Ok(true) => tracing::info!("the webhook serves a new certificate"),
            Ok(false) => {}
            Err(error) => tracing::error!(error = chain(&error), "the Secret {NAME} is no good"),
        }
    }

    /// Takes steps until there is none left, and gives how long to wait then.
    async fn reconcile(&mut self) -> Result<Duration, Error> {
        /// More than one whole rotation takes.
        const MOST_STEPS: usize = 8;
        self.leads = self.leadership.is_leader();
        if !(self.secret.known && self.configuration.known && self.leads) {
            return Ok(Duration::from_secs(3600));
        }
        for _ in 0..MOST_STEPS {
            let now = Timestamp::now();
            let observed = Observed {
                secret: self.secret.object.as_ref().and_then(material),
                bundles: self.configuration.object.as_ref().map(bundles),
            };
            if certificate::due(observed.secret.as_ref(), &self.namespace, now).is_none() {
                self.next = None;
            }
            match certificate::plan(&observed, self.next.as_ref(), &self.namespace, now) {
                Step::Wait(wait) => return Ok(wait),
                Step::Issue(reason) => {
                    tracing::info!(?reason, "the webhook gets a new certificate");
                    let former = observed.secret.as_ref();
                    let material =
                        certificate::issue(former, &self.namespace, now).map_err(Error::Issue)?;
                    self.next = Some(Next {
                        material,
                        published: None,
                    });
                }
                Step::Published => {
                    if let Some(next) = &mut self.next {
                        next.published = Some(now);
                    }
                }
                Step::Publish(bundle) => self.publish(&bundle).await?,
                Step::Store => self.store().await?,
            }
        }
        Ok(Duration::from_secs(1))
    }

    async fn publish(&mut self, bundle: &str) -> Result<(), Error> {
        let Some(configuration) = &self.configuration.object else {
            return Ok(());
        };
        self.leadership.ensure().map_err(Error::NotLeader)?;
        let bundle = ByteString(bundle.as_bytes().to_vec());
        let webhooks: Vec<_> = configuration
            .webhooks
            .iter()
            .flatten()
            .map(|webhook| json!({"name": webhook.name, "clientConfig": {"caBundle": bundle}}))
            .collect();
        // Strategic, because it merges webhooks by name and leaves the chart's fields alone.
        let patch = json!({
            "metadata": {"resourceVersion": configuration.resource_version()},
            "webhooks": webhooks,
        });
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let written = self
            .configurations
            .patch(&self.name, &params, &Patch::Strategic(patch))
            .await
            .map_err(|source| {
                Error::Write("caBundle of the webhook's configuration", Box::new(source))
            })?;
        self.configuration.set(Some(written));
        Ok(())
    }

    async fn store(&mut self) -> Result<(), Error> {
        let Some(next) = &self.next else {
            return Ok(());
        };
        self.leadership.ensure().map_err(Error::NotLeader)?;
        let text = |text: &str| ByteString(text.as_bytes().to_vec());
        let mut secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {
                "name": NAME,
                "namespace": self.namespace,
                "labels": { api::names::LABEL_MANAGED_BY: api::names::MANAGED_BY },
            },
            "data": {
                "ca.crt": text(&next.material.authorities),
                "tls.crt": text(&next.material.certificate),
                "tls.key": text(next.material.key.reveal()),
            },
        });
        // Somebody else's write in between makes this one a conflict.
        if let Some(version) = self
            .secret
            .object
            .as_ref()
            .and_then(ResourceExt::resource_version)
        {
            secret["metadata"]["resourceVersion"] = version.into();
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = self
            .secrets
            .patch(NAME, &params, &Patch::Apply(secret))
            .await
            .map_err(|source| Error::Write("the Secret covey-webhook", Box::new(source)))?;
        self.secret.set(Some(written));
        self.next = None;
        self.reload();
        Ok(())
    }
}

/// A watch that retries by itself and never gives an error.
fn steady<K>(
    watch: impl futures::Stream<Item = Result<Option<K>, watcher::Error>> + Send,
) -> impl futures::Stream<Item = Option<K>> + Send
where
    K: Send,
{
    watch
        .default_backoff()
        .inspect_err(|error| tracing::warn!(error = chain(error), "a watch of the webhook failed"))
        .filter_map(|seen| std::future::ready(seen.ok()))
}

fn material(secret: &Secret) -> Option<Material> {
    let text = |key: &str| {
        let bytes = secret.data.as_ref()?.get(key)?;
        String::from_utf8(bytes.0.clone()).ok()
    };
    Some(Material {
        authorities: text("ca.crt")?,
        certificate: text("tls.crt")?,
        key: pki::Key::new(text("tls.key")?),
    })
}

fn bundles(configuration: &ValidatingWebhookConfiguration) -> Vec<String> {
    let webhooks = configuration.webhooks.iter().flatten();
    webhooks
        .map(|webhook| match &webhook.client_config.ca_bundle {
            Some(bundle) => String::from_utf8_lossy(&bundle.0).into_owned(),
            None => String::new(),
        })
        .collect()
}
