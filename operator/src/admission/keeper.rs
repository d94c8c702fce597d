//! Keeper of the webhook's certificate: the operator that leads keeps the Secret and `caBundle` in order.
//!
//! Invariant: no decision is made here; each write is a [`Step`] of [`certificate::plan`], fenced
//! by the Lease and by the resource version of what the step was planned on.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kit::lease::{Leadership, NotLeader};
use kit_client::backoff::Backoff;
use kit_client::errors::chain;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher::watch_object;
use kube::{Client, ResourceExt};
use serde_json::json;

use super::certificate::{self, Material, NAME, Next, Observed, Step};
use super::watch::steady;
use crate::FIELD_MANAGER;

/// Name of the ValidatingWebhookConfiguration in the chart.
pub const CONFIGURATION: &str = "covey";

/// Why a step failed, or no more can be taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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

/// Keeps the certificate while it leads.
pub struct Keeper {
    secrets: Api<Secret>,
    configurations: Api<ValidatingWebhookConfiguration>,
    name: String,
    namespace: String,
    leadership: Leadership,
    secret: Seen<Secret>,
    configuration: Seen<ValidatingWebhookConfiguration>,
    next: Option<Next>,
}

impl Keeper {
    /// For the webhook in this namespace; nothing runs yet.
    #[must_use]
    pub fn new(client: Client, namespace: &str, leadership: Leadership) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), namespace),
            configurations: Api::all(client),
            name: CONFIGURATION.to_owned(),
            namespace: namespace.to_owned(),
            leadership,
            secret: Seen::default(),
            configuration: Seen::default(),
            next: None,
        }
    }

    /// The same for a ValidatingWebhookConfiguration of another name than [`CONFIGURATION`].
    #[must_use]
    pub fn of(self, configuration: &str) -> Self {
        Self {
            name: configuration.to_owned(),
            ..self
        }
    }

    /// Waits for the Lease, then keeps the certificate. A step that fails is logged and tried again;
    /// without the Lease all do, and the process is about to end.
    ///
    /// # Errors
    /// When it can see no more.
    pub async fn run(mut self) -> Result<(), Error> {
        self.leadership.acquired().await;
        let mut secrets = pin!(steady(watch_object(self.secrets.clone(), NAME)));
        let mut configurations = pin!(steady(watch_object(
            self.configurations.clone(),
            &self.name
        )));
        let (backoff, mut failures) = (Backoff::default(), 0);
        let mut wait = Duration::ZERO;
        loop {
            tokio::select! {
                seen = secrets.next() => self.secret.set(seen.ok_or(Error::WatchEnded)?),
                seen = configurations.next() => {
                    self.configuration.set(seen.ok_or(Error::WatchEnded)?);
                }
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

    /// Takes steps until there is none left, and gives how long to wait then.
    async fn reconcile(&mut self) -> Result<Duration, Error> {
        /// More than one whole rotation takes.
        const MOST_STEPS: usize = 8;
        if !(self.secret.known && self.configuration.known) {
            return Ok(Duration::from_secs(3600));
        }
        for _ in 0..MOST_STEPS {
            let now = Timestamp::now();
            let observed = Observed {
                secret: self.secret.object.as_ref().and_then(Material::read),
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
        Ok(())
    }
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
