//! What a tenant cluster has of another one that it becomes (`spec.etcd.bootstrap: Restore`), and the process that reads
//! that one's backup: in the place of the one that backs up, as long as there is no etcd to back up.
//!
//! Invariant: pods get the data key of then and nothing else of it; nothing is written into the target.

use std::collections::{BTreeMap, BTreeSet};

use api::tenant_cluster::Encryption;
use api::{BackupTarget, TenantCluster};
use k8s_openapi::api::core::v1::{KeyToPath, Volume};
use kit_objects::object::{self, Object};
use serde_json::json;

use super::place::{self, Place};
use super::process::{
    ANNOTATION_SECRETS, CREDENTIALS, STATUS_PORT, account, files, own_container, own_policy,
    workload,
};
use crate::kms::Provider;
use crate::settings::Settings;
use crate::validate::validated::Validated;

/// Secret with what a tenant cluster has of another one that it becomes (`spec.etcd.bootstrap: Restore`).
pub const SOURCE: &str = "restore-source";
/// Its field with the data key that the backup of then is read with: pods get this one alone.
pub const KEY_FIELD: &str = "data-key";
/// Its field with authorities and keys of then ([`super::identity::to_carry`]): for the operator alone.
pub const IDENTITY_FIELD: &str = "identity";
/// Annotation of [`SOURCE`]: UID of the TenantCluster that it is of.
pub const ANNOTATION_SOURCE: &str = "covey.dev/restore-source-uid";
/// Annotation of [`SOURCE`]: it encrypted more than Secrets in its etcd, so that any kind may come back encrypted.
pub const ANNOTATION_ENCRYPTED: &str = "covey.dev/restore-source-encrypted";

/// Annotation of [`SOURCE`]: the KMS providers that what it had may be written with, with commas between them.
pub const ANNOTATION_KMS: &str = "covey.dev/restore-source-kms";

/// Secret [`SOURCE`].
#[must_use]
pub fn secret(v: &Validated, uid: &str, data_key: &[u8], identity: &[u8]) -> Object {
    let fields = [(KEY_FIELD, data_key), (IDENTITY_FIELD, identity)];
    let mut secret = files(v, SOURCE, fields);
    secret.value["metadata"]["annotations"][ANNOTATION_SOURCE] = json!(uid);
    Object::from_value(secret.value)
}

/// The same of one that encrypted more than Secrets, or was to.
#[must_use]
pub fn saying_what_was_encrypted(secret: Object, of: &TenantCluster) -> Object {
    let status = of.status.as_ref();
    let is_told = status.is_some_and(|status| status.encryption.is_some());
    if !is_told && of.spec.encryption == Encryption::default() {
        return secret;
    }
    let mut value = secret.value;
    value["metadata"]["annotations"][ANNOTATION_ENCRYPTED] = json!("true");
    let kms = needed_kms(of).into_iter();
    let kms: Vec<_> = kms.map(|provider| provider.to_string()).collect();
    if !kms.is_empty() {
        value["metadata"]["annotations"][ANNOTATION_KMS] = json!(kms.join(","));
    }
    Object::from_value(value)
}

/// KMS providers that what a tenant cluster has in etcd, or had, may be written with: without their KMSs nobody reads it.
#[must_use]
pub fn needed_kms(of: &TenantCluster) -> BTreeSet<Provider> {
    let status = of.status.as_ref();
    let told = status.and_then(|status| status.encryption.as_ref()?.kms.as_ref());
    let told = told.map(|told| told.needed.as_slice()).unwrap_or_default();
    let mut needed: BTreeSet<_> = told
        .iter()
        .filter_map(|text| Provider::read(text))
        .collect();
    // It may have begun to write since that was told.
    needed.extend(of.spec.encryption.kms.as_ref().map(|kms| Provider {
        name: kms.name.clone(),
        generation: kms.generation,
    }));
    needed
}

/// The volume of [`SOURCE`] with the data key alone.
pub(super) fn volume() -> Volume {
    let mut volume = place::secret("keys", SOURCE);
    if let Some(secret) = &mut volume.secret {
        secret.items = Some(vec![KeyToPath {
            key: KEY_FIELD.to_owned(),
            path: KEY_FIELD.to_owned(),
            mode: None,
        }]);
    }
    volume
}

/// What reads the backup of the TenantCluster `source` while there is no etcd yet: the same Deployment, with a program that
/// writes nothing. `has_key`: whether [`SOURCE`] is there.
#[must_use]
pub fn reader(
    v: &Validated,
    target: &BackupTarget,
    credentials: &BTreeMap<String, Vec<u8>>,
    (source, has_key): (&str, bool),
    settings: &Settings,
) -> Vec<Object> {
    let mut place = Place::of(&target.spec, CREDENTIALS);
    let keys = has_key.then(|| place.mount(volume(), "keys"));
    let mut args = vec!["backup".to_owned(), "serve".to_owned()];
    args.extend(place.args.clone());
    args.push(format!("--tenant={source}"));
    args.push(format!("--listen=[::]:{STATUS_PORT}"));
    args.extend(keys.map(|keys| format!("--data-key={keys}/{KEY_FIELD}")));
    let mut annotations = place.annotations.clone();
    let read_once = object::hash(&json!([has_key, object::hash(&json!(credentials))]));
    annotations.insert(ANNOTATION_SECRETS.to_owned(), read_once);
    let fields = credentials.iter();
    let fields = fields.map(|(name, value)| (name.as_str(), value.as_slice()));
    let container = own_container(args, place.mounts, settings);
    vec![
        account(v),
        own_policy(v, target, settings),
        files(v, CREDENTIALS, fields),
        workload(v, annotations, container, place.volumes),
    ]
}
