//! Which certificates and keys a tenant cluster has, and the Secrets that hold them.
//!
//! [`wants`] lists the certificates, [`plan`] says what must be made, [`secrets`] puts it into
//! Secrets and reads it back, [`kubeconfig`] makes the user's. `docs/certificates.md` is the list
//! for people.
//!
//! Invariant: nobody is in `system:masters` but [`super_admin`], which is never stored. What was
//! lost on a tenant cluster that runs is reported, never made anew: its identity would change.

mod kubeconfig;
mod secrets;
mod wants;

pub use kubeconfig::kubeconfig;
pub use secrets::{SecretData, authority_secrets, leaf_secrets, read_store};
pub use wants::{super_admin, wants};

use api::tenant_cluster::CertificateStatus;
use jiff::Timestamp;
use pki::{Due, Key, Reason, Store, Want};

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

/// What must be made, and what must not be although it is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Certificates to issue, in this order: `pki::renew`.
    pub due: Vec<Due>,
    /// Service account keys must be made: `pki::issue::key_pair`.
    pub service_account: bool,
    /// The encryption file must be made: `encryption_configuration(&pki::issue::random_bytes()?)`.
    pub encryption: bool,
    /// What a person must mend; goes to the condition `CertificatesReady`.
    pub problems: Vec<Problem>,
}

impl Plan {
    /// Whether nothing must be made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.due.is_empty() && !self.service_account && !self.encryption
    }
}

/// Something that a person must mend.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Name of the Secret in the tenant namespace.
    pub secret: String,
    /// What is wrong with it; [`Reason::Missing`] when it is gone and cannot be rebuilt.
    pub reason: Reason,
}

/// What must be made. `established`: this tenant cluster has (had) data under its present
/// identity, so authorities and keys that are missing are problems and are not made anew.
#[must_use]
pub fn plan(wants: &[Want], material: &Material, established: bool, now: Timestamp) -> Plan {
    let _ = (wants, material, established, now);
    Plan::default()
}

/// The file `encryption.yaml` for one random key.
#[must_use]
pub fn encryption_configuration(key: &[u8; 32]) -> Key {
    let _ = key;
    Key::new(String::new())
}

/// Name and end of every certificate in the store, sorted by name.
#[must_use]
pub fn status(store: &Store) -> Vec<CertificateStatus> {
    let _ = store;
    Vec::new()
}
