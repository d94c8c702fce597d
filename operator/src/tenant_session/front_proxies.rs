//! Whom aggregated API servers of a tenant cluster believe: a field of the ConfigMap `extension-apiserver-authentication`.
//!
//! Invariant: nothing but that field is written, and only where the ConfigMap is there: kube-apiservers make it.

use k8s_openapi::api::core::v1::ConfigMap;
use kit_client::errors::chain;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const FIELD: &str = "requestheader-client-ca-file";

/// Authorities in PEM; nothing where it says none.
///
/// # Errors
/// Why they are not known.
pub async fn read(client: &Client) -> Result<String, String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let found = maps.get_opt(NAME).await.map_err(|error| chain(&error))?;
    let data = found.and_then(|map| map.data).unwrap_or_default();
    Ok(data.get(FIELD).cloned().unwrap_or_default())
}

/// Has it hold these authorities alone, and says what it holds then. A kube-apiserver that believes another one adds that
/// again.
///
/// # Errors
/// Why it may not be so.
pub async fn write(client: &Client, authorities: &str) -> Result<String, String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({ "data": { FIELD: authorities } }));
    let written = maps.patch(NAME, &PatchParams::default(), &patch).await;
    let written = written.map_err(|error| chain(&error))?;
    let data = written.data.unwrap_or_default();
    Ok(data.get(FIELD).cloned().unwrap_or_default())
}
