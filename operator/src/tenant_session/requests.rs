//! Requests for the objects that Covey keeps inside a tenant cluster: list, read, apply in order.
//!
//! Invariant: what the tenant answers is untrusted and read as bounded data only; nothing is cached.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use kit_client::untyped;
use kit_client::write;
use kit_objects::kinds::{self, Kind};
use kit_objects::object::{Key, Object};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};
use tenant_cp::desired::bootstrap::kinds::KINDS;

use super::budget::{Budget, Exceeded, MOST_PAGES, PAGE};
use super::session::Error;

/// Objects written at the same time.
const PARALLEL_WRITES: usize = 8;

/// What could not be applied, and the first reason.
pub struct Unapplied<'a> {
    /// Objects that are still to be applied.
    pub objects: Vec<&'a Object>,
    /// Why the first of them failed.
    pub error: Error,
}

/// What is inside the tenant cluster and labelled as ours, with the names of its field managers; none when
/// we have no right to list it. What is `wanted` is read in full; of everything else only the metadata
/// are, page by page, because anybody in the tenant can make such objects, of any size and number.
///
/// # Errors
/// [`Error::ListManaged`]; [`Error::Exceeded`] where there are too many.
pub async fn list_managed(
    client: &Client,
    budget: &Budget,
    wanted: &[Key],
) -> Result<Option<BTreeMap<Key, Value>>, Error> {
    let wanted: BTreeSet<&Key> = wanted.iter().collect();
    let kinds = KINDS
        .iter()
        .filter_map(|(version, kind)| kinds::find(version, kind));
    let lists: Vec<_> = kinds
        .map(|kind| list_kind(client, budget, kind, &wanted))
        .collect();
    let lists: Result<Vec<_>, Error> = stream::iter(lists)
        .buffer_unordered(PARALLEL_WRITES)
        .try_collect()
        .await;
    match lists {
        Ok(lists) => Ok(Some(lists.into_iter().flatten().collect())),
        Err(Error::ListManaged(error)) if is_refusal(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

async fn list_kind(
    client: &Client,
    budget: &Budget,
    kind: Kind,
    wanted: &BTreeSet<&Key>,
) -> Result<Vec<(Key, Value)>, Error> {
    let label = format!(
        "{}={}",
        api::names::LABEL_MANAGED_BY,
        api::names::MANAGED_BY
    );
    let failed = |error| Error::ListManaged(Box::new(error));
    let mut params = ListParams::default().labels(&label).limit(PAGE);
    let mut found = Vec::new();
    for _ in 0..MOST_PAGES {
        let list = match untyped::of(kind, client, None).list_metadata(&params).await {
            Ok(list) => list,
            // A kind that is defined only where an addon is.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(found),
            Err(error) => return Err(failed(error)),
        };
        budget.take_items(&plural(kind), list.items.len())?;
        for object in list.items {
            let (key, metadata) = seen(kind, object);
            if !wanted.contains(&key) {
                // Of strangers nothing is kept; of ours, what a deletion needs.
                if is_of_an_addon(&metadata) {
                    found.push((key, metadata));
                }
                continue;
            }
            let namespace = kind.namespaced.then_some(key.namespace.as_str());
            let whole = untyped::of(kind, client, namespace)
                .get_opt(&key.name)
                .await;
            found.extend(whole.map_err(failed)?.map(|whole| seen(kind, whole)));
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(found),
        }
    }
    Err(Error::Exceeded(Exceeded::Items {
        what: format!("{} with the label {label}", plural(kind)),
        most: PAGE * MOST_PAGES,
    }))
}

fn plural(kind: Kind) -> String {
    format!("objects of the kind {}", kind.kind)
}

/// Whether we applied it for an addon: what may have to be deleted.
fn is_of_an_addon(metadata: &Value) -> bool {
    let metadata = &metadata["metadata"];
    let mut managers = metadata["managedFields"].as_array().into_iter().flatten();
    metadata["labels"][api::names::LABEL_ADDON].is_string()
        && managers.any(|entry| entry["manager"] == crate::FIELD_MANAGER)
}

fn seen<K: Resource + Serialize>(kind: Kind, mut object: K) -> (Key, Value) {
    let managers = object.meta_mut().managed_fields.take().unwrap_or_default();
    let names: Vec<_> = managers
        .into_iter()
        .map(|m| json!({ "manager": m.manager }))
        .collect();
    let key = Key::new(
        kind.kind,
        &object.namespace().unwrap_or_default(),
        &object.name_any(),
    );
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = json!(kind.api_version());
    value["kind"] = json!(kind.kind);
    value["metadata"]["managedFields"] = Value::Array(names);
    (key, value)
}

/// These Deployments and DaemonSets, where they are there.
///
/// # Errors
/// [`Error::ListManaged`].
pub async fn workloads(client: &Client, keys: &[Key]) -> Result<BTreeMap<Key, Value>, Error> {
    let gets: Vec<_> = keys
        .iter()
        .filter_map(|key| Some((key, kinds::find("apps/v1", &key.kind)?)))
        .map(|(key, kind)| async move {
            let found = untyped::of(kind, client, Some(&key.namespace))
                .get_opt(&key.name)
                .await;
            found.map(|found| found.map(|object| seen(kind, object)))
        })
        .collect();
    let found: Result<Vec<_>, kube::Error> = stream::iter(gets)
        .buffer_unordered(PARALLEL_WRITES)
        .try_collect()
        .await;
    let found = found.map_err(|error| Error::ListManaged(Box::new(error)))?;
    Ok(found.into_iter().flatten().collect())
}

/// Merges this into a Deployment or DaemonSet, where it is there still.
///
/// # Errors
/// [`Error::ListManaged`].
pub async fn patch_workload(client: &Client, key: &Key, patch: &Value) -> Result<(), Error> {
    let Some(kind) = kinds::find("apps/v1", &key.kind) else {
        return Ok(());
    };
    let workloads = untyped::of(kind, client, Some(&key.namespace));
    let params = PatchParams::default();
    let patched = workloads
        .patch(&key.name, &params, &Patch::Merge(patch))
        .await;
    match patched {
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
        Err(error) => Err(Error::ListManaged(Box::new(error))),
        Ok(_) => Ok(()),
    }
}

/// Applies objects inside the tenant cluster side by side: namespaces before what is in them,
/// definitions of kinds before objects of those, and bindings after everything else, because the API
/// server looks at the role that a binding names. Admission policies are in force before a role is given to
/// whom they bound.
/// What one failure leaves is what is tried again.
///
/// # Errors
/// [`Unapplied`].
pub async fn apply_in_order<'a>(
    client: &Client,
    objects: &[&'a Object],
) -> Result<(), Unapplied<'a>> {
    let rank = |object: &Object| match object.kind.as_str() {
        "CustomResourceDefinition" | "Namespace" => 0,
        "ValidatingAdmissionPolicyBinding" => 2,
        kind if kind.ends_with("Binding") || kind == "VolumeSnapshotClass" => 3,
        _ => 1,
    };
    for turn in 0..4 {
        let now = objects
            .iter()
            .copied()
            .filter(|o| rank(o) == turn)
            .collect();
        if let Err(mut left) = apply_all(client, now).await {
            left.objects
                .extend(objects.iter().filter(|o| rank(o) > turn));
            return Err(left);
        }
    }
    Ok(())
}

async fn apply_all<'a>(client: &Client, objects: Vec<&'a Object>) -> Result<(), Unapplied<'a>> {
    let writes: Vec<_> = objects.iter().map(|o| apply_one(client, o)).collect();
    let results: Vec<_> = stream::iter(writes)
        .buffered(PARALLEL_WRITES)
        .collect()
        .await;
    let mut failed = objects
        .into_iter()
        .zip(results)
        .filter_map(|(o, r)| Some((o, r.err()?)));
    let Some((first, error)) = failed.next() else {
        return Ok(());
    };
    let mut objects = vec![first];
    objects.extend(failed.map(|(object, _)| object));
    Err(Unapplied { objects, error })
}

async fn apply_one(client: &Client, object: &Object) -> Result<(), Error> {
    write::apply(client, &object.value, crate::FIELD_MANAGER, true)
        .await
        .map(|_| ())
        .map_err(Error::ApplyObject)
}

#[cfg(test)]
mod tests;
