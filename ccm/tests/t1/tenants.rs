//! Tenant clusters never meet, also where they should not be together at all.

use anyhow::Result;
use kube::api::ListParams;
use serde_json::json;
use testkit::fixtures::wait_gone;

use crate::support::{Ccm, Environment, PATIENCE};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tenants_with_the_same_service_names_do_not_meet_in_one_namespace() -> Result<()> {
    let Some([one, two]) = Environment::together("meet").await? else {
        return Ok(());
    };
    let _both = (Ccm::start(&one)?, Ccm::start(&two)?);
    let mut names = Vec::new();
    for (environment, ip) in [(&one, "192.0.2.1"), (&two, "192.0.2.2")] {
        let service = environment.service("web", &json!({})).await?;
        let name = environment.mirror_name(&service);
        environment.mirror(&service, |_| true).await?;
        environment.allocate(&name, &json!([{ "ip": ip }])).await?;
        environment.addresses("web", &[ip]).await?;
        names.push(name);
    }
    assert_ne!(names[0], names[1]);
    one.services().delete("web", &Default::default()).await?;
    wait_gone(&one.services(), "web", PATIENCE).await?;
    let left = two.mirrors().list(&ListParams::default()).await?;
    let left: Vec<_> = left
        .items
        .into_iter()
        .filter_map(|m| m.metadata.name)
        .collect();
    assert_eq!(left, names[1..]);
    two.addresses("web", &["192.0.2.2"]).await
}
