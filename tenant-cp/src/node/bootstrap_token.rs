//! Bootstrap tokens: one per machine, for its one join.
//!
//! Invariant: the public half is derived from the Machine's UID, so a token that was made before a
//! crash is found again and never made twice; the secret half comes from the caller's chance alone.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kit_objects::object::Object;
use pki::Key;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::names::BOOTSTRAPPERS;

/// 32 of the 36 characters that a token may have (`bootstrap/token/util`: `[a-z0-9]{6}.[a-z0-9]{16}`),
/// so that five bits choose each without preferring any.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const NAMESPACE: &str = "kube-system";

/// A bootstrap token. Its `Debug` shows the public half only.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Token {
    /// Public half: six characters.
    pub id: String,
    /// Secret half: sixteen characters.
    pub secret: Key,
}

impl Token {
    /// The token of a machine; `random` are 16 random bytes (80 bits of them count).
    #[must_use]
    pub fn from_random(random: &[u8; 16], machine_uid: &str) -> Self {
        Self {
            id: token_id(machine_uid),
            secret: Key::new(characters(random)),
        }
    }

    /// `id.secret`, as a kubelet presents it.
    pub(crate) fn text(&self) -> String {
        format!("{}.{}", self.id, self.secret.reveal())
    }
}

/// The public half of a machine's token.
#[must_use]
pub fn token_id(machine_uid: &str) -> String {
    characters(&Sha256::digest(machine_uid)[..6])
}

/// Name of the Secret in `kube-system` that holds the token of a machine.
#[must_use]
pub fn token_secret_name(machine_uid: &str) -> String {
    format!("bootstrap-token-{}", token_id(machine_uid))
}

fn characters(bytes: &[u8]) -> String {
    let pick = |byte: &u8| char::from(ALPHABET[usize::from(byte & 31)]);
    bytes.iter().map(pick).collect()
}

/// The Secret that makes the token valid, inside the tenant cluster. The kube-controller-manager's
/// `tokencleaner` removes it once it has expired, whatever becomes of the operator.
#[must_use]
pub fn token_secret(token: &Token, expires: Timestamp, machine_name: &str) -> Object {
    let entries = [
        ("token-id", token.id.as_str()),
        ("token-secret", token.secret.reveal()),
        (
            "expiration",
            &expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        ),
        ("usage-bootstrap-authentication", "true"),
        ("usage-bootstrap-signing", "true"),
        ("auth-extra-groups", BOOTSTRAPPERS),
        ("description", &description(machine_name)),
    ]
    .map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())));
    Object::new(&Secret {
        metadata: ObjectMeta {
            name: Some(format!("bootstrap-token-{}", token.id)),
            namespace: Some(NAMESPACE.to_owned()),
            labels: Some(BTreeMap::from([(
                api::names::LABEL_MANAGED_BY.to_owned(),
                api::names::MANAGED_BY.to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        data: Some(entries.into()),
        type_: Some("bootstrap.kubernetes.io/token".to_owned()),
        ..Secret::default()
    })
}

fn description(machine_name: &str) -> String {
    format!("Covey machine {machine_name}: for its one join")
}

/// The token in a Secret as it was read from the API, if it is the one of this machine.
#[must_use]
pub fn read_token(secret: &Value, machine_name: &str) -> Option<Token> {
    let secret: Secret = serde_json::from_value(secret.clone()).ok()?;
    let data = secret.data?;
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    (text("description")? == description(machine_name)).then_some(())?;
    Some(Token {
        id: text("token-id")?,
        secret: Key::new(text("token-secret")?),
    })
}

#[cfg(test)]
mod tests;
