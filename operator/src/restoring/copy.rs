//! What becomes of objects of the tenant cluster of then in the etcd of a copy of it, before a kube-apiserver serves them.
//! No I/O, no clock, no chance.
//!
//! Laws (`tests`): nothing is left that is believed by the one of then, or was written with its key; what a copy does not
//! want of the outer world waits until people say so; what cannot be read stays as it is, because no kube-apiserver can
//! read it either; what was gone over once stays as it is.

use api::names::ANNOTATION_COPIED;
use serde_json::{Value, json};

pub mod encrypted;
mod protobuf;
#[cfg(test)]
mod tests;

use encrypted::Keys;
use protobuf::{Field, fields, nested};

/// Before every object that a kube-apiserver stores as Protocol Buffers
/// (`k8s.io/apimachinery/pkg/runtime/serializer/protobuf`): a message `Unknown` follows.
const MAGIC: &[u8] = b"k8s\0";
/// Fields of `Unknown` (`k8s.io/apimachinery/pkg/runtime/generated.proto`).
const RAW: u64 = 2;
/// Fields of `Secret` and `Service` (`k8s.io/api/core/v1/generated.proto`), and of their metadata.
const SECRET_TYPE: u64 = 3;
const METADATA: u64 = 1;
const SPEC: u64 = 2;
const STATUS: u64 = 3;
const SPEC_TYPE: u64 = 4;
const ANNOTATIONS: u64 = 12;
const MAP_KEY: u64 = 1;
const MAP_VALUE: u64 = 2;

/// Types of Secrets that the kube-apiserver of then believes: tokens of service accounts, which it signed, and of nodes
/// that join.
const TOKENS: [&str; 2] = [
    "kubernetes.io/service-account-token",
    "bootstrap.kubernetes.io/token",
];

/// Where kube-apiservers have what is gone over, from and before which key, and what is done with each.
pub const REWRITTEN: [(&str, &str, Kind); 2] = [
    ("/registry/secrets/", "/registry/secrets0", Kind::Secret),
    (
        "/registry/services/specs/",
        "/registry/services/specs0",
        Kind::Service,
    ),
];

/// What is gone over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Secrets: encrypted.
    Secret,
    /// Services.
    Service,
}

/// What becomes of one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fate {
    /// Nothing.
    Stays,
    /// It is deleted.
    Goes,
    /// It is written in its place.
    Becomes(Vec<u8>),
}

/// Decides about a value as it stands in etcd.
#[must_use]
pub fn fate(kind: Kind, value: &[u8], keys: &Keys, nonce: [u8; encrypted::NONCE]) -> Fate {
    match kind {
        Kind::Secret => of_secret(value, keys, nonce),
        Kind::Service => of_service(value),
    }
}

fn of_secret(value: &[u8], keys: &Keys, nonce: [u8; encrypted::NONCE]) -> Fate {
    let Some(plain) = keys.open(value) else {
        return Fate::Stays;
    };
    match type_of_secret(&plain) {
        Some(type_) if TOKENS.contains(&type_.as_str()) => Fate::Goes,
        _ if keys.is_own(value) => Fate::Stays,
        _ => keys.seal(&plain, nonce).map_or(Fate::Stays, Fate::Becomes),
    }
}

fn type_of_secret(plain: &[u8]) -> Option<String> {
    let Some(unknown) = plain.strip_prefix(MAGIC) else {
        let object: Value = serde_json::from_slice(plain).ok()?;
        return object["type"].as_str().map(str::to_owned);
    };
    let unknown = fields(unknown)?;
    let secret = fields(content(&unknown, RAW)?)?;
    String::from_utf8(content(&secret, SECRET_TYPE)?.to_vec()).ok()
}

fn of_service(value: &[u8]) -> Fate {
    let changed = match value.strip_prefix(MAGIC) {
        Some(unknown) => paused_protobuf(unknown).map(|unknown| [MAGIC, &unknown].concat()),
        None => paused_json(value),
    };
    match changed {
        Some(changed) if changed != value => Fate::Becomes(changed),
        _ => Fate::Stays,
    }
}

/// The same of a Service as older kube-apiservers, or others, store it.
fn paused_json(value: &[u8]) -> Option<Vec<u8>> {
    let mut service: Value = serde_json::from_slice(value).ok()?;
    if service["spec"]["type"] != "LoadBalancer" {
        return None;
    }
    let mark = &service["metadata"]["annotations"][ANNOTATION_COPIED];
    if mark.is_string() && service["status"].is_null() {
        return None;
    }
    service["metadata"]["annotations"][ANNOTATION_COPIED] = json!("true");
    service.as_object_mut()?.remove("status");
    serde_json::to_vec(&service).ok()
}

/// Without the addresses of then, and marked: who makes load balancers leaves it alone until the mark is taken off.
fn paused_protobuf(unknown: &[u8]) -> Option<Vec<u8>> {
    let unknown = fields(unknown)?;
    let service = fields(content(&unknown, RAW)?)?;
    let spec = fields(content(&service, SPEC)?)?;
    if content(&spec, SPEC_TYPE)? != b"LoadBalancer" {
        return None;
    }
    let metadata = fields(content(&service, METADATA)?)?;
    let annotations = metadata.iter().filter(|field| field.number == ANNOTATIONS);
    let is_marked = annotations.clone().any(|entry| {
        let entry = fields(entry.content).unwrap_or_default();
        content(&entry, MAP_KEY) == Some(ANNOTATION_COPIED.as_bytes())
    });
    let key = nested(MAP_KEY, ANNOTATION_COPIED.as_bytes());
    let mark = [key, nested(MAP_VALUE, b"true")].concat();
    let mark = if is_marked {
        Vec::new()
    } else {
        nested(ANNOTATIONS, &mark)
    };
    let mut raw = Vec::new();
    for field in &service {
        match field.number {
            METADATA => raw.extend(nested(METADATA, &[field.content, &mark].concat())),
            STATUS => {}
            _ => raw.extend(field.whole),
        }
    }
    let mut changed = Vec::new();
    for field in &unknown {
        match field.number {
            RAW => changed.extend(nested(RAW, &raw)),
            _ => changed.extend(field.whole),
        }
    }
    Some(changed)
}

fn content<'a>(fields: &[Field<'a>], number: u64) -> Option<&'a [u8]> {
    let mut these = fields.iter().filter(|field| field.number == number);
    these.next().map(|field| field.content)
}
