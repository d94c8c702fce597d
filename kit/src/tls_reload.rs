//! An HTTPS server whose certificate can be swapped while it runs.
//!
//! Invariant: a pair that does not fit together never replaces one that works; connections that
//! are open keep theirs, new ones get the newest. TLS 1.2 at least, 1.3 preferred, from ring.

mod clients;
mod error;
mod serve;

use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

pub use self::clients::Clients;
pub use self::error::Error;
pub use self::serve::{serve, serve_on};
pub use crate::connections::settings::Settings;
pub use crate::connections::{Serve, Server};

/// The present certificate. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Certificate {
    current: Arc<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    key: RwLock<Option<Arc<CertifiedKey>>>,
}

impl Certificate {
    /// No certificate yet: handshakes fail until [`Certificate::replace`] succeeds. Suits a
    /// readiness check on [`Certificate::is_set`].
    pub fn empty() -> Self {
        Self::default()
    }

    /// From a PEM chain, leaf first, and its PEM key.
    ///
    /// # Errors
    /// [`Error`].
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, Error> {
        let this = Self::empty();
        this.replace(chain, key)?;
        Ok(this)
    }

    /// Swaps the certificate. Gives whether it differs from the one before.
    ///
    /// # Errors
    /// [`Error`]; the one before then stays.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<bool, Error> {
        let next = Arc::new(parse(chain, key)?);
        let mut current = self
            .current
            .key
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let differs = current
            .as_ref()
            .is_none_or(|before| before.cert != next.cert);
        *current = Some(next);
        Ok(differs)
    }

    /// True once there is a certificate.
    pub fn is_set(&self) -> bool {
        self.get().is_some()
    }

    /// A server configuration that always serves the present certificate: HTTP/2 and HTTP/1.1, no
    /// client certificates, no tickets that would outlive a swap.
    ///
    /// # Errors
    /// [`Error::Setup`].
    pub fn server_config(&self) -> Result<ServerConfig, Error> {
        let resolver = Arc::clone(&self.current);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(Error::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// As [`Certificate::server_config`], but whoever connects has to show a certificate that
    /// `clients` accept, and only HTTP/2 is spoken.
    ///
    /// # Errors
    /// [`Error::Setup`].
    pub fn server_config_for(&self, clients: &Clients) -> Result<ServerConfig, Error> {
        let resolver = Arc::clone(&self.current);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(Error::Setup)?
            .with_client_cert_verifier(clients.verifier())
            .with_cert_resolver(resolver);
        // A session that is taken up again shows no certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    fn get(&self) -> Option<Arc<CertifiedKey>> {
        self.current.get()
    }
}

impl Slot {
    fn get(&self) -> Option<Arc<CertifiedKey>> {
        self.key
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl ResolvesServerCert for Slot {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.get()
    }
}

fn parse(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, Error> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|source| Error::Certificate(Some(source)))?;
    if chain.is_empty() {
        return Err(Error::Certificate(None));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(Error::Key)?;
    let key = ring::sign::any_supported_type(&key).map_err(Error::Mismatch)?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        // ring always knows the public key; a signer that does not cannot be judged.
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(source) => Err(Error::Mismatch(source)),
    }
}

#[cfg(test)]
mod tests;
