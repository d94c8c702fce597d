//! One Service with every node port that a tenant cluster has, and one with as many as the platform gives.
//!
//! Invariant: node ports of the management cluster, of which all tenants together have as many as one tenant
//! cluster has, are taken up to the limit and never beyond.

use anyhow::{Result, ensure};
use ccm::limits::MAX_PORTS;
use k8s_openapi::api::core::v1::Service;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use testkit::fixtures::{PATIENCE, wait_gone};
use testkit::waiting::{Seen, Watched};

use super::NODE_PORTS;
use crate::support::{Ccm, Environment, Program};

fn ports(count: usize) -> Value {
    (1..=count)
        .map(|port| json!({ "name": format!("p{port}"), "port": port, "protocol": "TCP" }))
        .collect()
}

/// Node ports of the management cluster that these have.
fn taken(mirrors: &Seen<Service>) -> usize {
    let specs = mirrors
        .all
        .values()
        .filter_map(|mirror| mirror.spec.as_ref());
    let ports = specs.flat_map(|spec| spec.ports.iter().flatten());
    ports.filter(|port| port.node_port.is_some()).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_port_of_a_tenant_cluster_in_one_service_takes_none_of_the_platforms_and_is_told()
-> Result<()> {
    let Some([hostile, victim]) = Environment::pair(["ports", "besides"]).await? else {
        return Ok(());
    };
    let (program, neighbour) = (
        Program::start(&hostile, "ports", &[])?,
        Ccm::paced(&victim)?,
    );
    victim.worker("v", &["10.6.0.1"]).await?;
    hostile.worker("a", &["10.5.0.1"]).await?;
    let mirrors = Watched::start(hostile.mirrors());
    let all = hostile
        .service("all", &json!({ "ports": ports(NODE_PORTS) }))
        .await?;
    let told = hostile.event("TooManyLoadBalancers").await?;
    ensure!(
        told.contains("with the 2768 ports of this Service"),
        "{told}"
    );
    ensure!(
        told.contains("more than the 1000 that they may have"),
        "{told}"
    );
    ensure!(!told.contains(&hostile.ns), "{told}");
    program.rest(1, PATIENCE).await?;
    ensure!(mirrors.read(taken) == 0, "a part of it is mapped");
    let later = victim.service("later", &json!({})).await?;
    victim
        .ready(&victim.mirror_name(&later), &["10.6.0.1"])
        .await?;

    // It makes room for one that has just as many as there are, and for others then there is none.
    let services = hostile.services();
    services.delete("all", &DeleteParams::default()).await?;
    wait_gone(&services, "all", PATIENCE).await?;
    let most = hostile
        .service("most", &json!({ "ports": ports(MAX_PORTS) }))
        .await?;
    hostile
        .ready(&hostile.mirror_name(&most), &["10.5.0.1"])
        .await?;
    let more = hostile.service("more", &json!({})).await?;
    program.rest(2, PATIENCE).await?;
    ensure!(mirrors.read(taken) == MAX_PORTS);
    // It grows beyond, and keeps what it has.
    let grown = json!({ "spec": { "ports": ports(NODE_PORTS - 1) } });
    hostile.change("most", &grown).await?;
    let note = hostile.note("TooManyLoadBalancers", "keeps the ports that it has");
    note.await?;
    program.rest(2, PATIENCE).await?;
    ensure!(mirrors.read(taken) == MAX_PORTS);
    // A port of it is worth another one's load balancer.
    let fewer = json!({ "spec": { "ports": ports(MAX_PORTS - 1) } });
    hostile.change("most", &fewer).await?;
    hostile
        .ready(&hostile.mirror_name(&more), &["10.5.0.1"])
        .await?;
    ensure!(mirrors.read(taken) == MAX_PORTS);
    let gone = hostile
        .mirrors()
        .get_opt(&hostile.mirror_name(&all))
        .await?;
    ensure!(gone.is_none());
    neighbour.rest().await;
    let left = victim.mirrors().list(&Default::default()).await?;
    ensure!(left.items.len() == 1);
    Ok(())
}
