//! Which certificates and keys a tenant cluster has, and the Secrets that hold them.
//!
//! [`wants`] lists the certificates, [`plan`] says what must be made, [`secrets`] puts it into
//! Secrets and reads it back, [`crate::kubeconfig`] makes the user's. `docs/certificates.md` is the list
//! for people.
//!
//! Invariant: nobody is in `system:masters` but [`super_admin`], which is never stored. What was
//! lost on a tenant cluster that runs is reported, never made anew: its identity would change. Only
//! [`small_authorities`] are made anew: nobody but the two ends of one connection knows each.

pub(crate) mod etcd_identity;
pub(crate) mod secrets;
mod turned;
mod wants;

pub use etcd_identity::{EtcdGolden, EtcdIdentity, EtcdMember, InitialClusterState};
pub use secrets::{
    OF_CLUSTER, SecretData, authority_secrets, consumers, established, leaf_secrets, read_store,
    renewed_secret, small_authorities,
};
pub use turned::{TURNED, cross, next, turned};
pub use wants::{super_admin, wants};

use std::collections::BTreeSet;

use api::tenant_cluster::CertificateStatus;
use jiff::Timestamp;
use pki::{Due, Reason, Signer, Store, Want};

pub use crate::generations::Generations;
use crate::generations::of_authority;
pub use crate::material::{
    Material, ServiceAccountKeys, encryption_configuration, encryption_generation, encryption_key,
    encryption_keys, encryption_name, service_account_file, service_account_generation,
};
use crate::names::{ENCRYPTION, SERVICE_ACCOUNT};

/// What must be made, and what must not be although it is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Certificates to issue, in this order: `pki::renew`.
    pub due: Vec<Due>,
    /// Service account keys must be made: `pki::issue::key_pair`.
    pub service_account: bool,
    /// Another generation of them must be made, with this number.
    pub next_service_account: Option<u32>,
    /// An encryption key must be made: `encryption_key(&pki::issue::random_bytes()?)`.
    pub encryption: bool,
    /// Another generation of them must be made, with this number.
    pub next_encryption: Option<u32>,
    /// What a person must mend; goes to the condition `CertificatesReady`.
    pub problems: Vec<Problem>,
}

impl Plan {
    /// Whether nothing must be made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let next = self.next_service_account.is_some() || self.next_encryption.is_some();
        self.due.is_empty() && !self.service_account && !self.encryption && !next
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
    let sound = without_broken(wants, &material.store, now);
    let store = &sound;
    let mut plan = Plan {
        due: pki::plan(wants, store, now),
        service_account: material.service_account.is_empty(),
        next_service_account: None,
        encryption: material.encryption.is_empty(),
        next_encryption: None,
        problems: pki::authority_problems(wants, store, now)
            .into_iter()
            .map(|problem| Problem {
                secret: problem.name,
                reason: problem.reason,
            })
            .collect(),
    };
    if !established {
        return plan;
    }

    let mut lost: BTreeSet<&str> = wants
        .iter()
        .filter(|want| want.is_authority() && !store.contains_key(&want.name))
        .filter(|want| !is_small(&want.name))
        .map(|want| want.name.as_str())
        .collect();
    if std::mem::take(&mut plan.service_account) {
        lost.insert(SERVICE_ACCOUNT);
    }
    if std::mem::take(&mut plan.encryption) {
        lost.insert(ENCRYPTION);
    }
    // Neither what is lost, nor what only it could sign, nor what could not be stored without it.
    let hopeless: BTreeSet<&str> = wants
        .iter()
        .filter(|want| {
            let companions = secrets::companions(want).iter();
            let signed = match &want.signer {
                Signer::Own => lost.contains(want.name.as_str()),
                Signer::By(signer) => lost.contains(signer.as_str()),
            };
            let is_lost = |name: &&str| {
                let mut lost = lost.iter();
                lost.any(|lost| lost == name || of_authority(lost, name).is_some())
            };
            signed || companions.into_iter().any(is_lost)
        })
        .map(|want| want.name.as_str())
        .collect();
    plan.due.retain(|due| !hopeless.contains(due.name.as_str()));
    let missing = |secret: &str| Problem {
        secret: secret.to_owned(),
        reason: Reason::Missing,
    };
    plan.problems.extend(lost.into_iter().map(missing));
    plan
}

/// What must be made of the leafs that are there, as they are: for a tenant cluster of which nobody can
/// say what is wanted, because its spec is refused or it is paused. Authorities are never among it.
#[must_use]
pub fn renewals(material: &Material, now: Timestamp) -> (Vec<Want>, Vec<Due>) {
    let store = &material.store;
    let names = store.keys();
    let wants: Vec<_> = names
        .filter_map(|name| pki::as_issued(name, store))
        .collect();
    let due = pki::plan(&wants, store, now);
    (wants, due)
}

/// The store without authorities that are no good, or end soon, and may be made anew.
fn without_broken(wants: &[Want], store: &Store, now: Timestamp) -> Store {
    let mut sound = store.clone();
    for problem in pki::authority_problems(wants, store, now) {
        if is_small(&problem.name) {
            sound.remove(&problem.name);
        }
    }
    sound
}

fn is_small(authority: &str) -> bool {
    small_authorities().any(|small| small == authority)
}

/// Name and end of every certificate in the store, sorted by name.
#[must_use]
pub fn status(store: &Store) -> Vec<CertificateStatus> {
    store
        .iter()
        .filter_map(|(name, pair)| {
            let not_after = pki::not_after(&pair.certificate)?.to_string();
            Some(CertificateStatus {
                name: name.clone(),
                not_after,
            })
        })
        .collect()
}
