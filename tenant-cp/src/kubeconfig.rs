//! Kubeconfigs: the administrator's and those of AccessGrants in the user's namespace, and those of the components.
//!
//! Invariant: the same certificate, authority and server give the same bytes.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kit_objects::object::Object;
use pki::{Key, KeyPair, Store};
use serde::Deserialize;

use crate::generations::bundle;
use crate::meta::{meta, users_labels};
use crate::names;
use crate::validate::validated::Validated;

/// Largest kubeconfig that is read back; ours has 5 KiB, and the user may write this Secret.
const MAX_BYTES: usize = 64 * 1024;

/// Secret `<name>-kubeconfig`, key `value`. None while `ca` or `admin` is not in the store.
/// `server` is the URL, e.g. `https://203.0.113.7:6443`.
///
/// It changes exactly when the server, the authority or the administrator's certificate changes,
/// because `admin` is kept nowhere else ([`crate::certificates::read_store`] reads it from here).
#[must_use]
pub fn kubeconfig(
    v: &Validated,
    store: &Store,
    server: &str,
    owner: Option<OwnerReference>,
) -> Option<Object> {
    let admin = store.get("admin")?;
    let user = format!("{}-admin", v.name);
    let value = render([&v.name, &user], server, &bundle(store, names::CA)?, admin);
    let mut metadata = meta(v, "", "kubeconfig");
    metadata.name = Some(api::names::kubeconfig_secret(&v.name));
    metadata.namespace = Some(v.namespace.clone());
    metadata.owner_references = owner.map(|owner| vec![owner]);
    let mut labels = users_labels(v, "kubeconfig");
    // Cluster API's label; tools that look for kubeconfigs of clusters select by it.
    labels.insert("cluster.x-k8s.io/cluster-name".to_owned(), v.name.clone());
    metadata.labels = Some(labels);
    Some(Object::new(&Secret {
        metadata,
        data: Some(BTreeMap::from([(
            "value".to_owned(),
            ByteString(value.into_bytes()),
        )])),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }))
}

/// A kubeconfig whose certificate and key are files, which client-go reads again when they change.
pub(crate) fn of_client(name: &str, server: &str) -> String {
    let dir = names::SECRET_DIR;
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: {server}
    certificate-authority: {dir}/ca.crt
users:
- name: {name}
  user:
    client-certificate: {dir}/{name}.crt
    client-key: {dir}/{name}.key
contexts:
- name: local
  context:
    cluster: local
    user: {name}
current-context: local
"
    )
}

/// A kubeconfig with certificate and key in it, of a cluster and a user that are called so there.
#[must_use]
pub fn render([name, user]: [&str; 2], server: &str, ca: &str, pair: &KeyPair) -> String {
    // JSON strings are YAML strings; the server holds a host that somebody else wrote.
    let server = serde_json::Value::from(server);
    let (ca, certificate, key) = (
        STANDARD.encode(ca),
        STANDARD.encode(&pair.certificate),
        STANDARD.encode(pair.key.reveal()),
    );
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {user}@{name}
  context:
    cluster: {name}
    user: {user}
current-context: {user}@{name}
"
    )
}

/// Certificate and key from a kubeconfig of [`render`]; none when it is anything else. Nothing in it is
/// believed: what the authority did not sign is made anew.
#[must_use]
pub fn read(value: &[u8]) -> Option<KeyPair> {
    if value.len() > MAX_BYTES {
        return None;
    }
    let config: Config = serde_saphyr::from_str(std::str::from_utf8(value).ok()?).ok()?;
    let user = config.users.into_iter().next()?.user;
    let decode = |data: String| String::from_utf8(STANDARD.decode(data).ok()?).ok();
    Some(KeyPair {
        certificate: decode(user.client_certificate_data)?,
        key: Key::new(decode(user.client_key_data)?),
    })
}

/// The same kubeconfig with another certificate and key; none when it is no kubeconfig.
pub(super) fn with_pair(value: &[u8], pair: &KeyPair) -> Option<String> {
    let before = read(value)?;
    let text = std::str::from_utf8(value).ok()?;
    let certificate = |pair: &KeyPair| STANDARD.encode(&pair.certificate);
    let key = |pair: &KeyPair| STANDARD.encode(pair.key.reveal());
    Some(
        text.replace(&certificate(&before), &certificate(pair))
            .replace(&key(&before), &key(pair)),
    )
}

#[derive(Deserialize)]
struct Config {
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedUser {
    user: User,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate_data: String,
    client_key_data: String,
}
