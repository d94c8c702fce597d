//! Session with a tenant's API: who the operator is there, where that is, and clients with deadlines.
//!
//! Invariant: every request ends within its time-out and no answer is longer than what is taken, so a dead
//! or hostile tenant cluster costs the operator a bounded wait and bounded memory.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use kit::lease::Leadership;
use kit_client::body_limit::BodyLimitLayer;
use kit_client::deadline::DeadlineLayer;
use kit_client::errors::{Class, Classify};
use kit_client::fence::FenceLayer;
use kit_client::transport::{self, Transport};
use kit_client::write;
use kube::{Client, Config};
use rustls_pki_types::{
    CertificateDer,
    pem::{self, PemObject},
};
use tower::Layer;

use super::budget::{Budget, Exceeded, NAMESPACE};

/// One request may take so long.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a tenant's API is reached from the operator: tenant namespace and the address of its
/// Service, mapped to the address to dial. Tests put their own here; in a cluster it is identity.
pub type Dial = Arc<dyn Fn(&str, SocketAddr) -> SocketAddr + Send + Sync>;

/// Who talks to a tenant's API, and where that is.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Where to dial.
    pub address: SocketAddr,
    /// The certificates of the authority to believe, PEM.
    pub authority: String,
    /// Client certificate and key.
    pub identity: pki::KeyPair,
    /// The name or address that the server's certificate has to be for.
    pub server_name: String,
}

/// Why a session failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Certificates or address do not make a client.
    #[error("build a client for the tenant's API; look at the Secrets ca and operator-client")]
    BuildClient(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No answer, or a refusal.
    #[error("ask the tenant's API for its version")]
    AskVersion(#[source] Box<kube::Error>),
    /// It serves no object.
    #[error("read an object from the tenant's API")]
    Read(#[source] Box<kube::Error>),
    /// It answers, and does not take a write.
    #[error("have the tenant's API write an object; it answers reads")]
    ProveWrite(#[source] write::Error),
    /// A member of etcd did not answer, or not as etcd does.
    #[error("ask etcd")]
    AskEtcd(#[source] Box<kube::Error>),
    /// A bootstrap object was refused.
    #[error("apply an object inside the tenant cluster")]
    ApplyObject(#[source] write::Error),
    /// What an addon left could not be deleted.
    #[error("delete an object inside the tenant cluster")]
    DeleteObject(#[source] write::Error),
    /// A Service kept what the cloud controller manager left on it.
    #[error("release a Service inside the tenant cluster from its load balancer")]
    ReleaseService(#[source] Box<kube::Error>),
    /// The objects inside could not be read.
    #[error("look at the objects inside the tenant cluster")]
    ListManaged(#[source] Box<kube::Error>),
    /// They are still hidden although our rights were applied.
    #[error(
        "list the objects inside the tenant cluster: its API refuses that although the rights to it were applied just \
         now; look for who changes the ClusterRole and the ClusterRoleBinding covey:operator"
    )]
    RightsNotInForce,
    /// The tenant took more than one reconcile has for it.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::BuildClient(_) => Class::Bug,
            Self::Exceeded(_) | Self::RightsNotInForce => Class::Transient,
            Self::AskVersion(e)
            | Self::Read(e)
            | Self::AskEtcd(e)
            | Self::ListManaged(e)
            | Self::ReleaseService(e) => e.class(),
            Self::ApplyObject(e) | Self::DeleteObject(e) | Self::ProveWrite(e) => e.class(),
        }
    }
}

impl Session {
    /// A client that is dropped with the session; the budget pays for what it is asked.
    ///
    /// # Errors
    /// [`Error::BuildClient`].
    pub fn client(&self, budget: &Budget) -> Result<Client, Error> {
        let timed = DeadlineLayer::new(REQUEST_TIMEOUT).layer(self.transport()?);
        Ok(budget.client(&Client::new(timed, NAMESPACE)))
    }

    /// A client for what is no part of a reconcile; each call may take so long.
    ///
    /// # Errors
    /// [`Error::BuildClient`].
    pub fn client_without_budget(&self, limit: Duration) -> Result<Client, Error> {
        let timed = DeadlineLayer::new(limit).layer(self.transport()?);
        Ok(Client::new(
            BodyLimitLayer::default().layer(timed),
            NAMESPACE,
        ))
    }

    /// A client that asks one small thing again and again until it is answered.
    ///
    /// # Errors
    /// [`Error::BuildClient`].
    pub(super) fn probing_client(&self) -> Result<Client, Error> {
        self.client_without_budget(REQUEST_TIMEOUT)
    }

    /// A client that stays, for watches too: plain requests end in time all the same, and none is
    /// held back by what other tenants do. What it writes is sent only while `leadership` lasts.
    ///
    /// # Errors
    /// [`Error::BuildClient`].
    pub fn lasting_client(&self, leadership: &Leadership) -> Result<Client, Error> {
        let requests = kit_client::count::RequestCounter::new();
        let args = kit_client::args::ClientArgs::default();
        let transport = BodyLimitLayer::default().layer(self.transport()?);
        let fenced = FenceLayer::new(leadership.clone()).layer(transport);
        Ok(kit_client::connect::assemble(
            fenced, NAMESPACE, &args, &requests,
        ))
    }

    fn transport(&self) -> Result<Transport, Error> {
        transport::transport(&self.config()?).map_err(|e| Error::BuildClient(Box::new(e)))
    }

    fn config(&self) -> Result<Config, Error> {
        let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let url = match self.address.ip() {
            IpAddr::V4(ip) => format!("https://{ip}:{}", self.address.port()),
            IpAddr::V6(ip) => format!("https://[{ip}]:{}", self.address.port()),
        };
        let url = url.parse().map_err(|e| Error::BuildClient(Box::new(e)))?;
        let mut config = Config::new(url);
        let roots = CertificateDer::pem_slice_iter(self.authority.as_bytes());
        let roots: Result<Vec<_>, _> = roots.map(|root| root.map(|root| root.to_vec())).collect();
        let roots = roots.and_then(|roots| match roots.is_empty() {
            true => Err(pem::Error::NoItemsFound),
            false => Ok(roots),
        });
        config.root_cert = Some(roots.map_err(|e| Error::BuildClient(Box::new(e)))?);
        config.auth_info.client_certificate_data = Some(base64(&self.identity.certificate));
        config.auth_info.client_key_data = Some(base64(self.identity.key.reveal()).into());
        // The address may be another one than the certificate is for: in tests, and behind a name.
        config.tls_server_name = Some(self.server_name.clone());
        config.connect_timeout = Some(Duration::from_secs(1));
        Ok(config)
    }
}
