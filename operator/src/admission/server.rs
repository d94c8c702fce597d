//! The webhook of one replica: serves with the certificate that the Secret holds, and with the next one
//! as soon as it is there.
//!
//! Invariant: it writes nothing; what the Secret holds is the [`super::keeper`]'s work, in another process.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kit::shutdown::Shutdown;
use kit::tls_reload::{self, Certificate};
use kit_client::errors::chain;
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher::watch_object;
use tokio::net::TcpListener;

use super::body::Bodies;
use super::certificate::{Material, NAME};
use super::reviews::Reviews;
use super::router::router;
use super::validator::Validator;
use super::watch::steady;

/// Limits of the port. API servers put many requests on one connection each; what strangers can
/// make it hold besides bodies stays below a tenth of the memory that the chart allows.
const LIMITS: tls_reload::Settings = tls_reload::Settings {
    connections: 256,
    streams: 64,
    window: 64 * 1024,
    handshake: Duration::from_secs(5),
    idle: Duration::from_secs(120),
    grace: Duration::from_secs(10),
    at_once: false,
};

/// Why the webhook does not serve.
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
    /// The watch ended for good, which it never should.
    #[error("the watch on the Secret {NAME} ended; restart the webhook")]
    WatchEnded,
}

/// The webhook of this replica.
pub struct Webhook {
    certificate: Certificate,
    validator: Validator,
    reviews: Reviews,
}

impl Webhook {
    /// Nothing runs yet.
    #[must_use]
    pub fn new(validator: Validator) -> Self {
        Self {
            certificate: Certificate::empty(),
            validator,
            reviews: Reviews::default(),
        }
    }

    /// What it counts.
    #[must_use]
    pub fn reviews(&self) -> &Reviews {
        &self.reviews
    }

    /// For the admin port: not ready until there is a certificate to serve.
    pub fn readiness(&self) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
        let certificate = self.certificate.clone();
        move || match certificate.is_set() {
            true => Ok(()),
            false => Err(format!(
                "the Secret {NAME} holds no usable certificate yet; the operator that leads makes it"
            )),
        }
    }

    /// Serves until the shutdown starts, with the certificate of this namespace's Secret.
    ///
    /// # Errors
    /// When it cannot serve at all; a certificate that is no good is logged, and the one before stays.
    pub async fn run(
        self,
        client: Client,
        namespace: &str,
        listen: SocketAddr,
        shutdown: &Shutdown,
    ) -> Result<(), Error> {
        let failed = |source| Error::Listen {
            address: listen,
            source,
        };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        self.run_on(client, namespace, listener, shutdown).await
    }

    /// As [`Self::run`], on a port that is open already.
    ///
    /// # Errors
    /// As there.
    pub async fn run_on(
        self,
        client: Client,
        namespace: &str,
        listener: TcpListener,
        shutdown: &Shutdown,
    ) -> Result<(), Error> {
        let config = self.certificate.server_config().map_err(Error::Tls)?;
        let router = router(self.validator, Bodies::default(), self.reviews);
        let server = tls_reload::serve_on(listener, config, router, LIMITS, shutdown)
            .map_err(Error::Address)?;
        tracing::info!(address = %server.address, "webhook is open");
        let follow = follow(&self.certificate, Api::namespaced(client, namespace));
        if let Some(error) = shutdown.until(Box::pin(follow)).await {
            return Err(error);
        }
        server.ended().await;
        Ok(())
    }
}

/// Serves what the Secret holds, as long as the watch on it lasts.
async fn follow(certificate: &Certificate, secrets: Api<Secret>) -> Error {
    let mut secrets = pin!(steady(watch_object(secrets, NAME)));
    while let Some(seen) = secrets.next().await {
        if let Some(material) = seen.as_ref().and_then(Material::read) {
            replace(certificate, &material);
        }
    }
    Error::WatchEnded
}

/// What does not fit leaves the certificate as it is.
fn replace(certificate: &Certificate, material: &Material) {
    let key = material.key.reveal().as_bytes();
    match certificate.replace(material.certificate.as_bytes(), key) {
        Ok(true) => tracing::info!("the webhook serves a new certificate"),
        Ok(false) => {}
        Err(error) => tracing::error!(error = chain(&error), "the Secret {NAME} is no good"),
    }
}
