//! Nodes follow their machines.

use anyhow::Result;
use ccm::names;
use k8s_openapi::api::core::v1::Node;
use kit_objects::kinds;
use kube::ResourceExt;
use serde_json::json;
use testkit::fixtures::wait_gone;

use crate::support::{Ccm, Environment, PATIENCE, environment::apply};

fn is_tainted(node: &Node, key: &str) -> bool {
    let taints = node.spec.as_ref().and_then(|s| s.taints.as_ref());
    taints.into_iter().flatten().any(|t| t.key == key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_lives_with_its_machine_from_its_first_taint_to_its_deletion() -> Result<()> {
    let Some(environment) = Environment::new("node").await? else {
        return Ok(());
    };
    let _ccm = Ccm::start(&environment)?;
    let made = environment.node("a").await?;
    environment.machine("a", &["10.5.0.1", "fd00::1"]).await?;
    let node = environment
        .wait_node("a", |n| !is_tainted(n, names::TAINT_UNINITIALIZED))
        .await?;
    for key in names::TOPOLOGY.iter().flat_map(|keys| keys.iter()) {
        assert!(node.labels().contains_key(*key), "{key}");
    }
    let addresses = node
        .status
        .as_ref()
        .and_then(|s| s.addresses.clone())
        .unwrap();
    let addresses: Vec<_> = addresses
        .iter()
        .map(|a| (a.type_.as_str(), a.address.as_str()))
        .collect();
    let expected = [
        ("InternalIP", "10.5.0.1"),
        ("InternalIP", "fd00::1"),
        ("Hostname", "a"),
    ];
    assert_eq!(addresses, expected);
    assert_eq!(
        node.spec.as_ref().unwrap().provider_id.as_deref(),
        Some("kubevirt://a")
    );

    // Stopped: tainted, proven off, and still the same node.
    environment.node_ready("a", "Unknown").await?;
    environment
        .delete(kinds::VIRTUAL_MACHINE_INSTANCE, "a")
        .await?;
    environment
        .wait_node("a", |n| is_tainted(n, names::TAINT_SHUTDOWN))
        .await?;
    environment
        .vm_status("a", &json!({ "created": false }))
        .await?;
    environment
        .wait_node("a", |n| is_tainted(n, names::TAINT_OUT_OF_SERVICE))
        .await?;
    // Started: in service at once, and not shut down once the kubelet reports.
    environment
        .vm_status("a", &json!({ "created": true }))
        .await?;
    environment.instance("a", &["10.5.0.7"]).await?;
    environment
        .wait_node("a", |n| !is_tainted(n, names::TAINT_OUT_OF_SERVICE))
        .await?;
    environment.node_ready("a", "True").await?;
    let back = environment
        .wait_node("a", |n| {
            let addresses = n.status.as_ref().and_then(|s| s.addresses.as_ref());
            !is_tainted(n, names::TAINT_SHUTDOWN)
                && addresses.is_some_and(|a| a.iter().any(|a| a.address == "10.5.0.7"))
        })
        .await?;
    assert_eq!(back.uid(), made.uid());

    // Gone: first the virtual machine only, which is not enough.
    environment.node_ready("a", "Unknown").await?;
    environment.delete(kinds::VIRTUAL_MACHINE, "a").await?;
    environment.node("b").await?;
    environment.machine("b", &["10.5.0.2"]).await?;
    environment
        .wait_node("b", |n| !is_tainted(n, names::TAINT_UNINITIALIZED))
        .await?;
    assert_eq!(environment.nodes().get("a").await?.uid(), made.uid());
    environment
        .delete(kinds::VIRTUAL_MACHINE_INSTANCE, "a")
        .await?;
    wait_gone(&environment.nodes(), "a", PATIENCE).await?;
    environment.event("DeletingNode").await?;
    Ok(())
}

/// The kubelet's Lease, renewed.
async fn renew(environment: &Environment, node: &str, time: &str) -> Result<()> {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": node, "namespace": names::NAMESPACE_LEASES },
        "spec": { "holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": time },
    });
    apply(&environment.inside, &lease).await
}

fn condition(node: &Node) -> Option<(String, Option<String>)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|c| c.type_ == "Ready")?;
    Some((ready.status.clone(), ready.reason.clone()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_a_dead_machine_is_not_waited_for_and_stays_until_its_volumes_are_detached()
-> Result<()> {
    let Some(environment) = Environment::new("silent").await? else {
        return Ok(());
    };
    let _ccm = Ccm::start(&environment)?;
    for (name, address) in [("dead", "10.5.0.1"), ("heard", "10.5.0.2")] {
        environment.worker(name, &[address]).await?;
        environment
            .wait_node(name, |n| !is_tainted(n, names::TAINT_UNINITIALIZED))
            .await?;
        renew(&environment, name, "2026-11-21T10:00:00.000000Z").await?;
    }
    let volumes = json!({ "status": { "volumesAttached": [{
        "name": "kubernetes.io/csi/csi.covey.dev^vol-1", "devicePath": "",
    }] } });
    environment.node_status("dead", &volumes).await?;
    for name in ["dead", "heard"] {
        environment.delete(kinds::VIRTUAL_MACHINE, name).await?;
        environment
            .delete(kinds::VIRTUAL_MACHINE_INSTANCE, name)
            .await?;
    }
    // The kubelet of the other one renews its Lease as long as this one takes to be called silent.
    let heard = async {
        let mut renewals = tokio::time::interval(std::time::Duration::from_secs(1));
        for number in 1.. {
            renewals.tick().await;
            let time = format!("2026-11-21T10:00:00.{number:06}Z");
            renew(&environment, "heard", &time).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    let dead = environment.wait_node("dead", |n| is_tainted(n, names::TAINT_OUT_OF_SERVICE));
    let dead = tokio::select! {
        dead = dead => dead?,
        lives = heard => return lives,
    };
    let unknown = ("Unknown".to_owned(), Some("MachineIsOff".to_owned()));
    assert_eq!(condition(&dead), Some(unknown));
    let other = environment.nodes().get("heard").await?;
    assert_eq!(condition(&other).map(|c| c.0).as_deref(), Some("True"));
    assert!(!is_tainted(&other, names::TAINT_OUT_OF_SERVICE));
    environment.event("OutOfService").await?;

    let none = json!({ "status": { "volumesAttached": null } });
    environment.node_status("dead", &none).await?;
    wait_gone(&environment.nodes(), "dead", PATIENCE).await?;
    Ok(())
}
