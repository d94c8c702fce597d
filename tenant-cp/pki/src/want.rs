//! What a certificate should be, and what a set of them looks like.
//!
//! Invariant: private keys never show: [`Key`] has a `Debug` that says nothing, and no `Display`.

use std::{collections::BTreeMap, fmt, net::IpAddr};

/// One wanted certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Want {
    /// Name in the [`Store`]. Example: `apiserver`.
    pub name: String,
    /// Who signs it; [`Signer::Own`] makes it an authority.
    pub signer: Signer,
    /// Common name of the subject: the user, for client certificates.
    pub common_name: String,
    /// Organisations of the subject: the groups, for client certificates.
    pub organizations: Vec<String>,
    /// Extended key usage server authentication.
    pub server: bool,
    /// Extended key usage client authentication.
    pub client: bool,
    /// DNS names in the subject alternative name.
    pub dns_names: Vec<String>,
    /// Addresses in the subject alternative name.
    pub addresses: Vec<IpAddr>,
    /// How long it lasts, in hours; it begins five minutes before it is made.
    pub lifetime_hours: u32,
}

impl Want {
    /// An authority that lasts so many hours.
    #[must_use]
    pub fn authority(name: &str, common_name: &str, lifetime_hours: u32) -> Self {
        Self {
            name: name.to_owned(),
            signer: Signer::Own,
            common_name: common_name.to_owned(),
            organizations: Vec::new(),
            server: false,
            client: false,
            // kubeadm puts the common name there, and some verifiers look for it.
            dns_names: vec![common_name.to_owned()],
            addresses: Vec::new(),
            lifetime_hours,
        }
    }

    /// A client's certificate by the authority `signer`, for a user of no group, that lasts so many hours.
    #[must_use]
    pub fn client(name: &str, signer: &str, user: &str, lifetime_hours: u32) -> Self {
        Self {
            name: name.to_owned(),
            signer: Signer::By(signer.to_owned()),
            common_name: user.to_owned(),
            organizations: Vec::new(),
            server: false,
            client: true,
            dns_names: Vec::new(),
            addresses: Vec::new(),
            lifetime_hours,
        }
    }

    /// Whether it is an authority, which signs others.
    #[must_use]
    pub fn is_authority(&self) -> bool {
        self.signer == Signer::Own
    }
}

/// Who signs a certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Signer {
    /// Its own key: a certificate authority.
    Own,
    /// The authority of this name in the same [`Store`].
    By(String),
}

/// Certificates with their keys, by name.
pub type Store = BTreeMap<String, KeyPair>;

/// A certificate and its key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyPair {
    /// PEM, one certificate.
    pub certificate: String,
    /// Its private key.
    pub key: Key,
}

/// Something secret as text (a private key in PEM, a file that holds one).
#[derive(Clone, Eq, PartialEq)]
pub struct Key(String);

impl Key {
    /// Wraps a secret.
    #[must_use]
    pub fn new(secret: String) -> Self {
        Self(secret)
    }

    /// The secret itself, for the Secret object it goes to.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_not_show_in_debug_output() {
        let pair = KeyPair {
            certificate: "CERT".into(),
            key: Key::new("CANARY".into()),
        };
        let text = format!("{pair:?}");
        assert!(text.contains("CERT") && !text.contains("CANARY"), "{text}");
    }
}
