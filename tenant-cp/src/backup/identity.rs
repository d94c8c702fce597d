//! A tenant cluster's identity: what has to be known, besides what is in its etcd, to bring it back where nothing of it
//! is left: its authorities and keys, the TenantCluster, and the addresses that its nodes know.
//!
//! The document is JSON (docs/backup-format.md, "The identity"). Leaves are not in it, nor authorities that are made
//! anew when they are lost: they follow from it.
//! Invariant: it is the same for the same things, whatever else changes; it is whole or there is none, so that what was
//! lost or spoilt never takes the place of what was saved before.

use std::collections::BTreeMap;

use api::TenantCluster;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kit_objects::object::hash;
use pki::{AuthorityProblem, Reason, Want};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::certificates::secrets::{SecretData, read_store};
use crate::generations::{
    Generations, is_authority, is_encryption, of_authority, of_service_account,
};
use crate::material::encryption_name;
use crate::names::{AUTHORITIES, ENCRYPTION, SERVICE_ACCOUNT};

/// The only format of the document that there is.
pub const FORMAT: u32 = 1;
/// What `kubectl apply` keeps: a copy of what is there anyway.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What is sealed. It is not printed.
#[derive(Clone, Eq, PartialEq)]
pub struct Document {
    /// JSON.
    pub text: Vec<u8>,
    /// Hash of the authorities and keys in it.
    pub keys: String,
    /// Hash of all of it.
    pub whole: String,
}

/// Why there is none: what is missing, or cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("Secret {0} is missing or cannot be read")]
pub struct Lacks(pub String);

/// What a document says. It is not printed.
#[derive(Clone)]
pub struct Identity {
    /// The TenantCluster as it was: metadata, spec, and what nodes know of its status.
    pub cluster: TenantCluster,
    /// Secrets of the tenant namespace, whole.
    pub secrets: SecretData,
}

/// A document that is none.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unreadable {
    /// It is not what was sealed, or has no TenantCluster or Secrets.
    #[error("it is no identity of a tenant cluster")]
    NotOne,
    /// Written by a later version.
    #[error("its format is {0}, and this program reads 1")]
    Format(u64),
    /// An authority or key is not there.
    #[error(transparent)]
    Lacks(#[from] Lacks),
}

/// Reads a document: the inverse of [`document`]. Secrets that are no part of an identity are left out.
///
/// # Errors
/// [`Unreadable`].
pub fn read(document: &[u8], now: Timestamp) -> Result<Identity, Unreadable> {
    let document: Value = serde_json::from_slice(document).map_err(|_| Unreadable::NotOne)?;
    match document["format"].as_u64() {
        None => return Err(Unreadable::NotOne),
        Some(format) if format != u64::from(FORMAT) => return Err(Unreadable::Format(format)),
        Some(_) => {}
    }
    let cluster = TenantCluster::deserialize(&document["tenantCluster"]);
    let cluster = cluster.map_err(|_| Unreadable::NotOne)?;
    let secrets = document["secrets"].as_object().ok_or(Unreadable::NotOne)?;
    let field = |(name, value): (&String, &Value)| {
        let bytes = STANDARD.decode(value.as_str()?).ok()?;
        Some((name.clone(), bytes))
    };
    let secret = |(name, fields): (&String, &Value)| {
        let fields: Option<_> = fields.as_object()?.iter().map(field).collect();
        Some((name.clone(), fields?))
    };
    let own = secrets.iter().filter(|(name, _)| has(name));
    let secrets: Option<SecretData> = own.map(secret).collect();
    let secrets = secrets.ok_or(Unreadable::NotOne)?;
    is_whole(&secrets, now)?;
    Ok(Identity { cluster, secrets })
}

/// What is carried over into another tenant cluster, for a field of a Secret of its namespace. Not printed.
#[must_use]
pub fn to_carry(secrets: &SecretData) -> Vec<u8> {
    json!(encoded(&own(secrets))).to_string().into_bytes()
}

/// What was to be carried over: the inverse of [`to_carry`]. What is none is nothing.
#[must_use]
pub fn carried(text: &[u8]) -> SecretData {
    let secrets: BTreeMap<String, BTreeMap<String, String>> =
        serde_json::from_slice(text).unwrap_or_default();
    let field = |(name, value): (String, String)| Some((name, STANDARD.decode(value).ok()?));
    let own = secrets.into_iter().filter(|(name, _)| has(name));
    let secret = |(name, data): (String, BTreeMap<String, String>)| {
        let data: Option<_> = data.into_iter().map(field).collect();
        Some((name, data?))
    };
    own.filter_map(secret).collect()
}

/// What a copy has of it: its encryption keys, which keep their numbers and are only read, below one of the copy's own. No
/// authority, and no key that signs: who believes the one of then must not believe the copy, nor the other way round.
#[must_use]
pub fn of_copy(secrets: &SecretData, own: &pki::Key) -> SecretData {
    let before = read_store(secrets).encryption;
    let keys = Generations::first(own.clone()).after(&before);
    let field = |(generation, key): (u32, &pki::Key)| {
        (
            encryption_name(generation),
            key.reveal().as_bytes().to_vec(),
        )
    };
    let fields: BTreeMap<_, _> = keys.active_first().map(field).collect();
    [(ENCRYPTION.to_owned(), fields)].into()
}

/// Those that are part of it.
fn own(secrets: &SecretData) -> SecretData {
    let own = secrets.iter().filter(|(name, _)| has(name));
    own.map(|(name, data)| (name.clone(), data.clone()))
        .collect()
}

/// As they are in JSON.
fn encoded(secrets: &SecretData) -> BTreeMap<&String, BTreeMap<&String, String>> {
    let field = |(name, value)| (name, STANDARD.encode(value));
    let secrets = secrets.iter();
    secrets
        .map(|(name, data)| (name, data.iter().map(field).collect()))
        .collect()
}

/// Whether a Secret of the tenant namespace is part of it: a generation of one of [`AUTHORITIES`] or of the keys of
/// service account tokens, or the keys of encryption.
#[must_use]
pub fn has(secret: &str) -> bool {
    is_authority(secret) || of_service_account(secret).is_some() || is_encryption(secret)
}

/// The document of a tenant cluster, with those of `secrets` that are part of it. `now` decides nothing but which
/// certificates can be read.
///
/// # Errors
/// [`Lacks`].
pub fn document(
    cluster: &TenantCluster,
    secrets: &SecretData,
    now: Timestamp,
) -> Result<Document, Lacks> {
    let own = own(secrets);
    is_whole(&own, now)?;
    let document = json!({
        "format": FORMAT,
        "tenantCluster": of_cluster(cluster),
        "secrets": encoded(&own),
    });
    Ok(Document {
        keys: hash(&document["secrets"]),
        whole: hash(&document),
        text: document.to_string().into_bytes(),
    })
}

/// Everything is there, can be read, and its keys belong to it.
fn is_whole(own: &SecretData, now: Timestamp) -> Result<(), Lacks> {
    let material = read_store(own);
    for authority in AUTHORITIES {
        let mut names = material.store.keys();
        if !names.any(|name| of_authority(name, authority).is_some()) {
            return Err(Lacks(authority.to_owned()));
        }
    }
    let authorities = own.keys().filter(|name| is_authority(name));
    for name in authorities.clone() {
        if !material.store.contains_key(name) {
            return Err(Lacks(name.clone()));
        }
    }
    let wants: Vec<_> = authorities
        .map(|name| Want::authority(name, name, 1))
        .collect();
    let spoilt = |problem: &AuthorityProblem| problem.reason != Reason::Expiring;
    let problems = pki::authority_problems(&wants, &material.store, now);
    if let Some(problem) = problems.into_iter().find(spoilt) {
        return Err(Lacks(problem.name));
    }
    if material.service_account.is_empty() {
        return Err(Lacks(SERVICE_ACCOUNT.to_owned()));
    }
    if material.encryption.is_empty() {
        return Err(Lacks(ENCRYPTION.to_owned()));
    }
    Ok(())
}

/// What the user said, and of the status what nodes, kubeconfigs and certificates know. What is found again is left
/// out: it changes without anything being another one.
fn of_cluster(cluster: &TenantCluster) -> Value {
    let metadata = &cluster.metadata;
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    let status = cluster.status.clone().unwrap_or_default();
    let mut told = json!({
        "version": status.version,
        "namespace": status.namespace,
        "endpoint": status.endpoint,
        "network": status.network,
        "addresses": status.addresses,
    });
    if let Some(identity) = &status.identity {
        told["identity"] = json!(identity);
    }
    // What may be encrypted in etcd. How far that is changes without anything being another one.
    if status.encryption.is_some() {
        told["encryption"] = json!({ "resources": [] });
    }
    json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "TenantCluster",
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "labels": metadata.labels,
            "annotations": annotations,
        },
        "spec": cluster.spec,
        "status": told,
    })
}

#[cfg(test)]
mod tests {
    use pki::{KeyPair, Store};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn cluster() -> TenantCluster {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {
                "name": "demo", "namespace": "team-a", "uid": "0a1b2c3d-0011-4000-8000-000000000001",
                "resourceVersion": "17", "generation": 3, "labels": { "team": "a" },
                "annotations": { LAST_APPLIED: "{}", "note": "ours" },
            },
            "spec": { "version": "1.35.4" },
            "status": {
                "namespace": "covey-demo-0a1b2c3d00", "version": "1.35.4", "observedGeneration": 3,
                "endpoint": { "host": "api.example.com", "port": 6443 },
                "network": { "podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20", "dnsDomain": "cluster.local" },
                "addresses": { "controlPlane": "10.96.3.7" },
            },
        }))
        .unwrap()
    }

    fn authority(name: &str) -> KeyPair {
        pki::issue(&Want::authority(name, name, 1000), None, at(0)).unwrap()
    }

    fn pair(pair: &KeyPair) -> BTreeMap<String, Vec<u8>> {
        let file = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
        let files = [
            file("ca.crt", &pair.certificate),
            file("ca.key", pair.key.reveal()),
        ];
        files.into()
    }

    fn secrets() -> SecretData {
        let store: Store = AUTHORITIES
            .iter()
            .map(|name| ((*name).to_owned(), authority(name)))
            .collect();
        let mut secrets: SecretData = store
            .iter()
            .map(|(name, of)| (name.clone(), pair(of)))
            .collect();
        let (public, private) = pki::issue::key_pair().unwrap();
        let account = [
            ("sa-k1.pub".to_owned(), public.into_bytes()),
            ("sa-k1.key".to_owned(), private.reveal().as_bytes().to_vec()),
        ];
        secrets.insert(SERVICE_ACCOUNT.to_owned(), account.into());
        let key = crate::certificates::encryption_key(&[7; 32]);
        let key = ("k1".to_owned(), key.reveal().as_bytes().to_vec());
        secrets.insert(ENCRYPTION.to_owned(), [key].into());
        secrets
    }

    #[test]
    fn copy_reads_with_the_keys_of_then_and_writes_with_its_own_and_has_nothing_else_of_it() {
        let own = crate::certificates::encryption_key(&[9; 32]);
        let copy = of_copy(&secrets(), &own);
        assert_eq!(copy.keys().collect::<Vec<_>>(), [ENCRYPTION]);
        // As it is carried over, and read.
        let read = read_store(&carried(&to_carry(&copy)));
        let keys: Vec<_> = read.encryption.active_first().collect();
        let then = crate::certificates::encryption_key(&[7; 32]);
        assert_eq!(keys, [(2, &own), (1, &then)]);
        assert!(read.store.is_empty() && read.service_account.is_empty());
        // A copy of a copy.
        let third = crate::certificates::encryption_key(&[11; 32]);
        let read = read_store(&of_copy(&copy, &third)).encryption;
        let keys: Vec<_> = read.active_first().map(|(number, _)| number).collect();
        assert_eq!(
            (keys.as_slice(), read.active()),
            (&[3, 2, 1][..], Some((3, &third)))
        );
    }

    #[test]
    fn document_has_all_authorities_and_keys_and_what_nodes_know_and_nothing_else() {
        let mut secrets = secrets();
        let leaf = BTreeMap::from([("tls.key".to_owned(), b"leaf".to_vec())]);
        secrets.insert("apiserver".to_owned(), leaf.clone());
        secrets.insert("konnectivity-ca".to_owned(), leaf);
        let document = document(&cluster(), &secrets, at(1)).unwrap();
        let read: Value = serde_json::from_slice(&document.text).unwrap();
        let mut names: Vec<_> = AUTHORITIES.to_vec();
        names.extend([SERVICE_ACCOUNT, ENCRYPTION]);
        names.sort_unstable();
        let found: Vec<_> = read["secrets"].as_object().unwrap().keys().collect();
        assert_eq!(found, names);
        let key = read["secrets"]["etcd-ca"]["ca.key"].as_str().unwrap();
        assert_eq!(STANDARD.decode(key).unwrap(), secrets["etcd-ca"]["ca.key"]);
        let brought_back: TenantCluster =
            serde_json::from_value(read["tenantCluster"].clone()).unwrap();
        let before = cluster();
        assert_eq!(brought_back.spec, before.spec);
        assert_eq!(brought_back.metadata.uid, before.metadata.uid);
        let (now, status) = (brought_back.status.unwrap(), before.status.unwrap());
        assert_eq!(
            (now.endpoint, now.network),
            (status.endpoint, status.network)
        );
        assert_eq!(now.addresses, status.addresses);
        let annotations = brought_back.metadata.annotations.unwrap();
        assert_eq!(
            annotations,
            BTreeMap::from([("note".to_owned(), "ours".to_owned())])
        );
    }

    #[test]
    fn what_is_carried_over_is_what_was_and_nothing_beside_the_identity() {
        let own = secrets();
        let mut all = own.clone();
        assert!(carried(&to_carry(&all)) == own);
        let leaf = BTreeMap::from([("tls.key".to_owned(), b"leaf".to_vec())]);
        all.insert("apiserver".to_owned(), leaf);
        assert!(carried(&to_carry(&all)) == own);
        for none in [
            "",
            "{}",
            "[]",
            r#"{"ca":{"ca.key":"?"}}"#,
            r#"{"apiserver":{"a":"YQ=="}}"#,
        ] {
            assert!(carried(none.as_bytes()).is_empty(), "{none}");
        }
    }

    #[test]
    fn document_is_read_as_it_was_written_and_what_is_none_or_lacks_something_is_not() {
        let (cluster, secrets) = (cluster(), secrets());
        let document = document(&cluster, &secrets, at(1)).unwrap();
        // Years later authorities are as old as that.
        let later = at(3600 * 900);
        let identity = read(&document.text, later).unwrap();
        assert!(identity.secrets == secrets && identity.cluster.spec == cluster.spec);
        let again = super::document(&identity.cluster, &identity.secrets, later).unwrap();
        assert!(again == document);

        let changed = |pointer: &str, value: Value| {
            let mut value_of: Value = serde_json::from_slice(&document.text).unwrap();
            *value_of.pointer_mut(pointer).unwrap() = value;
            read(value_of.to_string().as_bytes(), at(1)).err()
        };
        assert_eq!(changed("/format", json!(2)), Some(Unreadable::Format(2)));
        for pointer in [
            "/format",
            "/secrets",
            "/secrets/ca",
            "/secrets/ca/ca.key",
            "/tenantCluster",
        ] {
            assert_eq!(
                changed(pointer, Value::Null),
                Some(Unreadable::NotOne),
                "{pointer}"
            );
        }
        let lacks = Some(Unreadable::Lacks(Lacks(ENCRYPTION.to_owned())));
        assert_eq!(changed("/secrets/encryption", json!({})), lacks);
        for none in [&b""[..], b"{}", b"[1]", &document.text[1..]] {
            assert_eq!(read(none, at(1)).err(), Some(Unreadable::NotOne));
        }
        // More than is known is passed over.
        let mut more: Value = serde_json::from_slice(&document.text).unwrap();
        more["nodePools"] = json!([1]);
        more["secrets"]["apiserver"] = json!("none of it");
        assert!(read(more.to_string().as_bytes(), at(1)).is_ok());
    }

    #[test]
    fn what_is_found_again_changes_nothing_and_what_is_told_apart_is() {
        let secrets = secrets();
        let of = |cluster: &TenantCluster, secrets: &SecretData| {
            document(cluster, secrets, at(1)).unwrap()
        };
        let before = of(&cluster(), &secrets);
        let mut later = cluster();
        later.metadata.resource_version = Some("18".to_owned());
        later.metadata.generation = Some(4);
        let status = later.status.get_or_insert_default();
        status.observed_generation = Some(4);
        status.bootstrap_hash = Some("9f86d081884c7d65".to_owned());
        assert!(of(&later, &secrets) == before);

        later.spec.version = "1.35.5".to_owned();
        let after = of(&later, &secrets);
        assert!(after.keys == before.keys && after.whole != before.whole);
        let mut turned = secrets;
        turned.insert("client-ca-g2".to_owned(), pair(&authority("client-ca")));
        let after = of(&cluster(), &turned);
        assert!(after.keys != before.keys && after.whole != before.whole);
    }

    #[test]
    fn what_is_lost_or_spoilt_makes_no_document() {
        let whole = secrets();
        let lacks = |secrets: &SecretData| document(&cluster(), secrets, at(1)).err();
        assert_eq!(lacks(&whole), None);
        for name in whole.keys() {
            let mut secrets = whole.clone();
            secrets.remove(name);
            assert_eq!(lacks(&secrets), Some(Lacks(name.clone())), "lost");
            for data in secrets_spoilt(&whole[name]) {
                secrets.insert(name.clone(), data);
                assert_eq!(lacks(&secrets), Some(Lacks(name.clone())), "spoilt");
            }
        }
        // A key of another authority is none of this one.
        let mut mixed = whole.clone();
        let other = whole["users-ca"]["ca.key"].clone();
        mixed
            .entry("ca".to_owned())
            .or_default()
            .insert("ca.key".to_owned(), other);
        assert_eq!(lacks(&mixed), Some(Lacks("ca".to_owned())));
    }

    fn secrets_spoilt(data: &BTreeMap<String, Vec<u8>>) -> Vec<BTreeMap<String, Vec<u8>>> {
        let mut without = data.clone();
        without.retain(|name, _| name.ends_with(".crt") || name.ends_with(".pub"));
        vec![BTreeMap::new(), without]
    }
}
