//! Faults in the process, with kube's own client and a real server.

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use testkit::faults::Answer;
use testkit::{FaultPlan, ManagementApi};

async fn apply(client: &Client, namespace: &str, name: &str) -> kube::Result<ConfigMap> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    maps.patch(
        name,
        &PatchParams::apply("test").force(),
        &Patch::Apply(map),
    )
    .await
}

#[tokio::test]
async fn operator_killed_around_its_second_write_left_one_or_two_objects() -> Result<()> {
    let Some(api) = ManagementApi::shared().await? else {
        return Ok(());
    };
    let plans = [
        (FaultPlan::crash_before_write(2), 1),
        (FaultPlan::crash_after_write(2), 2),
    ];
    for (plan, left) in plans {
        let namespace = api.namespace("crash").await?;
        let client = plan.client(api.config_as("victim", &["system:masters"])?)?;
        apply(&client, &namespace, "first").await?;
        assert!(apply(&client, &namespace, "second").await.is_err());
        assert!(apply(&client, &namespace, "third").await.is_err());
        let maps: Api<ConfigMap> = Api::namespaced(api.admin()?, &namespace);
        assert_eq!(maps.list(&Default::default()).await?.items.len(), left);
        assert_eq!(plan.writes(), 2);
    }
    Ok(())
}

#[tokio::test]
async fn busy_server_is_asked_again_by_kubes_own_retries() -> Result<()> {
    let Some(api) = ManagementApi::shared().await? else {
        return Ok(());
    };
    let namespace = api.namespace("busy").await?;
    let busy = Answer::status(429).when(|info| info.is_write()).times(2);
    let plan = FaultPlan::none().answering(busy);
    let client = plan.client(api.config_as("victim", &["system:masters"])?)?;
    let made = apply(&client, &namespace, "a").await?;
    assert_eq!(made.name_any(), "a");
    assert_eq!((plan.answered(), plan.writes(), plan.requests()), (2, 1, 3));
    let conflict = FaultPlan::none().answering(Answer::status(409).times(1));
    let client = conflict.client(api.config_as("victim", &["system:masters"])?)?;
    match apply(&client, &namespace, "a").await {
        Err(kube::Error::Api(status)) => assert_eq!(status.reason, "Conflict"),
        other => panic!("not a conflict: {other:?}"),
    }
    apply(&client, &namespace, "a").await?;
    Ok(())
}
