//! Both APIs go and come back, one after the other and together.

use anyhow::Result;
use kit::apply::kinds;
use kube::ResourceExt;
use serde_json::json;
use testkit::fixtures::wait_gone;

use crate::support::{Ccm, PATIENCE, Site};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_both_apis_are_restarted_and_no_node_goes() -> Result<()> {
    let Some(site) = Site::alone("outage").await? else {
        return Ok(());
    };
    let _ccm = Ccm::start(&site)?;
    let (service, name) = site.serving().await?;
    let node = site.nodes().get("a").await?;

    // The management API is away, and the node is lost: nothing is concluded from that.
    site.management.stop_apiserver().await?;
    site.node_ready("a", "Unknown").await?;
    site.change("web", &json!({ "spec": { "sessionAffinity": "ClientIP" } }))
        .await?;
    site.management.start_apiserver().await?;
    let follows = |m: &k8s_openapi::api::core::v1::Service| {
        m.spec.as_ref().unwrap().session_affinity.as_deref() == Some("ClientIP")
    };
    site.mirror(&service, follows).await?;
    assert_eq!(site.nodes().get("a").await?.uid(), node.uid());

    // The tenant's API is away, and an address comes.
    site.tenant.stop_apiserver().await?;
    site.allocate(&name, &json!([{ "ip": "192.0.2.1" }]))
        .await?;
    site.tenant.start_apiserver().await?;
    site.addresses("web", &["192.0.2.1"]).await?;

    // Both.
    site.management.stop_apiserver().await?;
    site.tenant.stop_apiserver().await?;
    site.tenant.start_apiserver().await?;
    site.services().delete("web", &Default::default()).await?;
    site.management.start_apiserver().await?;
    wait_gone(&site.services(), "web", PATIENCE).await?;
    site.delete(kinds::VIRTUAL_MACHINE, "a").await?;
    site.delete(kinds::VIRTUAL_MACHINE_INSTANCE, "a").await?;
    wait_gone(&site.nodes(), "a", PATIENCE).await
}
