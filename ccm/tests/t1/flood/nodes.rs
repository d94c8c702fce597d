//! Thousands of Nodes that claim one machine, which dies.
//!
//! Invariant: they are written as the program itself would leave them, so none of them gives it anything to do
//! before.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};
use ccm::names;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kit_client::args::{TENANT_BURST, TENANT_QPS};
use kit_objects::kinds;
use serde_json::{Value, json};
use testkit::fixtures::{PATIENCE, ask_until};
use testkit::waiting::{Seen, Watched};

use super::{BEFORE, lead_to, with_load_balancers};
use crate::support::program::Admin;
use crate::support::{Environment, Program};

/// Nodes that claim the machine `a`.
const NODES: usize = 5_000;

/// Nodes as the tenant's API server would keep them, with their keys in etcd.
fn forged(numbers: std::ops::Range<usize>) -> Vec<(String, Value)> {
    let values = ["zone-a", "here", "small"];
    let topology = names::TOPOLOGY.iter().zip(values);
    let labels: BTreeMap<_, _> = topology
        .flat_map(|(keys, value)| keys.iter().map(move |key| (*key, value)))
        .collect();
    let one = |number: usize| {
        let name = format!("forged-{number}");
        let addresses = json!([
            { "type": "InternalIP", "address": "10.5.0.1" },
            { "type": "Hostname", "address": name },
        ]);
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "uid": testkit::names::uid(), "labels": labels,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": { "providerID": "kubevirt://a" },
            "status": {
                "addresses": addresses,
                "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }],
            },
        });
        (format!("/registry/minions/{name}"), node)
    };
    numbers.map(one).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_nodes_that_claim_a_dead_machine_use_up_nothing_of_what_takes_it_out()
-> Result<()> {
    let Some(environment) = Environment::new("forged").await? else {
        return Ok(());
    };
    let slices = Watched::start(environment.slices());
    with_load_balancers(&environment, &slices).await?;
    let mut program = Program::start(&environment, "paced", &[])?;
    program.rest(BEFORE, PATIENCE).await?;
    let admin = program.admin();
    tokio::select! {
        judged = is_taken_out(&environment, &slices, &admin) => judged,
        kept = program.keep() => match kept? {},
    }
}

/// Has thousands of Nodes claim the machine `a`, and it die.
async fn is_taken_out(
    environment: &Environment,
    slices: &Watched<EndpointSlice>,
    admin: &Admin,
) -> Result<()> {
    let nodes = forged(0..NODES);
    environment.tenant.etcd().write(&nodes).await?;
    ask_until("all Nodes were looked at", PATIENCE, || async {
        let Ok(state) = admin.state().await else {
            return Ok(Err("no admin port".to_owned()));
        };
        let all = NODES + 2;
        Ok(match state["nodes"] == all && state["queued"] == 0 {
            true => Ok(()),
            false => Err(state.to_string()),
        })
    })
    .await?;
    let before = environment.slices().list(&Default::default()).await?;
    let endpoints = before.items.iter().map(|slice| slice.endpoints.len());
    ensure!(endpoints.max() == Some(2), "one machine is one endpoint");

    let window = environment.management.audit().window()?;
    let begin = Instant::now();
    let off = json!({ "created": false });
    environment.vm_status("a", &off).await?;
    let instance = kinds::VIRTUAL_MACHINE_INSTANCE;
    environment.delete(instance, "a").await?;
    let out = |seen: &Seen<_>| lead_to(seen, BEFORE, &["10.5.0.2"]);
    slices
        .until("none leads to the dead machine", PATIENCE, out)
        .await?;
    let took = begin.elapsed();
    eprintln!("a dead machine was out after {took:.1?}");
    // Each load balancer is urgent, and one question about the machine. That each of its Nodes has been looked at
    // is not waited for: it takes minutes.
    ask_until("Nodes are looked at", PATIENCE, || async {
        let counts = window.counts(&environment.user())?;
        let asked = counts.iter().filter(|((verb, _), _)| verb == "get");
        let asked: usize = asked.map(|(_, count)| count).sum();
        Ok(match asked > 100 {
            true => Ok(()),
            false => Err(format!("{asked} questions")),
        })
    })
    .await?;
    let urgent = u32::try_from(BEFORE)? + 1;
    window.assert_paced(&environment.user(), TENANT_QPS, TENANT_BURST + urgent)
}
