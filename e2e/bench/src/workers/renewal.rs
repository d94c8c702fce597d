//! What is done to a control plane while somebody uses it: scaled, and every certificate made anew.
//!
//! A leaf is renewed by taking certificate and key out of their Secret, which is to the operator
//! what an expired one is: something to be issued.
//! Invariant: nothing here ends before the pods work with what is new.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::Deployment,
        core::v1::{Pod, Secret},
    },
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
    runtime::watcher::Config,
};
use serde_json::{Value, json};

use suites::cluster::{
    Tenant,
    parts::selector,
    served::served,
    wait::{wait_for, wait_list},
};

/// Scales the control plane and waits until exactly so many pods are there and ready.
pub(super) async fn scale(tenant: &Tenant, replicas: i32, patience: Duration) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": { "controlPlane": { "replicas": replicas } } }));
    tenant
        .api()
        .patch(&tenant.name, &PatchParams::default(), &patch)
        .await?;
    let deployments: Api<Deployment> = tenant.parts();
    let what = format!("{replicas} pods are ready");
    let name = "control-plane";
    wait_for(&deployments, name, &what, patience, |deployment| {
        let status = deployment.status.clone().unwrap_or_default();
        let wanted = deployment.spec.as_ref()?.replicas;
        let all = [wanted, status.replicas, status.ready_replicas];
        (all == [Some(replicas); 3]).then_some(())
    })
    .await?;
    let pods: Api<Pod> = tenant.parts();
    let count = usize::try_from(replicas)?;
    let config = Config::default().labels(&selector(name));
    wait_list(&pods, config, "others have ended", patience, |all| {
        (all.len() == count).then_some(())
    })
    .await?;
    tenant.settled(patience).await.map(drop)
}

/// Takes every leaf out of its Secret, and waits until each is there anew and the API serves its
/// own.
pub(super) async fn renew(tenant: &Tenant, patience: Duration) -> Result<()> {
    let status = tenant.get().await?.status.unwrap_or_default();
    let endpoint = status.endpoint.context("no endpoint")?;
    let authority = tenant.secret("ca", "ca.crt").await?;
    let before = served(&endpoint, &authority).await?;
    let secrets: Api<Secret> = tenant.parts();
    let mut renewed = 0;
    for secret in secrets.list(&ListParams::default()).await? {
        let name = secret.name_any();
        let old = leaves(&secret.data.unwrap_or_default());
        if old.is_empty() {
            continue;
        }
        renewed += old.len();
        let nothing = old.keys().flat_map(|leaf| {
            let gone = |end: &str| (format!("{leaf}.{end}"), Value::Null);
            [gone("crt"), gone("key")]
        });
        let data: serde_json::Map<_, _> = nothing.collect();
        let patch = Patch::Merge(json!({ "data": data }));
        secrets
            .patch(&name, &PatchParams::default(), &patch)
            .await?;
        wait_for(&secrets, &name, "holds new leaves", patience, |secret| {
            let new = leaves(secret.data.as_ref()?);
            let is_new =
                |(leaf, old): (&String, &ByteString)| new.get(leaf).is_some_and(|new| new != old);
            old.iter().all(is_new).then_some(())
        })
        .await?;
    }
    ensure!(renewed > 5, "only {renewed} leaf certificates were found");
    // The kubelet brings changed Secrets into the pod within about a minute and a half, and the API
    // server reads its files every minute.
    let taken_up = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(500));
        loop {
            ticks.tick().await;
            if served(&endpoint, &authority).await? != before {
                return anyhow::Ok(());
            }
        }
    };
    let result = tokio::time::timeout(patience, taken_up).await;
    result.context("the old certificate is still served")??;
    tenant.settled(patience).await.map(drop)
}

/// Certificates of a Secret that have their key beside them, by name; authorities aside.
fn leaves(data: &BTreeMap<String, ByteString>) -> BTreeMap<String, ByteString> {
    let leaf = |(key, value): (&String, &ByteString)| {
        let name = key.strip_suffix(".crt")?;
        let pair = data.contains_key(&format!("{name}.key"));
        (pair && !name.ends_with("ca")).then(|| (name.to_owned(), value.clone()))
    };
    data.iter().filter_map(leaf).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_pairs_that_are_no_authority() {
        let keys = [
            "ca.crt",
            "ca.key",
            "x.crt",
            "x.key",
            "front-proxy-ca.crt",
            "sa.key",
        ];
        let data = keys.map(|key| (key.to_owned(), ByteString(key.into())));
        let found: Vec<_> = leaves(&data.into()).into_keys().collect();
        assert_eq!(found, ["x"]);
    }
}
