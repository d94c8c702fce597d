//! Whose certificates clients have to show, swappable while the server runs.
//!
//! Invariant: nobody is let in without a certificate of the present authorities that is valid now;
//! before there are any, nobody is.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};

use super::error::Error;

/// The authorities that issue certificates of clients. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    current: Arc<Present>,
}

#[derive(Debug, Default)]
struct Present {
    verifier: RwLock<Option<Arc<dyn ClientCertVerifier>>>,
}

impl Clients {
    /// From the PEM of one or more authorities.
    ///
    /// # Errors
    /// [`Error::Authority`].
    pub fn from_pem(authorities: &[u8]) -> Result<Self, Error> {
        let this = Self::default();
        this.replace(authorities)?;
        Ok(this)
    }

    /// Swaps the authorities: connections that are open stay, new ones are judged by these.
    ///
    /// # Errors
    /// [`Error::Authority`]; those before then stay.
    pub fn replace(&self, authorities: &[u8]) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities) {
            let added = authority.ok().and_then(|one| roots.add(one).ok());
            added.ok_or(Error::Authority)?;
        }
        let provider = Arc::new(ring::default_provider());
        // Without any authority this fails.
        let next = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let next = next.map_err(|_| Error::Authority)?;
        let current = self.current.verifier.write();
        *current.unwrap_or_else(PoisonError::into_inner) = Some(next);
        Ok(())
    }

    pub(super) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.current) as Arc<dyn ClientCertVerifier>
    }
}

impl ClientCertVerifier for Present {
    /// None: clients of ours have one certificate and need no hint.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let current = self.verifier.read();
        let current = current.unwrap_or_else(PoisonError::into_inner).clone();
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        current
            .ok_or(unknown)?
            .verify_client_cert(leaf, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = ring::default_provider();
        provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests;
