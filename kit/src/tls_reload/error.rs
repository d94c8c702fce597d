//! Why a certificate, or an authority, was not taken.
//!
//! Invariant: what was there before stays; each message says what to look at.

use rustls_pki_types::pem;

/// Why a certificate was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The chain is not PEM, or is empty.
    #[error("certificate chain is not valid PEM with at least one certificate")]
    Certificate(#[source] Option<pem::Error>),
    /// The key is not PEM.
    #[error("private key is not valid PEM (PKCS#8, SEC1 or PKCS#1)")]
    Key(#[source] pem::Error),
    /// The key does not belong to the certificate, or is of a kind that is not supported.
    #[error("private key and certificate do not fit together; issue both anew")]
    Mismatch(#[source] rustls::Error),
    /// The authority of clients is not PEM, is empty, or is none.
    #[error("authority of clients is not valid PEM with at least one certificate of an authority")]
    Authority,
    /// The versions of TLS are not to be had.
    #[error("could not set up TLS")]
    Setup(#[source] rustls::Error),
}
