//! One wanted object of any kind, with what is needed to apply, compare and find it.
//!
//! Invariant: two objects with the same wanted content carry the same hash annotation, so a field
//! that is no longer wanted shows as a difference and is given up by the next apply; two workloads with
//! the same pod template carry the same annotation on their pods.

use k8s_openapi::{Metadata, Resource, apimachinery::pkg::apis::meta::v1};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Annotation: hash of everything that was wanted of the object.
pub const ANNOTATION_HASH: &str = "covey.dev/hash";
/// Annotation of a workload's pods: hash of the pod template that was wanted.
pub const ANNOTATION_TEMPLATE_HASH: &str = "covey.dev/template-hash";

/// One wanted object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Group and version as in the manifest, e.g. `apps/v1`.
    pub api_version: String,
    /// Kind, e.g. `Deployment`.
    pub kind: String,
    /// Namespace; none for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// The whole manifest, `apiVersion`, `kind` and hash annotation included.
    pub value: Value,
}

impl Object {
    /// From a typed object. `metadata.name` must be set.
    pub fn new<T>(typed: &T) -> Self
    where
        T: Resource + Metadata<Ty = v1::ObjectMeta> + Serialize,
    {
        let mut value = serde_json::to_value(typed).unwrap_or(Value::Null);
        prune(&mut value);
        let meta = typed.metadata();
        let mut object = Self {
            api_version: T::API_VERSION.to_owned(),
            kind: T::KIND.to_owned(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            value,
        };
        object.seal();
        object
    }

    /// From a manifest, for kinds without a type; namespace and name are read from it.
    #[must_use]
    pub fn from_value(mut value: Value) -> Self {
        prune(&mut value);
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
        let mut object = Self {
            api_version: text("/apiVersion").unwrap_or_default().to_owned(),
            kind: text("/kind").unwrap_or_default().to_owned(),
            namespace: text("/metadata/namespace").map(str::to_owned),
            name: text("/metadata/name").unwrap_or_default().to_owned(),
            value,
        };
        object.seal();
        object
    }

    /// Kind, namespace and name, for messages and maps.
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            kind: self.kind.clone(),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: self.name.clone(),
        }
    }

    /// Hash of the wanted content.
    #[must_use]
    pub fn hash(&self) -> &str {
        self.value["metadata"]["annotations"][ANNOTATION_HASH]
            .as_str()
            .unwrap_or("")
    }

    fn seal(&mut self) {
        if self.api_version == "apps/v1" && self.value["spec"]["template"].is_object() {
            let template = &mut self.value["spec"]["template"];
            let hash = hash(template);
            template["metadata"]["annotations"][ANNOTATION_TEMPLATE_HASH] = json!(hash);
        }
        let hash = hash(&self.value);
        self.value["metadata"]["annotations"][ANNOTATION_HASH] = json!(hash);
    }
}

/// Kind, namespace ("" for cluster-scoped kinds) and name.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key {
    /// Kind.
    pub kind: String,
    /// Namespace or "".
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// Shorthand.
    #[must_use]
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Short hash of a JSON value (64 bits of SHA-256; map keys are sorted by serde_json).
#[must_use]
pub fn hash(value: &Value) -> String {
    hex::encode(&Sha256::digest(value.to_string())[..8])
}

/// Drops nulls, which server-side apply would read as "remove".
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(prune);
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn giving_up_a_field_changes_the_hash() {
        let with = Object::from_value(
            json!({"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"x":1}}),
        );
        let without = Object::from_value(
            json!({"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{}}),
        );
        assert_ne!(with.hash(), without.hash());
        assert_eq!(with.hash().len(), 16);
    }

    #[test]
    fn pods_say_which_template_they_are_of_and_how_many_there_are_is_not_in_it() {
        let deployment = |replicas: i32, image: &str| {
            let object = Object::from_value(json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a" },
                "spec": { "replicas": replicas, "template": { "spec": { "image": image } } },
            }));
            let annotations = &object.value["spec"]["template"]["metadata"]["annotations"];
            annotations[ANNOTATION_TEMPLATE_HASH]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(deployment(1, "x"), deployment(3, "x"));
        assert_ne!(deployment(1, "x"), deployment(1, "y"));
    }
}
