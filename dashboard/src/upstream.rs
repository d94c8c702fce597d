//! The client of one user: every request carries the user's token, and is bounded in time and bytes.
//!
//! Invariant: there is no client without a token of a user, and none that acts as somebody else; a request is sent once.

use std::path::Path;
use std::time::Duration;

use http::Uri;
use http::header::{HeaderValue, USER_AGENT};
use kit_client::body_limit::{BodyLimitLayer, BodyLimits, ByteCounter};
use kit_client::deadline::DeadlineLayer;
use kit_client::transport::transport;
use kube::config::AuthInfo;
use kube::{Client, Config};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::json;
use tower::ServiceBuilder;

use crate::token::Token;

/// Until an answer is whole.
const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of one answer: a page of objects.
const ANSWER: u64 = 6 << 20;
/// As which the management cluster's audit log knows us, behind the user's name.
const AGENT: &str = concat!("covey-dashboard/", env!("CARGO_PKG_VERSION"));

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file with the authority cannot be read.
    #[error("read the authority of the management cluster's API")]
    Read(#[source] std::io::Error),
    /// It holds no certificate.
    #[error(
        "the file with the authority of the management cluster's API holds no certificate in PEM"
    )]
    NoCertificate,
    /// The address makes no sense.
    #[error("the address of the management cluster's API is not https://HOST[:PORT]")]
    Server,
    /// A client cannot be made.
    #[error("make a client of the management cluster's API")]
    Client(#[source] kit_client::error::Error),
    /// Credentials cannot be set.
    #[error("make the credentials of a client")]
    Credentials(#[source] serde_json::Error),
}

/// Makes the client of whoever has a token.
pub trait Upstream: Send + Sync + 'static {
    /// The client; nothing is sent yet.
    ///
    /// # Errors
    /// [`Error`].
    fn client(&self, token: &Token) -> Result<Client, Error>;
}

/// The management cluster's API.
#[derive(Clone, Debug)]
pub struct Api {
    server: Uri,
    authority: Vec<Vec<u8>>,
}

impl Api {
    /// By its address, and the authority of its certificate as PEM.
    ///
    /// # Errors
    /// [`Error::Server`]; [`Error::NoCertificate`].
    pub fn new(server: &str, authority: &[u8]) -> Result<Self, Error> {
        let server: Uri = server.parse().map_err(|_| Error::Server)?;
        if server.scheme_str() != Some("https") || server.host().is_none() {
            return Err(Error::Server);
        }
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(authority).collect();
        let certificates = certificates.map_err(|_| Error::NoCertificate)?;
        if certificates.is_empty() {
            return Err(Error::NoCertificate);
        }
        let authority = certificates.iter().map(|one| one.to_vec()).collect();
        Ok(Self { server, authority })
    }

    /// As [`Self::new`], with the authority from a file.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read(server: &str, authority: &Path) -> Result<Self, Error> {
        let authority = std::fs::read(authority).map_err(Error::Read)?;
        Self::new(server, &authority)
    }
}

impl Upstream for Api {
    fn client(&self, token: &Token) -> Result<Client, Error> {
        let mut config = Config::new(self.server.clone());
        config.root_cert = Some(self.authority.clone());
        let info = json!({ "token": token.expose() });
        config.auth_info = serde_json::from_value::<AuthInfo>(info).map_err(Error::Credentials)?;
        config
            .headers
            .push((USER_AGENT, HeaderValue::from_static(AGENT)));
        let transport = transport(&config).map_err(Error::Client)?;
        let limits = BodyLimits {
            answer: ANSWER,
            ..BodyLimits::default()
        };
        let service = ServiceBuilder::new()
            .layer(BodyLimitLayer::new(limits, ByteCounter::default()))
            .layer(DeadlineLayer::new(DEADLINE))
            .service(transport);
        Ok(Client::new(service, "default"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_tls_and_an_authority_that_is_none_are_refused() {
        for server in [
            "http://api.example.com",
            "api.example.com",
            "https://",
            "x y",
        ] {
            assert!(
                matches!(Api::new(server, b""), Err(Error::Server)),
                "{server}"
            );
        }
        let no = Api::new("https://api.example.com", b"no certificate");
        assert!(matches!(no, Err(Error::NoCertificate)));
    }
}
