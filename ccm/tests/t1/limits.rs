//! What one tenant cluster may have in the management cluster, and what a flood in it may cost.

use anyhow::Result;
use ccm::limits::Limits;
use ccm::settings::Settings;
use kit_client::args::ClientArgs;
use kit_objects::kinds;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::support::{Ccm, Environment};

/// Services of a flood.
const FLOOD: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_over_the_limit_are_told_and_come_once_others_go() -> Result<()> {
    let Some(environment) = Environment::new("limits").await? else {
        return Ok(());
    };
    let limits = Limits {
        services: 3,
        ports: 4,
        ..Limits::default()
    };
    let settings = Settings {
        limits,
        ..environment.settings()
    };
    let ccm = Ccm::with(&environment, settings, &testkit::FaultPlan::none())?;
    let mut services = Vec::new();
    for number in 0..3 {
        let service = environment
            .service(&format!("web-{number}"), &json!({}))
            .await?;
        environment.mirror(&service, |_| true).await?;
        services.push(service);
    }
    let over = environment.service("over", &json!({})).await?;
    let told = environment.event("TooManyLoadBalancers").await?;
    assert!(told.contains("as it may have (3)"), "{told}");
    assert!(told.contains("delete a Service"), "{told}");
    ccm.manager.context.queue.idle().await;
    let all = environment.mirrors().list(&ListParams::default()).await?;
    assert_eq!(all.items.len(), 3);

    // Ports of one that has a load balancer count as well.
    let ports: Vec<_> = (80..85)
        .map(|port| json!({ "name": format!("p{port}"), "port": port, "protocol": "TCP" }))
        .collect();
    environment
        .change("web-0", &json!({ "spec": { "ports": ports } }))
        .await?;
    environment
        .note("TooManyLoadBalancers", "keeps the ports that it has")
        .await?;
    let mirror = environment.mirror(&services[0], |_| true).await?;
    assert_eq!(mirror.spec.unwrap().ports.unwrap().len(), 1);

    // Nobody looks again but because of this.
    environment
        .services()
        .delete("web-1", &DeleteParams::default())
        .await?;
    environment.mirror(&over, |_| true).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flood_of_services_does_not_keep_a_lost_machine_in_load_balancers() -> Result<()> {
    let Some(environment) = Environment::new("flood").await? else {
        return Ok(());
    };
    // So slow that the flood is not done with while the test runs.
    let slow = ClientArgs {
        qps: 0.5,
        burst: 80,
        ..ClientArgs::default()
    };
    let _ccm = Ccm::limited(&environment, &slow)?;
    let (_, first) = environment.serving_by_two().await?;
    let mut mirrors = vec![first];
    for number in 0..9 {
        let service = environment
            .service(&format!("early-{number}"), &json!({}))
            .await?;
        let mirror = environment.mirror_name(&service);
        environment
            .ready(&mirror, &["10.5.0.1", "10.5.0.2"])
            .await?;
        mirrors.push(mirror);
    }
    let window = environment.management.audit().window()?;
    for number in 0..FLOOD {
        environment
            .service(&format!("flood-{number}"), &json!({}))
            .await?;
    }
    environment
        .delete(kinds::VIRTUAL_MACHINE_INSTANCE, "a")
        .await?;
    for mirror in &mirrors {
        environment.ready(mirror, &["10.5.0.2"]).await?;
    }
    // Judged by the order of what the API was sent, not by how long it took.
    let writes = window.writes_of(&environment.user())?;
    let of_flood = writes.iter().filter(|write| write.kind == "services");
    let made = of_flood.count();
    assert!(made < FLOOD / 2, "{made} Services came first");
    let there = environment.mirrors().list(&ListParams::default()).await?;
    assert!(there.items.len() < mirrors.len() + FLOOD / 2);
    let slices = writes
        .iter()
        .filter(|write| write.kind == "discovery.k8s.io/endpointslices");
    let changed = slices.count();
    assert!(changed >= mirrors.len(), "{changed} slices were written");
    Ok(())
}
