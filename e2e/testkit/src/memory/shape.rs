//! Which lists are merged by keys and which things are replaced as a whole.
//!
//! Of kinds with a CustomResourceDefinition it is read from the definition's schema; of the others
//! from a short table of what the OpenAPI of Kubernetes says by `x-kubernetes-list-type` and
//! `x-kubernetes-map-type`. Invariant: what neither knows is a list that is replaced as a whole, or a
//! map whose fields stand for themselves, which are the defaults there.

use serde_json::Value;

/// How a value is merged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Shape {
    /// As a whole.
    Atomic,
    /// Field by field.
    Fields,
    /// A list whose items are found by these keys.
    Keyed(&'static [&'static str]),
    /// A list of values that are there or not.
    Set,
}

/// What is known about a value by its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type<'a> {
    /// An object of a built-in kind.
    Object,
    /// `metadata` and below.
    Meta(&'a str),
    /// A field of a built-in kind.
    Field(&'a str),
    /// An object of a kind that is defined, and the definition's schema.
    Kind(&'a Value),
    /// Something of such an object.
    Defined(&'a Value),
}

/// Things that are replaced as a whole: selectors and references.
const ATOMIC: [&str; 13] = [
    "configMapKeyRef",
    "dataSource",
    "fieldRef",
    "labelSelector",
    "namespaceSelector",
    "nodeSelector",
    "objectRef",
    "podSelector",
    "regarding",
    "resourceFieldRef",
    "roleRef",
    "secretKeyRef",
    "selector",
];

/// Maps from names to values, where each name is owned for itself.
const FREE: [&str; 6] = [
    "annotations",
    "capacity",
    "data",
    "labels",
    "limits",
    "requests",
];

impl<'a> Type<'a> {
    pub(super) fn shape(self, value: &Value) -> Shape {
        match (self, value) {
            (Self::Meta("finalizers"), Value::Array(_)) => Shape::Set,
            (Self::Meta("ownerReferences"), Value::Array(_)) => Shape::Keyed(&["uid"]),
            (Self::Meta("owner"), _) => Shape::Atomic,
            (Self::Field(key), Value::Object(_)) if ATOMIC.contains(&key) => Shape::Atomic,
            (Self::Field(key), Value::Array(items)) => keyed(key, items),
            (Self::Defined(schema), Value::Array(_)) => {
                match schema["x-kubernetes-list-type"].as_str() {
                    Some("set") => Shape::Set,
                    Some("map") => Shape::Keyed(keys(&schema["x-kubernetes-list-map-keys"])),
                    _ => Shape::Atomic,
                }
            }
            (Self::Defined(schema), Value::Object(_)) => {
                match schema["x-kubernetes-map-type"].as_str() {
                    Some("atomic") => Shape::Atomic,
                    _ => Shape::Fields,
                }
            }
            (_, Value::Object(_)) => Shape::Fields,
            _ => Shape::Atomic,
        }
    }

    pub(super) fn field(self, key: &'a str) -> Self {
        match self {
            Self::Object | Self::Kind(_) if key == "metadata" => Self::Meta(""),
            Self::Object => Self::Field(key),
            Self::Meta("") => Self::Meta(key),
            Self::Meta(_) => Self::Meta("free"),
            Self::Field(_) => Self::Field(key),
            Self::Kind(schema) | Self::Defined(schema) => {
                Self::Defined(match schema["properties"].get(key) {
                    Some(schema) => schema,
                    None => &schema["additionalProperties"],
                })
            }
        }
    }

    pub(super) fn item(self) -> Self {
        match self {
            Self::Meta("ownerReferences") => Self::Meta("owner"),
            Self::Defined(schema) => Self::Defined(&schema["items"]),
            // Its fields are those of the list's name.
            other => other,
        }
    }

    /// Whether the field of this name is one that anybody may invent.
    pub(super) fn is_free(self) -> bool {
        match self {
            Self::Meta(key) | Self::Field(key) => FREE.contains(&key),
            Self::Defined(schema) => schema.get("additionalProperties").is_some(),
            Self::Object | Self::Kind(_) => false,
        }
    }
}

fn keyed(key: &str, items: &[Value]) -> Shape {
    match key {
        "containers"
        | "ephemeralContainers"
        | "env"
        | "imagePullSecrets"
        | "initContainers"
        | "secrets"
        | "volumes" => Shape::Keyed(&["name"]),
        "conditions" => Shape::Keyed(&["type"]),
        "volumeMounts" => Shape::Keyed(&["mountPath"]),
        "volumeDevices" => Shape::Keyed(&["devicePath"]),
        "hostAliases" => Shape::Keyed(&["ip"]),
        "topologySpreadConstraints" => Shape::Keyed(&["topologyKey", "whenUnsatisfiable"]),
        "ports" if items.iter().any(|item| item.get("containerPort").is_some()) => {
            Shape::Keyed(&["containerPort", "protocol"])
        }
        "ports" => Shape::Keyed(&["port", "protocol"]),
        _ => Shape::Atomic,
    }
}

/// The keys of lists in our definitions.
fn keys(names: &Value) -> &'static [&'static str] {
    const KNOWN: [&[&str]; 3] = [&["type"], &["key", "effect"], &["name"]];
    let is = |known: &&[&str]| {
        let names = names.as_array().map(Vec::as_slice).unwrap_or_default();
        names.len() == known.len() && names.iter().zip(known.iter()).all(|(a, b)| a == b)
    };
    KNOWN.into_iter().find(is).unwrap_or(&["name"])
}
