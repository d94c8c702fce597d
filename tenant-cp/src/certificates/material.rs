//! Key material: everything secret that a tenant cluster has, in memory.
//!
//! Invariant: what is not there is absent, never empty.

use base64::{Engine, engine::general_purpose::STANDARD};
use pki::{Key, Store};

/// Everything secret that a tenant cluster has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Material {
    /// Certificates with keys.
    pub store: Store,
    /// Keys of service account tokens.
    pub service_account: Option<ServiceAccountKeys>,
    /// File `encryption.yaml`: keys of encryption at rest.
    pub encryption: Option<Key>,
}

/// Keys of service account tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceAccountKeys {
    /// Public key, PEM.
    pub public: String,
    /// Private key, PEM.
    pub private: Key,
}

/// The file `encryption.yaml` for one random key: Secrets are written with it, and what was written
/// without encryption can still be read (apiserver.config.k8s.io/v1).
#[must_use]
pub fn encryption_configuration(key: &[u8; 32]) -> Key {
    let key = STANDARD.encode(key);
    Key::new(format!(
        "apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - secretbox:
      keys:
      - name: key1
        secret: {key}
  - identity: {{}}
"
    ))
}
