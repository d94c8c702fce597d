//! Needs: operator
//!
//! Tenant clusters without address ranges are given ones that no other has, and keep them.

use anyhow::{Result, ensure};
use ipnet::IpNet;
use suites::{
    cluster::{Tenant, wait::wait_for},
    scenario::{self, PATIENCE},
};

#[tokio::test]
async fn tenants_created_together_are_given_disjoint_ranges() {
    scenario::run("ranges", ranges).await;
}

async fn ranges(s: &scenario::Scenario) -> Result<()> {
    let mut tenants = Vec::new();
    for name in ["one", "two", "three"] {
        tenants.push(s.tenant(name, |_| {}).await?);
    }
    let mut all: Vec<(String, IpNet)> = Vec::new();
    for tenant in &tenants {
        for range in given(tenant).await? {
            let meets = |other: &IpNet| other.contains(&range) || range.contains(other);
            for (owner, other) in &all {
                ensure!(
                    !meets(other),
                    "{} of {} meets {other} of {owner}",
                    range,
                    tenant.name
                );
            }
            all.push((tenant.name.clone(), range));
        }
    }
    ensure!(all.len() == 6, "{all:?}");
    // What is in force is what was given, and it does not change once the tenant runs.
    let first = given(&tenants[0]).await?;
    tenants[0].settled(PATIENCE).await?;
    ensure!(given(&tenants[0]).await? == first, "the ranges changed");
    let admin = tenants[0].admin(PATIENCE).await?;
    let services: kube::Api<k8s_openapi::api::core::v1::Service> =
        kube::Api::namespaced(admin, "default");
    let what = "has an address in the tenant cluster";
    let address = wait_for(&services, "kubernetes", what, PATIENCE, |service| {
        service.spec.as_ref()?.cluster_ip.clone()
    })
    .await?;
    ensure!(
        first[1].contains(&address.parse::<std::net::IpAddr>()?),
        "{address} is not in {}",
        first[1]
    );
    Ok(())
}

/// Pods' range, Services' range.
async fn given(tenant: &Tenant) -> Result<Vec<IpNet>> {
    let network = wait_for(
        &tenant.api(),
        &tenant.name,
        "has ranges",
        PATIENCE,
        |cluster| cluster.status.as_ref()?.network.clone(),
    )
    .await?;
    Ok(vec![
        network.pod_cidr.parse()?,
        network.service_cidr.parse()?,
    ])
}
