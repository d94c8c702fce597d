//! Making keys and certificates: the only random part of the control plane's PKI.
//!
//! Invariant: every call makes a new key; a key is never used for two certificates.

use jiff::Timestamp;

use crate::{
    inspect::Due,
    want::{Key, KeyPair, Store, Want},
};

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The wanted signer is not in the store.
    #[error("certificate {name:?} cannot be signed: there is no authority {signer:?}")]
    NoSigner {
        /// The certificate.
        name: String,
        /// The authority that is not there.
        signer: String,
    },
    /// A plan names something that is not wanted.
    #[error("certificate {0:?} is due but not wanted; plan and wants do not belong together")]
    NotWanted(String),
    /// A name cannot stand in a certificate.
    #[error("certificate {name:?} cannot be made: {what}")]
    Unfit {
        /// The certificate.
        name: String,
        /// What does not fit.
        what: &'static str,
    },
    /// The cryptographic library refused.
    #[error("certificate {name:?} cannot be made")]
    Crypto {
        /// The certificate.
        name: String,
        /// Its reason.
        #[source]
        source: rcgen::Error,
    },
    /// The operating system has no random numbers.
    #[error("the operating system gave no random numbers")]
    Random,
}

/// Issues one certificate with a new key. `signer` is none for an authority.
pub fn issue(want: &Want, signer: Option<&KeyPair>, now: Timestamp) -> Result<KeyPair, Error> {
    let _ = (signer, now);
    Err(Error::NotWanted(want.name.clone()))
}

/// Issues everything that is due, in order, into the store.
pub fn renew(wants: &[Want], due: &[Due], store: &mut Store, now: Timestamp) -> Result<(), Error> {
    let _ = (wants, due, store, now);
    Ok(())
}

/// A key pair without certificate, for service account tokens (ES256): public key (PKIX PEM) and
/// private key (PKCS#8 PEM).
pub fn key_pair() -> Result<(String, Key), Error> {
    Err(Error::Random)
}

/// Random bytes from the operating system.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], Error> {
    Err(Error::Random)
}
