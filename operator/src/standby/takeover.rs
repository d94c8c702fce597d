//! Taking an identity over, and letting one go: writes on its tenant namespace that only one can win.
//!
//! Invariant: the label says whose it is for good; it is written where there is none, on the namespace as it was read, and
//! everything else follows from it after a crash.

use api::TenantCluster;
use api::names::{
    LABEL_TAKEN_OVER_BY, LABEL_TENANT_NAME, LABEL_TENANT_NAMESPACE, LABEL_TENANT_UID,
};
use api::tenant_cluster::TenantIdentity;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PartialObjectMeta, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::FIELD_MANAGER;

/// How many TenantClusters are read at once.
const PAGE: u32 = 500;

type NamespaceMeta = PartialObjectMeta<Namespace>;

/// Whoever bears an identity beside the one that it was made for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Taker {
    /// Its TenantCluster says that it bears it.
    Bears,
    /// Its TenantCluster may come to say so.
    May,
    /// There is no such TenantCluster any more, and none bears it.
    Gone,
}

/// The identity that a TenantCluster of this UID has taken over, whatever it says itself; a quorum is asked.
///
/// # Errors
/// What the API said; then it is not known.
pub async fn taken_by(client: &Client, uid: &str) -> Result<Option<TenantIdentity>, kube::Error> {
    let namespaces = Api::<NamespaceMeta>::all(client.clone());
    let label = format!("{LABEL_TAKEN_OVER_BY}={uid}");
    let found = namespaces
        .list(&ListParams::default().labels(&label).limit(2))
        .await?;
    let identities = found
        .items
        .iter()
        .map(|namespace| identity(&namespace.metadata));
    Ok(identities.flatten().find(|identity| identity.uid != uid))
}

/// Takes one over for the TenantCluster of this UID, which may have it already; false where another one has it, or it is
/// going.
///
/// # Errors
/// What the API said; then it is not known whether it was taken over.
pub async fn take(
    client: &Client,
    identity: &TenantIdentity,
    uid: &str,
) -> Result<bool, kube::Error> {
    let namespaces = Api::<NamespaceMeta>::all(client.clone());
    let name = identity.tenant_namespace();
    let Some(namespace) = namespaces.get_opt(&name).await? else {
        return Ok(false);
    };
    let meta = &namespace.metadata;
    let is_it = self::identity(meta).as_ref() == Some(identity);
    match taker(meta) {
        Some(taker) if is_it && taker == uid => return Ok(true),
        Some(_) => return Ok(false),
        None if !is_it || meta.deletion_timestamp.is_some() => return Ok(false),
        None => {}
    }
    let patch = json!({ "metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "labels": { LABEL_TAKEN_OVER_BY: uid },
    } });
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match namespaces.patch(&name, &params, &Patch::Merge(patch)).await {
        Ok(_) => Ok(true),
        // Somebody else wrote it meanwhile, or it is gone.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(false),
        Err(error) => Err(error),
    }
}

/// UID of the TenantCluster that took a tenant namespace over.
#[must_use]
pub fn taker(meta: &ObjectMeta) -> Option<&str> {
    let label = meta.labels.as_ref()?.get(LABEL_TAKEN_OVER_BY)?;
    Some(label)
}

/// For whom a tenant namespace was made; none where it does not say so, or is called otherwise.
fn identity(meta: &ObjectMeta) -> Option<TenantIdentity> {
    let label = |key: &str| Some(meta.labels.as_ref()?.get(key)?.clone());
    let identity = TenantIdentity {
        name: label(LABEL_TENANT_NAME)?,
        namespace: label(LABEL_TENANT_NAMESPACE)?,
        uid: label(LABEL_TENANT_UID)?,
    };
    (meta.name.as_deref() == Some(&identity.tenant_namespace())).then_some(identity)
}

/// Whether a TenantCluster is there whose own UID is such a one; a quorum is asked.
///
/// # Errors
/// What the API said; then it is not known.
pub async fn is_there(client: &Client, is_it: impl Fn(&str) -> bool) -> Result<bool, kube::Error> {
    let all = Api::<PartialObjectMeta<TenantCluster>>::all(client.clone());
    // Without a resource version: what a quorum of etcd says.
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let list = all.list(&params).await?;
        let mut uids = list.items.iter().filter_map(|c| c.metadata.uid.as_deref());
        if uids.any(&is_it) {
            return Ok(true);
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(false),
        }
    }
}
