//! Server-side apply and guarded deletes, on untyped objects.
//!
//! Invariant: no discovery calls. Kinds come from the table in [`kinds`] or from the caller, so a
//! write costs exactly one request.

use kit_objects::kinds::{self, Kind};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::{Client, api::PropagationPolicy};
use serde_json::Value;

use crate::errors::{Class, Classify};
use crate::untyped;

/// Why an object was not written or deleted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object lacks a field without which it cannot be addressed.
    #[error("object has no {field}; set it before applying")]
    Incomplete {
        /// The missing field's path.
        field: &'static str,
    },
    /// The table of kinds has no such kind.
    #[error("kind {kind} of {api_version} is not in kit_objects::kinds; add it or pass a Kind")]
    UnknownKind {
        /// As in the object.
        api_version: String,
        /// As in the object.
        kind: String,
    },
    /// The API server refused, or was not reached.
    #[error("could not {verb} {object}")]
    Request {
        /// `apply`, `apply the status of` or `delete`.
        verb: &'static str,
        /// "Kind namespace/name".
        object: String,
        /// What the client said.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Incomplete { .. } | Self::UnknownKind { .. } => Class::Bug,
            Self::Request { source, .. } => source.class(),
        }
    }
}

impl Error {
    /// The HTTP status that the API server answered, when it answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Request { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Applies `object` (with apiVersion, kind, metadata.name and, where the kind has one,
/// metadata.namespace) in the name of `field_manager` and returns it as stored. `force` takes over
/// fields that another manager owns; without it such a field is a [`Class::Conflict`].
///
/// # Errors
/// [`Error`]; 409 and 422 are told apart by [`Classify::class`].
pub async fn apply(
    client: &Client,
    object: &Value,
    field_manager: &str,
    force: bool,
) -> Result<DynamicObject, Error> {
    let target = Target::of(object)?;
    let params = PatchParams {
        force,
        ..PatchParams::apply(field_manager)
    };
    let api = untyped::of(target.kind, client, target.namespace);
    api.patch(target.name, &params, &Patch::Apply(object))
        .await
        .map_err(|source| target.error("apply", source))
}

/// As [`apply`], on the `status` subresource. `object` holds only apiVersion, kind, name,
/// namespace and status.
///
/// # Errors
/// As [`apply`]; 404 when the object is gone.
pub async fn apply_status(
    client: &Client,
    object: &Value,
    field_manager: &str,
    force: bool,
) -> Result<DynamicObject, Error> {
    let target = Target::of(object)?;
    let params = PatchParams {
        force,
        ..PatchParams::apply(field_manager)
    };
    let api = untyped::of(target.kind, client, target.namespace);
    api.patch_status(target.name, &params, &Patch::Apply(object))
        .await
        .map_err(|source| target.error("apply the status of", source))
}

/// What exactly to delete. The UID keeps us from deleting a namesake made since we looked, the
/// resource version from deleting what changed since.
#[derive(Clone, Debug)]
pub struct Deletion<'a> {
    /// The kind, from [`kinds::find`] or a constant of [`kinds`].
    pub kind: Kind,
    /// Ignored for kinds without namespaces.
    pub namespace: Option<&'a str>,
    /// metadata.name
    pub name: &'a str,
    /// metadata.uid as observed.
    pub uid: &'a str,
    /// metadata.resourceVersion as observed. `None` deletes whatever its present state.
    pub resource_version: Option<&'a str>,
    /// What happens to its dependents.
    pub propagation: PropagationPolicy,
}

/// How a delete ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The API server accepted it; finalizers may still hold the object.
    Accepted,
    /// It was gone already.
    NotFound,
}

/// Deletes one object under preconditions. That it is gone already is fine.
///
/// # Errors
/// [`Error`]; a precondition that does not hold is a [`Class::Conflict`]: observe again.
pub async fn delete(client: &Client, deletion: &Deletion<'_>) -> Result<Deleted, Error> {
    let Deletion {
        kind,
        namespace,
        name,
        uid,
        resource_version,
        ref propagation,
    } = *deletion;
    let target = Target {
        kind,
        namespace: namespace.filter(|_| kind.namespaced),
        name,
    };
    if kind.namespaced && target.namespace.is_none() {
        return Err(Error::Incomplete {
            field: "metadata.namespace",
        });
    }
    let params = DeleteParams {
        propagation_policy: Some(propagation.clone()),
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: resource_version.map(ToOwned::to_owned),
        }),
        ..DeleteParams::default()
    };
    match untyped::of(kind, client, target.namespace)
        .delete(name, &params)
        .await
    {
        Ok(_) => Ok(Deleted::Accepted),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Deleted::NotFound),
        Err(source) => Err(target.error("delete", source)),
    }
}

/// An object's address, checked to be complete.
struct Target<'a> {
    kind: Kind,
    namespace: Option<&'a str>,
    name: &'a str,
}

impl<'a> Target<'a> {
    fn of(object: &'a Value) -> Result<Self, Error> {
        let text = |pointer, field| {
            let value = object.pointer(pointer).and_then(Value::as_str);
            value
                .filter(|text| !text.is_empty())
                .ok_or(Error::Incomplete { field })
        };
        let (api_version, kind) = (text("/apiVersion", "apiVersion")?, text("/kind", "kind")?);
        let name = text("/metadata/name", "metadata.name")?;
        let kind = kinds::find(api_version, kind).ok_or_else(|| Error::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })?;
        let namespace = match kind.namespaced {
            true => Some(text("/metadata/namespace", "metadata.namespace")?),
            false => None,
        };
        Ok(Self {
            kind,
            namespace,
            name,
        })
    }

    fn error(&self, verb: &'static str, source: kube::Error) -> Error {
        let object = match self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind.kind, self.name),
            None => format!("{} {}", self.kind.kind, self.name),
        };
        Error::Request {
            verb,
            object,
            source: Box::new(source),
        }
    }
}

#[cfg(test)]
mod tests;
