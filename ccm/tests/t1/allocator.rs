//! The load balancer of the management cluster takes its time: nothing here waits for it.

use anyhow::Result;
use kube::api::ListParams;
use serde_json::json;

use crate::support::{Ccm, Environment};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_allocator_holds_up_nothing_and_its_addresses_arrive_when_it_goes_on() -> Result<()>
{
    let Some(environment) = Environment::new("paused").await? else {
        return Ok(());
    };
    let ccm = Ccm::start(&environment)?;
    // More than there are workers: each of them would hang if one waited.
    let mut services = Vec::new();
    for number in 0..12 {
        let service = environment
            .service(&format!("web-{number}"), &json!({}))
            .await?;
        environment.mirror(&service, |_| true).await?;
        services.push(service);
    }
    // While it is paused, changes go through, and so do deletions and restarts.
    environment
        .change(
            "web-0",
            &json!({ "spec": { "sessionAffinity": "ClientIP" } }),
        )
        .await?;
    environment
        .mirror(&services[0], |m| {
            m.spec.as_ref().unwrap().session_affinity.as_deref() == Some("ClientIP")
        })
        .await?;
    environment
        .services()
        .delete("web-11", &Default::default())
        .await?;
    testkit::fixtures::wait_gone(&environment.services(), "web-11", crate::support::PATIENCE)
        .await?;
    drop(ccm);
    let _ccm = Ccm::start(&environment)?;
    // However long it was: it goes on, in another order.
    for (number, service) in services.iter().enumerate().take(11).rev() {
        let ip = format!("192.0.2.{}", number + 1);
        environment
            .allocate(&environment.mirror_name(service), &json!([{ "ip": ip }]))
            .await?;
    }
    for number in 0..11 {
        let ip = format!("192.0.2.{}", number + 1);
        environment
            .addresses(&format!("web-{number}"), &[&ip])
            .await?;
    }
    assert_eq!(
        environment
            .mirrors()
            .list(&ListParams::default())
            .await?
            .items
            .len(),
        11
    );
    Ok(())
}
