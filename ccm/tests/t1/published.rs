//! Addresses of machines, where the operator publishes them: what a guest says of itself leads nothing.
//!
//! Invariant: findings D3 and S2.

use anyhow::Result;
use api::machine_addresses::{self, PublishedAddresses};
use ccm::settings::{MachineAddresses, Settings};
use k8s_openapi::api::core::v1::Node;
use kit_objects::kinds;
use kube::ResourceExt;
use serde_json::json;
use testkit::FaultPlan;

use crate::support::environment::{apply, registered};
use crate::support::{Ccm, Environment};

impl Environment {
    pub(crate) fn published(&self) -> Settings {
        Settings {
            machine_addresses: MachineAddresses::Published,
            ..self.settings()
        }
    }

    /// Publishes the addresses of these machines, as the operator does, and of no others.
    pub(crate) async fn publish(&self, machines: &[(&str, &str)]) -> Result<()> {
        let instances =
            kit_client::untyped::of(kinds::VIRTUAL_MACHINE_INSTANCE, &self.admin, Some(&self.ns));
        let mut all = serde_json::Map::new();
        for (machine, address) in machines {
            let of_it = PublishedAddresses {
                instance: instances.get(machine).await?.uid().unwrap_or_default(),
                node: "host".to_owned(),
                addresses: vec![address.parse()?],
            };
            let change = machine_addresses::change(machine, None, Some(&of_it));
            all.extend(change.as_object().cloned().unwrap_or_default());
        }
        let object = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "MachineAddresses",
            "metadata": { "name": machine_addresses::NAME, "namespace": self.ns },
            "spec": { "addresses": all },
        });
        apply(&self.admin, &object).await
    }
}

fn internal(node: &Node) -> Vec<String> {
    let status = node.status.as_ref();
    let addresses = status.and_then(|status| status.addresses.clone());
    let addresses = addresses.unwrap_or_default().into_iter();
    let internal = addresses.filter(|address| address.type_ == "InternalIP");
    internal.map(|address| address.address).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_guests_report_reaches_neither_slices_nor_nodes() -> Result<()> {
    let Some(environment) = Environment::new("published").await? else {
        return Ok(());
    };
    let ccm = Ccm::with(&environment, environment.published(), &FaultPlan::none())?;
    environment.machine("a", &["10.5.0.1"]).await?;
    environment.machine("b", &["10.96.0.1", "fd00::1"]).await?;
    let machines = [("a", "10.5.0.1"), ("b", "10.5.0.2")];
    environment.publish(&machines).await?;
    environment.node("a").await?;
    environment.node("b").await?;
    let service = environment.service("web", &json!({})).await?;
    let mirror = environment.mirror_name(&service);
    environment
        .ready(&mirror, &["10.5.0.1", "10.5.0.2"])
        .await?;
    let b = environment.wait_node("b", |n| !internal(n).is_empty());
    assert_eq!(internal(&b.await?), ["10.5.0.2"]);

    // Another guest says that it is somewhere else; that it was seen is shown by what is said after it.
    environment.instance("a", &["192.0.2.66"]).await?;
    environment.instance("b", &["192.0.2.67"]).await?;
    environment.worker("c", &["10.5.0.9"]).await?;
    let machines = [("a", "10.5.0.1"), ("b", "10.5.0.2"), ("c", "10.5.0.3")];
    environment.publish(&machines).await?;
    let all = ["10.5.0.1", "10.5.0.2", "10.5.0.3"];
    environment.ready(&mirror, &all).await?;
    let a = environment.nodes().get("a").await?;
    assert_eq!(internal(&a), ["10.5.0.1"]);

    // Somebody takes away what was published: nothing is concluded from it, also not by another ccm.
    let published = kinds::MACHINE_ADDRESSES;
    let lost = environment.delete(published, machine_addresses::NAME);
    lost.await?;
    environment.node_ready("b", "False").await?;
    environment
        .ready(&mirror, &["10.5.0.1", "10.5.0.3"])
        .await?;
    drop(ccm);
    let _ccm = Ccm::with(&environment, environment.published(), &FaultPlan::none())?;
    environment.node_ready("b", "True").await?;
    environment.publish(&machines).await?;
    environment.ready(&mirror, &all).await
}

/// What the operator says of a machine that is no virtual machine.
async fn tell(environment: &Environment, state: &str) -> Result<()> {
    let object = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "MachineAddresses",
        "metadata": { "name": machine_addresses::NAME, "namespace": environment.ns },
        "spec": { "machines": { "far": {
            "providerID": "static://rack-a-1/far", "addresses": ["192.0.2.10"], "zone": "rack-a", "state": state,
            "since": "2026-11-26T12:00:00Z",
        } } },
    });
    apply(&environment.admin, &object).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_a_machine_elsewhere_lives_by_what_the_operator_says_of_it() -> Result<()> {
    let Some(environment) = Environment::new("elsewhere").await? else {
        return Ok(());
    };
    let _ccm = Ccm::with(&environment, environment.published(), &FaultPlan::none())?;
    let kubelet = serde_json::from_value(registered("far"))?;
    environment
        .nodes()
        .create(&Default::default(), &kubelet)
        .await?;
    // Told of by nobody; it is known that it was looked at once another one is done.
    environment.worker("near", &["10.5.0.1"]).await?;
    environment.publish(&[("near", "10.5.0.1")]).await?;
    let has_id = |node: &Node| node.spec.as_ref().is_some_and(|s| s.provider_id.is_some());
    environment.wait_node("near", has_id).await?;
    let far = environment.nodes().get("far").await?;
    assert!(!has_id(&far), "{far:?}");
    tell(&environment, "Present").await?;
    let far = environment.wait_node("far", has_id).await?;
    let spec = far.spec.clone().unwrap_or_default();
    assert_eq!(spec.provider_id.as_deref(), Some("static://rack-a-1/far"));
    // The API server adds one of its own.
    let mut taints = spec.taints.into_iter().flatten();
    assert!(!taints.any(|taint| taint.key == ccm::names::TAINT_UNINITIALIZED));
    assert_eq!(internal(&far), ["192.0.2.10"]);
    assert_eq!(far.labels()[ccm::names::TOPOLOGY[0][0]], "rack-a");

    // The entry is lost: nothing follows. Then it is proven that the machine is gone.
    environment.node_ready("far", "Unknown").await?;
    let published = kinds::MACHINE_ADDRESSES;
    environment
        .delete(published, machine_addresses::NAME)
        .await?;
    tell(&environment, "Stopped").await?;
    let stopped = |node: &Node| {
        let taints = node.spec.as_ref().and_then(|s| s.taints.as_ref());
        taints
            .into_iter()
            .flatten()
            .any(|taint| taint.key == ccm::names::TAINT_SHUTDOWN)
    };
    let still = environment.wait_node("far", stopped).await?;
    assert_eq!(still.uid(), far.uid());
    tell(&environment, "Gone").await?;
    testkit::fixtures::wait_gone(&environment.nodes(), "far", crate::support::PATIENCE).await?;
    environment.event("DeletingNode").await.map(drop)
}
