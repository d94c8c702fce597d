//! Both APIs go and come back, one after the other and together.
//!
//! Invariant: what is not to be concluded was looked at while an API was away: a reconcile has failed by then.

use anyhow::Result;
use kit_objects::kinds;
use kube::ResourceExt;
use serde_json::json;
use testkit::fixtures::wait_gone;

use crate::support::{Ccm, Environment, PATIENCE};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_both_apis_are_restarted_and_no_node_goes() -> Result<()> {
    let Some(environment) = Environment::alone("outage").await? else {
        return Ok(());
    };
    let ccm = Ccm::start(&environment)?;
    let (service, name) = environment.serving().await?;
    let node = environment.nodes().get("a").await?;

    // The management API is away, and the node is lost: nothing is concluded from that.
    environment.management.stop_apiserver().await?;
    environment.node_ready("a", "Unknown").await?;
    environment
        .change("web", &json!({ "spec": { "sessionAffinity": "ClientIP" } }))
        .await?;
    ccm.failed(&service).await?;
    assert_eq!(environment.nodes().get("a").await?.uid(), node.uid());
    environment.management.start_apiserver().await?;
    let follows = |m: &k8s_openapi::api::core::v1::Service| {
        m.spec.as_ref().unwrap().session_affinity.as_deref() == Some("ClientIP")
    };
    environment.mirror(&service, follows).await?;
    assert_eq!(environment.nodes().get("a").await?.uid(), node.uid());

    // The tenant's API is away, and an address comes.
    ccm.rest().await;
    environment.tenant.stop_apiserver().await?;
    environment
        .allocate(&name, &json!([{ "ip": "192.0.2.1" }]))
        .await?;
    ccm.failed(&service).await?;
    environment.ready(&name, &["10.5.0.1"]).await?;
    environment.tenant.start_apiserver().await?;
    environment.addresses("web", &["192.0.2.1"]).await?;

    // Both.
    environment.management.stop_apiserver().await?;
    environment.tenant.stop_apiserver().await?;
    environment.tenant.start_apiserver().await?;
    environment
        .services()
        .delete("web", &Default::default())
        .await?;
    environment.management.start_apiserver().await?;
    wait_gone(&environment.services(), "web", PATIENCE).await?;
    environment.delete(kinds::VIRTUAL_MACHINE, "a").await?;
    environment
        .delete(kinds::VIRTUAL_MACHINE_INSTANCE, "a")
        .await?;
    wait_gone(&environment.nodes(), "a", PATIENCE).await
}
