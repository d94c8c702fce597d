//! Ranges of the management cluster that the operator finds: nodes and ServiceCIDRs that the test
//! plays, and what becomes of the workers' NetworkPolicy and of node pools.
//!
//! Invariant: every node and ServiceCIDR carries the label of the site, so that no other site sees it.

use anyhow::{Context as _, Result, ensure};
use api::{TenantCluster, names};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kit_objects::kinds::{self, Kind};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tenant_cp::settings::NetworkSettings;
use testkit::fixtures::{wait_for, wait_gone};

use crate::support::kubevirt::KubeVirt;
use crate::support::pools::said;
use crate::support::site::{apply, tenant_namespace};
use crate::support::{Launch, Operator, PATIENCE, Site};

const REASON: &str = "ReservedRangesUnknown";
/// What every tenant cluster's workers are kept from (`network::metadata::METADATA_V4`).
const METADATA: [&str; 3] = ["100.100.100.200/32", "168.63.129.16/32", "169.254.0.0/16"];

/// An operator whose configuration names no ranges.
fn unconfigured(site: &Site) -> Result<Operator> {
    let mut launch = Launch::new(site)?;
    launch.settings.network = NetworkSettings::default();
    launch.start(site)
}

fn node_name(site: &Site, node: &str) -> String {
    format!("{node}-of-{}", site.users)
}

async fn put_node(site: &Site, node: &str, pods: &str, address: &str) -> Result<()> {
    let name = node_name(site, node);
    let object = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { names::LABEL_TENANT_NAMESPACE: site.users } },
        "spec": { "podCIDR": pods, "podCIDRs": [pods] },
    });
    apply(&site.admin, &object).await?;
    let status = json!({ "addresses": [{ "type": "InternalIP", "address": address }] });
    let patch = Patch::Merge(json!({ "status": status }));
    let nodes = site.objects(kinds::NODE, "");
    nodes
        .patch_status(&name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

async fn put_services(site: &Site, name: &str, range: &str) -> Result<()> {
    let object: ServiceCIDR = serde_json::from_value(json!({
        "metadata": {
            "name": format!("{name}-of-{}", site.users),
            "labels": { names::LABEL_TENANT_NAMESPACE: site.users },
        },
        "spec": { "cidrs": [range] },
    }))?;
    let api = Api::<ServiceCIDR>::all(site.admin.clone());
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

const POLICY: Kind = kinds::NETWORK_POLICY;

/// Waits until workers of the tenant namespace are kept from just these; gives the policy's generation.
async fn wait_reserved(site: &Site, ns: &str, ranges: &[&str]) -> Result<Option<i64>> {
    let mut wanted: Vec<&str> = ranges.iter().chain(&METADATA).copied().collect();
    wanted.sort_unstable();
    let policies: Api<DynamicObject> = site.objects(POLICY, ns);
    let is = |policy: Option<&DynamicObject>| {
        let rules = policy.map(|policy| &policy.data["spec"]["egress"]);
        let rules = rules.and_then(Value::as_array).into_iter().flatten();
        let peers = rules.filter_map(|rule| rule["to"].as_array()).flatten();
        let mut blocks = peers.map(|peer| &peer["ipBlock"]);
        blocks.any(|block| block["cidr"] == "0.0.0.0/0" && block["except"] == json!(wanted))
    };
    let found = wait_for(&policies, "workers", is, PATIENCE).await;
    let found = found.with_context(|| format!("workers are not kept from {wanted:?}"))?;
    Ok(found.and_then(|policy| policy.metadata.generation))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pools_wait_until_ranges_are_found_and_workers_are_kept_from_them() -> Result<()> {
    let Some(site) = Site::new("ranges").await? else {
        return Ok(());
    };
    let operator = unconfigured(&site)?;
    let _kubevirt = KubeVirt::start(&site);
    site.create("demo").await?;
    // Control planes go on.
    let ns = tenant_namespace(&site.wait_ready("demo").await?);
    let policies: Api<DynamicObject> = site.objects(POLICY, &ns);
    ensure!(policies.get_opt("workers").await?.is_none());

    site.create_pool("workers", 1).await?;
    let held = |pool: &api::NodePool| {
        let pool = serde_json::to_value(pool).unwrap_or_default();
        said(&pool, "Degraded") == ("True".to_owned(), REASON.to_owned())
    };
    let pool = site.wait_pool("workers", held).await?;
    let pool = serde_json::to_value(&pool)?;
    ensure!(
        said(&pool, "Ready").1 == REASON && pool.to_string().contains("config.network.reserved"),
        "{pool:#}"
    );
    site.wait_event("workers", REASON).await?;
    ensure!(site.machines_of("workers").await?.is_empty());

    put_node(&site, "a", "10.244.0.0/24", "198.51.100.10").await?;
    put_services(&site, "first", "10.97.0.0/24").await?;
    let found = ["10.244.0.0/24", "10.97.0.0/24", "198.51.100.10/32"];
    let before = wait_reserved(&site, &ns, &found).await?;
    site.wait_pool_ready("workers").await?;
    operator.settle_pool(&site, "demo", "workers").await?;

    // What changes nothing of the ranges writes nothing: a heartbeat, and another list.
    let beat = json!({ "status": { "nodeInfo": { "kernelVersion": "6.1" } } });
    let nodes = site.objects(kinds::NODE, "");
    let params = PatchParams::default();
    nodes
        .patch_status(&node_name(&site, "a"), &params, &Patch::Merge(beat))
        .await?;
    put_node(&site, "b", "10.244.1.0/24", "198.51.100.30").await?;
    let found = [
        "10.244.0.0/23",
        "10.97.0.0/24",
        "198.51.100.10/32",
        "198.51.100.30/32",
    ];
    let after = wait_reserved(&site, &ns, &found).await?;
    // Once for the address and once for the range, which come in two writes.
    let writes = after.zip(before).map(|(after, before)| after - before);
    ensure!(
        writes.is_some_and(|writes| (1..=2).contains(&writes)),
        "{writes:?}"
    );

    nodes
        .delete(&node_name(&site, "b"), &DeleteParams::default())
        .await?;
    let found = ["10.244.0.0/24", "10.97.0.0/24", "198.51.100.10/32"];
    wait_reserved(&site, &ns, &found).await?;

    // What runs keeps running where nothing is known any more, and its policy stays.
    let settled = wait_reserved(&site, &ns, &found).await?;
    nodes
        .delete(&node_name(&site, "a"), &DeleteParams::default())
        .await?;
    site.wait_pool("workers", held).await?;
    operator.reconcile(&site, "demo").await?;
    ensure!(site.machines_of("workers").await?.len() == 1);
    ensure!(wait_reserved(&site, &ns, &found).await? == settled);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_that_are_found_are_never_given_and_what_was_given_stays() -> Result<()> {
    let Some(site) = Site::new("given").await? else {
        return Ok(());
    };
    let _operator = unconfigured(&site)?;
    site.create("first").await?;
    let first = site.wait_ready("first").await?;
    let network = |cluster: &TenantCluster| {
        let status = cluster.status.clone().unwrap_or_default();
        status.network.context("it has no ranges")
    };
    let given = network(&first)?;
    // The management cluster turns out to have those very ranges, and the next ones.
    put_node(&site, "a", "10.128.0.0/17", "198.51.100.10").await?;
    put_services(&site, "first", "100.64.0.0/19").await?;
    let ns = tenant_namespace(&first);
    let found = ["10.128.0.0/17", "100.64.0.0/19", "198.51.100.10/32"];
    wait_reserved(&site, &ns, &found).await?;

    site.create("second").await?;
    let second = network(&site.wait_ready("second").await?)?;
    ensure!(
        (second.pod_cidr.as_str(), second.service_cidr.as_str())
            == ("10.128.128.0/18", "100.64.32.0/20"),
        "{second:?}"
    );
    let still = site.wait_ready("first").await?;
    ensure!(network(&still)? == given, "{still:?}");
    Ok(())
}

/// C19 of the findings: who was refused for want of a range was asked again hours later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_cluster_without_a_range_gets_one_as_soon_as_another_goes() -> Result<()> {
    let Some(site) = Site::new("last-range").await? else {
        return Ok(());
    };
    let mut launch = Launch::new(&site)?;
    launch.settings.network = serde_json::from_value(json!({
        "pods": { "cidr": "10.128.0.0/18", "prefix": 18 },
        "services": { "cidr": "100.64.0.0/20", "prefix": 20 },
        "reserved": launch.settings.network.reserved,
    }))?;
    let operator = launch.start(&site)?;
    site.create("first").await?;
    site.wait_ready("first").await?;
    site.create("second").await?;
    let refused = |cluster: &TenantCluster| {
        let mut conditions = cluster.status.iter().flat_map(|s| &s.conditions);
        conditions.any(|c| c.type_ == "Degraded" && c.reason == "AddressPoolExhausted")
    };
    site.wait("second", refused).await?;
    site.delete("first").await?;
    wait_gone(&site.clusters(), "first", PATIENCE).await?;
    site.wait_ready("second").await?;
    operator.stop().await
}
