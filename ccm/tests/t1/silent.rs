//! One API is silent (its process is stopped in its tracks, connections stay open) while the other changes.
//!
//! Invariant: it is silent for longer than a request waits for its answer, and what is tried again meanwhile is
//! seen, so no test passes because nobody looked.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kit_objects::kinds;
use kube::ResourceExt;
use serde_json::json;
use testkit::fixtures::{wait_for, wait_gone};

use crate::support::{Ccm, Environment, PATIENCE};

/// Load balancers besides `web`: with it more than there are workers for anything but dead machines.
const MORE: usize = 9;

/// Workers for anything but dead machines.
const WORKERS: u64 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_machines_leave_load_balancers_while_the_tenants_api_is_silent() -> Result<()> {
    let Some(environment) = Environment::alone("deaf").await? else {
        return Ok(());
    };
    let ccm = Ccm::start(&environment)?;
    let (service, web) = environment.serving_by_two().await?;
    let mut balanced = vec![("web".to_owned(), web)];
    for number in 0..MORE {
        let name = format!("more-{number}");
        let service = environment.service(&name, &json!({})).await?;
        let mirror = environment.mirror_name(&service);
        environment
            .ready(&mirror, &["10.5.0.1", "10.5.0.2"])
            .await?;
        balanced.push((name, mirror));
    }
    let kept = environment.nodes().get("b").await?;
    ccm.rest().await;
    let before = ccm.plan.writes();
    environment.tenant.pause().await?;
    // Nobody takes these addresses, so all who bring them wait, until no worker is left.
    for (number, (_, mirror)) in balanced.iter().enumerate() {
        let ip = format!("192.0.2.{}", number + 1);
        environment.allocate(mirror, &json!([{ "ip": ip }])).await?;
    }
    let waits = tokio::time::timeout(PATIENCE, ccm.plan.reached(before + WORKERS));
    waits.await.context("somebody does not wait")?;
    for kind in [kinds::VIRTUAL_MACHINE, kinds::VIRTUAL_MACHINE_INSTANCE] {
        environment.delete(kind, "a").await?;
    }
    for (_, mirror) in &balanced {
        environment.ready(mirror, &["10.5.0.2"]).await?;
    }
    ccm.failed(&service).await?;

    environment.tenant.resume().await?;
    for (number, (name, _)) in balanced.iter().enumerate() {
        let ip = format!("192.0.2.{}", number + 1);
        environment.addresses(name, &[&ip]).await?;
    }
    // Its machine is gone, which a kubelet that is not heard any more bears out; that of the other one is not.
    environment.node_ready("a", "Unknown").await?;
    wait_gone(&environment.nodes(), "a", PATIENCE).await?;
    assert_eq!(environment.nodes().get("b").await?.uid(), kept.uid());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_of_the_management_api_is_no_news_of_machines_and_holds_up_nothing_inside()
-> Result<()> {
    let Some(environment) = Environment::alone("mute").await? else {
        return Ok(());
    };
    let ccm = Ccm::start(&environment)?;
    let (service, web) = environment.serving_by_two().await?;
    let going = environment.service("going", &json!({})).await?;
    let gone = environment.mirror_name(&going);
    environment.ready(&gone, &["10.5.0.1", "10.5.0.2"]).await?;
    let kept = environment.nodes().get("a").await?;
    ccm.rest().await;
    environment.management.pause().await?;
    environment.node_ready("a", "Unknown").await?;
    let affinity = json!({ "spec": { "sessionAffinity": "ClientIP" } });
    environment.change("web", &affinity).await?;
    let services = environment.services();
    services.delete("going", &Default::default()).await?;
    environment.service("new", &json!({})).await?;
    // It works on inside.
    let finalizer = |s: Option<&Service>| s.is_some_and(|s| !s.finalizers().is_empty());
    wait_for(&services, "new", finalizer, PATIENCE).await?;
    for waits in [&service, &going] {
        ccm.failed(waits).await?;
    }
    let going = services.get("going").await?;
    ensure!(
        !going.finalizers().is_empty(),
        "its load balancer may be there yet"
    );
    assert_eq!(environment.nodes().get("a").await?.uid(), kept.uid());

    environment.management.resume().await?;
    let follows = |m: &Service| {
        let spec = m.spec.as_ref();
        spec.and_then(|s| s.session_affinity.as_deref()) == Some("ClientIP")
    };
    environment.mirror(&service, follows).await?;
    environment.ready(&web, &["10.5.0.2"]).await?;
    let new = services.get("new").await?;
    environment
        .ready(&environment.mirror_name(&new), &["10.5.0.2"])
        .await?;
    wait_gone(&services, "going", PATIENCE).await?;
    ensure!(environment.mirrors().get_opt(&gone).await?.is_none());
    assert_eq!(environment.nodes().get("a").await?.uid(), kept.uid());
    Ok(())
}
