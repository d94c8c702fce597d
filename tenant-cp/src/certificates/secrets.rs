//! The Secrets of the tenant namespace that hold keys and certificates, and reading them back.
//!
//! Invariant: each container mounts exactly one Secret with everything it needs.

use std::collections::BTreeMap;

use crate::{Object, Validated, certificates::Material};

/// What the Secrets hold: Secret name to key to bytes.
pub type SecretData = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// Secrets `ca`, `front-proxy-ca`, `etcd-ca`, `service-account` and `encryption`. They are created
/// once and never overwritten; what the material lacks is left out.
#[must_use]
pub fn authority_secrets(v: &Validated, material: &Material) -> Vec<Object> {
    let _ = (v, material);
    Vec::new()
}

/// One Secret per consumer: `apiserver`, `controller-manager`, `scheduler`, `etcd`,
/// `etcd-healthcheck-client` and `operator-client`. One whose material is not complete is left
/// out; that never means that it should be deleted.
#[must_use]
pub fn leaf_secrets(v: &Validated, material: &Material) -> Vec<Object> {
    let _ = (v, material);
    Vec::new()
}

/// The inverse: what the Secrets hold. Authorities and keys whose own Secret is gone are taken from
/// the copies in the consumers' Secrets. The user's Secret `<name>-kubeconfig` belongs to the input
/// too: `admin` is read from it. What cannot be read is left out.
#[must_use]
pub fn read_store(secrets: &SecretData) -> Material {
    let _ = secrets;
    Material::default()
}
