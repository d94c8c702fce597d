//! What is left when nobody looked: the ccm was away, or somebody used force.

use anyhow::Result;
use ccm::names;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testkit::fixtures::wait_gone;

use crate::support::environment::wait_all;
use crate::support::{Ccm, Environment, PATIENCE};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_that_was_deleted_by_force_leaves_nothing() -> Result<()> {
    let Some(environment) = Environment::new("orphan").await? else {
        return Ok(());
    };
    let force = async |name: &str| {
        let off = json!({ "metadata": { "finalizers": null } });
        let params = PatchParams::default();
        environment
            .services()
            .patch(name, &params, &Patch::Merge(&off))
            .await?;
        environment
            .services()
            .delete(name, &Default::default())
            .await?;
        anyhow::Ok(())
    };
    let ccm = Ccm::start(&environment)?;
    environment.worker("a", &["10.5.0.1"]).await?;
    let mut mirrors = Vec::new();
    for name in ["away", "watching", "stays"] {
        let service = environment.service(name, &json!({})).await?;
        let mirror = environment.mirror_name(&service);
        environment.ready(&mirror, &["10.5.0.1"]).await?;
        mirrors.push(mirror);
    }
    // With its eyes open, it may put the finalizer back on: then deletion takes its usual way.
    force("watching").await?;
    wait_gone(&environment.mirrors(), &mirrors[1], PATIENCE).await?;
    drop(ccm);
    force("away").await?;
    let _ccm = Ccm::start(&environment)?;
    wait_gone(&environment.mirrors(), &mirrors[0], PATIENCE).await?;
    let of = |slice: &k8s_openapi::api::discovery::v1::EndpointSlice| {
        slice.metadata.labels.as_ref().unwrap()[names::LABEL_SLICE_OF].clone()
    };
    wait_all(&environment.slices(), "", |slices| {
        slices.len() == 1 && slices.iter().all(|s| of(s) == mirrors[2])
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirror_that_an_allocator_holds_keeps_the_service_until_it_is_given_back() -> Result<()> {
    let Some(environment) = Environment::new("held").await? else {
        return Ok(());
    };
    let _ccm = Ccm::start(&environment)?;
    let service = environment.service("web", &json!({})).await?;
    let name = environment.mirror_name(&service);
    environment.mirror(&service, |_| true).await?;
    let params = PatchParams::default();
    let hold = |held: serde_json::Value| json!({ "metadata": { "finalizers": held } });
    let on = hold(json!(["lb.io/hold"]));
    environment
        .mirrors()
        .patch(&name, &params, &Patch::Merge(&on))
        .await?;
    environment
        .services()
        .delete("web", &Default::default())
        .await?;
    environment
        .mirror(&service, |m| m.metadata.deletion_timestamp.is_some())
        .await?;
    // Another Service goes its way meanwhile, and so every event of this one has been looked at.
    let other = environment.service("other", &json!({})).await?;
    environment.mirror(&other, |_| true).await?;
    assert!(environment.services().get_opt("web").await?.is_some());
    let off = hold(json!(null));
    environment
        .mirrors()
        .patch(&name, &params, &Patch::Merge(&off))
        .await?;
    wait_gone(&environment.services(), "web", PATIENCE).await
}
