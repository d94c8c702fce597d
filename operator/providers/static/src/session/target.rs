//! Where a session goes: the machine, the machines on the way, and who logs in there.
//!
//! Invariant: no hop is without pinned keys, and no type here prints a private key.

use std::fmt;
use std::sync::Arc;

use russh::keys::{Algorithm, HashAlg, PrivateKey};

use super::pins::HostKeys;

/// A private key with which Covey logs in. It is used in this process alone and never sent anywhere.
#[derive(Clone)]
pub struct LoginKey(pub(super) Arc<PrivateKey>);

/// Why a private key cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No key at all.
    #[error(
        "the private key cannot be read: it has to be in the format of ssh-keygen (BEGIN OPENSSH PRIVATE KEY)"
    )]
    Unreadable,
    /// It has a passphrase, which nobody could type.
    #[error(
        "the private key has a passphrase: make a key without one with ssh-keygen -t ed25519 -N ''"
    )]
    Encrypted,
    /// RSA, DSA or a key that lives on a security token.
    #[error("the private key is of the kind {0}: make one with ssh-keygen -t ed25519")]
    Kind(String),
}

impl LoginKey {
    /// Reads a key as `ssh-keygen` writes it: ed25519 or ecdsa, without passphrase.
    ///
    /// # Errors
    /// [`KeyError`]; none of them repeats anything of the key.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let key = PrivateKey::from_openssh(text).map_err(|_| KeyError::Unreadable)?;
        if key.is_encrypted() {
            return Err(KeyError::Encrypted);
        }
        match key.algorithm() {
            Algorithm::Ed25519 | Algorithm::Ecdsa { .. } => Ok(Self(Arc::new(key))),
            other => Err(KeyError::Kind(other.to_string())),
        }
    }
}

impl fmt::Debug for LoginKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoginKey({})", self.0.fingerprint(HashAlg::Sha256))
    }
}

/// One machine on the way, the last one included.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Name or address.
    pub address: String,
    /// Port of its SSH server.
    pub port: u16,
    /// Who logs in.
    pub user: String,
    /// With which key.
    pub key: LoginKey,
    /// Which keys the machine may show.
    pub host_keys: HostKeys,
}

impl Hop {
    /// "address:port", as messages and limits call it.
    #[must_use]
    pub fn name(&self) -> String {
        if self.address.contains(':') {
            format!("[{}]:{}", self.address, self.port)
        } else {
            format!("{}:{}", self.address, self.port)
        }
    }
}

/// How a user becomes root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Escalation {
    /// It is root.
    #[default]
    None,
    /// By `sudo -n`, which never asks.
    Sudo,
}

/// A machine and the ways to it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The machine.
    pub host: Hop,
    /// Jump hosts, tried in this order, one on each way; empty: the machine is reached directly.
    pub via: Vec<Hop>,
    /// How the user on the machine becomes root.
    pub escalation: Escalation,
}

#[cfg(test)]
mod tests {
    use super::*;
    use russh::keys::key::safe_rng;
    use russh::keys::ssh_key::LineEnding;

    #[test]
    fn a_key_is_never_printed() {
        let key = PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap();
        let text = key.to_openssh(LineEnding::LF).unwrap();
        let printed = format!("{:?}", LoginKey::parse(&text).unwrap());
        assert!(printed.starts_with("LoginKey(SHA256:"), "{printed}");
    }

    #[test]
    fn what_is_no_key_is_refused_in_words() {
        assert_eq!(LoginKey::parse("x").unwrap_err(), KeyError::Unreadable);
        assert_eq!(LoginKey::parse("").unwrap_err(), KeyError::Unreadable);
    }
}
