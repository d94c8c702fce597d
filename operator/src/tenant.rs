//! How the operator talks to a tenant's API: one short visit at a time, no cache. Watches there are
//! [`crate::tenant_watch`].
//!
//! Invariant: every visit ends within its time-out, so a dead tenant cluster costs the operator a
//! bounded wait; what the tenant answers is untrusted and read as typed, bounded data only.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use futures::{StreamExt, stream};
use kit::apply;
use kit::errors::{Class, Classify};
use kube::{Client, Config};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use tenant_cp::Object;
use tower::layer::util::Identity;

/// One request may take so long.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Objects written at the same time.
const PARALLEL_WRITES: usize = 8;

/// Where a tenant's API is reached from the operator: tenant namespace and the address of its
/// Service, mapped to the address to dial. Tests put their own here; in a cluster it is identity.
pub type Dial = Arc<dyn Fn(&str, SocketAddr) -> SocketAddr + Send + Sync>;

/// Who visits a tenant's API, and where that is.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Where to dial.
    pub address: SocketAddr,
    /// The tenant's certificate authority, PEM.
    pub authority: String,
    /// Client certificate and key.
    pub identity: pki::KeyPair,
}

/// Why a visit failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Certificates or address do not make a client.
    #[error("build a client for the tenant's API; look at the Secrets ca and operator-client")]
    BuildClient(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No answer, or a refusal.
    #[error("ask the tenant's API for its version")]
    AskVersion(#[source] Box<kube::Error>),
    /// A bootstrap object was refused.
    #[error("apply an object inside the tenant cluster")]
    ApplyObject(#[source] apply::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::BuildClient(_) => Class::Bug,
            Self::AskVersion(e) => e.class(),
            Self::ApplyObject(e) => e.class(),
        }
    }
}

impl Visit {
    /// A client that is dropped after the visit.
    ///
    /// # Errors
    /// [`Error::BuildClient`].
    pub fn client(&self) -> Result<Client, Error> {
        let mut config = self.config()?;
        config.read_timeout = Some(REQUEST_TIMEOUT);
        config.write_timeout = Some(REQUEST_TIMEOUT);
        Client::try_from(config).map_err(|e| Error::BuildClient(Box::new(e)))
    }

    /// A client that stays, for watches too: plain requests end in time all the same, and none is
    /// held back by what other tenants do.
    ///
    /// # Errors
    /// [`Error::BuildClient`].
    pub fn lasting_client(&self) -> Result<Client, Error> {
        let requests = kit::client::RequestCounter::new();
        let args = kit::args::ClientArgs::default();
        kit::client::build(self.config()?, &args, &requests, &Identity::new())
            .map_err(|e| Error::BuildClient(Box::new(e)))
    }

    fn config(&self) -> Result<Config, Error> {
        let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let url = match self.address.ip() {
            IpAddr::V4(ip) => format!("https://{ip}:{}", self.address.port()),
            IpAddr::V6(ip) => format!("https://[{ip}]:{}", self.address.port()),
        };
        let url = url.parse().map_err(|e| Error::BuildClient(Box::new(e)))?;
        let mut config = Config::new(url);
        let root = CertificateDer::from_pem_slice(self.authority.as_bytes())
            .map_err(|e| Error::BuildClient(Box::new(e)))?;
        config.root_cert = Some(vec![root.to_vec()]);
        config.auth_info.client_certificate_data = Some(base64(&self.identity.certificate));
        config.auth_info.client_key_data = Some(base64(self.identity.key.reveal()).into());
        // The Service's address is in the certificate, but a test dials another one.
        config.tls_server_name = Some("kubernetes".to_owned());
        config.connect_timeout = Some(Duration::from_secs(1));
        config.default_retry = false;
        Ok(config)
    }
}

/// Asks an authenticated question; gives the version without the leading `v`.
///
/// # Errors
/// [`Error::AskVersion`], also when the credentials are refused.
pub async fn version(client: &Client) -> Result<String, Error> {
    let ask = tokio::time::timeout(REQUEST_TIMEOUT, client.apiserver_version());
    match ask.await {
        Ok(Ok(info)) => {
            let text: String = info
                .git_version
                .trim_start_matches('v')
                .chars()
                .take(64)
                .collect();
            Ok(text)
        }
        Ok(Err(error)) => Err(Error::AskVersion(Box::new(error))),
        Err(elapsed) => Err(Error::AskVersion(Box::new(kube::Error::Service(
            elapsed.into(),
        )))),
    }
}

/// What could not be applied, and the first reason.
pub struct Left<'a> {
    /// Objects that are still to be applied.
    pub objects: Vec<&'a Object>,
    /// Why the first of them failed.
    pub error: Error,
}

/// Applies objects inside the tenant cluster side by side, bindings after everything else, because
/// the API server looks at the role that a binding names. What one failure leaves is what is tried
/// again.
///
/// # Errors
/// [`Left`].
pub async fn bootstrap<'a>(client: &Client, objects: &[&'a Object]) -> Result<(), Left<'a>> {
    let (bindings, others): (Vec<_>, Vec<_>) =
        objects.iter().partition(|o| o.kind.ends_with("Binding"));
    if let Err(mut left) = apply_all(client, others).await {
        left.objects.extend(bindings);
        return Err(left);
    }
    apply_all(client, bindings).await
}

async fn apply_all<'a>(client: &Client, objects: Vec<&'a Object>) -> Result<(), Left<'a>> {
    let writes: Vec<_> = objects.iter().map(|o| apply_one(client, o)).collect();
    let results: Vec<_> = stream::iter(writes)
        .buffered(PARALLEL_WRITES)
        .collect()
        .await;
    let mut failed = objects
        .into_iter()
        .zip(results)
        .filter_map(|(o, r)| Some((o, r.err()?)));
    let Some((first, error)) = failed.next() else {
        return Ok(());
    };
    let mut objects = vec![first];
    objects.extend(failed.map(|(object, _)| object));
    Err(Left { objects, error })
}

async fn apply_one(client: &Client, object: &Object) -> Result<(), Error> {
    apply::apply(client, &object.value, crate::FIELD_MANAGER, true)
        .await
        .map(|_| ())
        .map_err(Error::ApplyObject)
}
