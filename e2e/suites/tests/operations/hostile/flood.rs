//! Needs: operator
//!
//! A tenant's administrator floods the tenant cluster with objects that bear Covey's label: the operator
//! does not fall over, that tenant cluster is still put right, and others are made meanwhile.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams},
};
use suites::{
    cluster::{OPERATOR_NAMESPACE, drift, operator::SELECTOR, parts::restarts},
    scenario::{self, PATIENCE, Scenario},
};

/// As many, and as large, as killed both replicas of an operator that read all of them.
const OBJECTS: usize = 250;
const BYTES: usize = 1_000_000;
const PARALLEL: usize = 8;

#[tokio::test]
async fn labelled_objects_of_a_tenant_do_not_fell_the_operator() {
    scenario::run_alone("flood", flood).await;
}

async fn flood(s: &Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    tenant.settled(PATIENCE).await?;
    let before = restarts_of_the_operator(s).await?;
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "kube-system");
    let params = PostParams::default();
    let one = |number: usize| {
        let labels = [(
            api::names::LABEL_MANAGED_BY.to_owned(),
            api::names::MANAGED_BY.to_owned(),
        )];
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(format!("flood-{number}")),
                labels: Some(labels.into()),
                ..ObjectMeta::default()
            },
            data: Some([("data".to_owned(), "x".repeat(BYTES))].into()),
            ..ConfigMap::default()
        };
        let (maps, params) = (&maps, &params);
        async move { maps.create(params, &map).await.map(drop) }
    };
    stream::iter((0..OBJECTS).map(one))
        .buffer_unordered(PARALLEL)
        .try_collect::<()>()
        .await?;

    // Each leader looks once at every tenant cluster, and again when something of ours is changed there.
    let operators: Api<Pod> = Api::namespaced(s.client().clone(), OPERATOR_NAMESPACE);
    for pod in before.keys() {
        operators.delete(pod, &DeleteParams::default()).await?;
    }
    drift::spoil_and_wait(&admin, PATIENCE).await?;
    let other = s.tenant("other", |_| {}).await?;
    other.usable(PATIENCE).await?;
    tenant.settled(PATIENCE).await?;
    let after = restarts_of_the_operator(s).await?;
    ensure!(
        after.values().all(|restarts| *restarts == 0),
        "the operator was restarted: {after:?}, before {before:?}"
    );
    Ok(())
}

/// By the names of its pods.
async fn restarts_of_the_operator(s: &Scenario) -> Result<BTreeMap<String, i32>> {
    let pods: Api<Pod> = Api::namespaced(s.client().clone(), OPERATOR_NAMESPACE);
    let list = pods.list(&ListParams::default().labels(SELECTOR)).await?;
    let running = list
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(running
        .map(|pod| (pod.name_any(), restarts(pod, None)))
        .collect())
}
