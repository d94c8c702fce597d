//! Reads what both APIs say of volumes.
//!
//! Invariant: a list that cannot be read ends the run: what is not known is not taken for absent. Only
//! DataVolumes may be of a kind that is not served.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kit_client::untyped;
use kit_objects::kinds;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::Settings;
use super::observed::{Management, Observed, Tenant, claims_of, claims_of_machine};

/// Objects per answer.
const PAGE: u32 = 500;

/// Both clusters, as they are now.
///
/// # Errors
/// When an API does not answer, or refuses.
pub async fn both(
    tenant: &Client,
    management: &Client,
    settings: &Settings,
) -> anyhow::Result<Observed> {
    let tenant = self::tenant(tenant)
        .await
        .context("read the tenant cluster");
    let management = self::management(management, settings).await;
    Ok(Observed {
        tenant: tenant?,
        management: management.context("read the management cluster")?,
    })
}

async fn tenant(client: &Client) -> anyhow::Result<Tenant> {
    // Volumes last: one that is seen has been there when its users were looked for.
    let pods = list(&Api::all(client.clone())).await.context("list pods")?;
    let attachments = list(&Api::all(client.clone()))
        .await
        .context("list VolumeAttachments")?;
    let claims = list(&Api::all(client.clone()))
        .await
        .context("list PersistentVolumeClaims")?;
    let volumes = list(&Api::all(client.clone()))
        .await
        .context("list PersistentVolumes")?;
    Ok(Tenant {
        volumes,
        claims,
        attachments,
        pods,
    })
}

async fn management(client: &Client, settings: &Settings) -> anyhow::Result<Management> {
    let from = settings.namespace.as_str();
    let within = |kind: kinds::Kind| untyped::of(kind, client, Some(from));
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for kind in [kinds::VIRTUAL_MACHINE, kinds::VIRTUAL_MACHINE_INSTANCE] {
        let machines = list(&within(kind)).await;
        for machine in machines.with_context(|| format!("list {} in {from}", kind.plural))? {
            for claim in claims_of_machine(&machine.data) {
                let user = format!("{} {}", kind.kind, machine.name_any());
                users.entry(claim).or_default().insert(user);
            }
        }
    }
    let pods: Vec<Pod> = list(&Api::namespaced(client.clone(), from))
        .await
        .context("list pods")?;
    for pod in &pods {
        for claim in claims_of(pod) {
            let user = format!("pod {}", pod.name_any());
            users.entry(claim).or_default().insert(user);
        }
    }
    let data_volumes = match list(&within(kinds::DATA_VOLUME)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        listed => listed.context("list DataVolumes")?,
    };
    let claims = async |namespace: &str| {
        list(&Api::namespaced(client.clone(), namespace))
            .await
            .with_context(|| format!("list PersistentVolumeClaims in {namespace}"))
    };
    Ok(Management {
        old_claims: claims(from).await?,
        claims: claims(&settings.to.namespace).await?,
        data_volumes: data_volumes.into_iter().map(|one| one.metadata).collect(),
        users,
        volumes: list(&Api::all(client.clone()))
            .await
            .context("list PersistentVolumes")?,
    })
}

async fn list<K>(api: &Api<K>) -> kube::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut all = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}
