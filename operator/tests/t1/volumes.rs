//! Volumes of etcd that are asked to grow, at a real API server, which lets those of no class grow.
//!
//! Invariant: what cannot grow is told and held against nothing else, and the wish can be taken back.

use anyhow::Result;
use api::TenantCluster;
use serde_json::json;

use crate::support::operator::Operator;
use crate::support::site::{Site, is_settled};

/// Finding C4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volume_that_may_not_grow_is_told_and_the_wish_is_taken_back() -> Result<()> {
    let Some(site) = Site::new("grows").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    let size = |size: &str| json!({ "spec": { "etcd": { "storage": { "size": size } } } });
    let says = |cluster: &TenantCluster, type_: &str, value: &str, message: &str| {
        let conditions = cluster.status.iter().flat_map(|s| &s.conditions);
        let mut conditions = conditions.filter(|c| c.type_ == type_);
        conditions.any(|c| c.status == value && c.message.contains(message))
    };
    site.change("demo", &size("8Gi")).await?;
    let told = |cluster: &TenantCluster| says(cluster, "Degraded", "True", "allowVolumeExpansion");
    let cluster = site.wait("demo", told).await?;
    assert!(says(&cluster, "Ready", "True", ""), "{:#?}", cluster.status);
    site.change("demo", &size("2Gi")).await?;
    let mended =
        |cluster: &TenantCluster| says(cluster, "Degraded", "False", "") && is_settled(cluster);
    site.wait("demo", mended).await?;
    Ok(())
}
