//! What is left when nobody looked: the ccm was away, or somebody used force.

use anyhow::Result;
use ccm::names;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testkit::fixtures::wait_gone;

use crate::support::site::wait_all;
use crate::support::{Ccm, PATIENCE, Site};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_that_was_deleted_by_force_leaves_nothing() -> Result<()> {
    let Some(site) = Site::new("orphan").await? else {
        return Ok(());
    };
    let force = async |name: &str| {
        let off = json!({ "metadata": { "finalizers": null } });
        let params = PatchParams::default();
        site.services()
            .patch(name, &params, &Patch::Merge(&off))
            .await?;
        site.services().delete(name, &Default::default()).await?;
        anyhow::Ok(())
    };
    let ccm = Ccm::start(&site)?;
    site.worker("a", &["10.5.0.1"]).await?;
    let mut mirrors = Vec::new();
    for name in ["away", "watching", "stays"] {
        let service = site.service(name, &json!({})).await?;
        let mirror = site.mirror_name(&service);
        site.ready(&mirror, &["10.5.0.1"]).await?;
        mirrors.push(mirror);
    }
    // With its eyes open, it may put the finalizer back on: then deletion takes its usual way.
    force("watching").await?;
    wait_gone(&site.mirrors(), &mirrors[1], PATIENCE).await?;
    drop(ccm);
    force("away").await?;
    let _ccm = Ccm::start(&site)?;
    wait_gone(&site.mirrors(), &mirrors[0], PATIENCE).await?;
    let of = |slice: &k8s_openapi::api::discovery::v1::EndpointSlice| {
        slice.metadata.labels.as_ref().unwrap()[names::LABEL_SLICE_OF].clone()
    };
    wait_all(&site.slices(), "", |slices| {
        slices.len() == 1 && slices.iter().all(|s| of(s) == mirrors[2])
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirror_that_an_allocator_holds_keeps_the_service_until_it_is_given_back() -> Result<()> {
    let Some(site) = Site::new("held").await? else {
        return Ok(());
    };
    let _ccm = Ccm::start(&site)?;
    let service = site.service("web", &json!({})).await?;
    let name = site.mirror_name(&service);
    site.mirror(&service, |_| true).await?;
    let params = PatchParams::default();
    let hold = |held: serde_json::Value| json!({ "metadata": { "finalizers": held } });
    let on = hold(json!(["lb.io/hold"]));
    site.mirrors()
        .patch(&name, &params, &Patch::Merge(&on))
        .await?;
    site.services().delete("web", &Default::default()).await?;
    site.mirror(&service, |m| m.metadata.deletion_timestamp.is_some())
        .await?;
    // Another Service goes its way meanwhile, and so every event of this one has been looked at.
    let other = site.service("other", &json!({})).await?;
    site.mirror(&other, |_| true).await?;
    assert!(site.services().get_opt("web").await?.is_some());
    let off = hold(json!(null));
    site.mirrors()
        .patch(&name, &params, &Patch::Merge(&off))
        .await?;
    wait_gone(&site.services(), "web", PATIENCE).await
}
