//! Room in the management cluster: nodes, pods and quotas that the test plays, and what node pools say
//! about them.
//!
//! Invariant: everything about room carries the label of the site, so that no other site sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use api::{ConditionType, NodePool, names};
use kit_objects::kinds;
use kube::Api;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::FaultPlan;
use testkit::faults::Answer;

use super::World;
use crate::support::pools::{pool, said};
use crate::support::site::apply;

impl World {
    fn node_name(&self) -> String {
        format!("node-of-{}", self.site.users)
    }

    fn nodes(&self) -> Api<DynamicObject> {
        self.site.objects(kinds::NODE, "")
    }

    async fn change_status(
        &self,
        objects: &Api<DynamicObject>,
        name: &str,
        status: Value,
    ) -> Result<()> {
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        objects.patch_status(name, &params, &patch).await?;
        Ok(())
    }

    /// The site's only node.
    async fn put_node(&self, memory: &str) -> Result<()> {
        let name = self.node_name();
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": {
            "kubevirt.io/schedulable": "true", names::LABEL_TENANT_NAMESPACE: self.site.users,
        } } });
        apply(&self.site.admin, &node).await?;
        let allocatable =
            json!({ "cpu": "4", "memory": memory, "pods": "10", "ephemeral-storage": "90Gi" });
        self.change_status(&self.nodes(), &name, json!({ "allocatable": allocatable }))
            .await?;
        // The API server taints a new node until somebody says that it is ready.
        self.change_node(json!({ "spec": { "taints": null } }))
            .await
    }

    async fn change_node(&self, change: Value) -> Result<()> {
        let params = PatchParams::default();
        let patch = Patch::Merge(change);
        self.nodes()
            .patch(&self.node_name(), &params, &patch)
            .await?;
        Ok(())
    }

    /// A pod of somebody else on the node.
    async fn put_taker(&self, memory: &str) -> Result<Api<DynamicObject>> {
        let namespace = &self.site.users;
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": "taker", "namespace": namespace } });
        apply(&self.site.admin, &account).await?;
        let container = json!({ "name": "taker", "image": "example.com/taker",
            "resources": { "requests": { "cpu": "1", "memory": memory } } });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "taker", "namespace": namespace,
                "labels": { names::LABEL_TENANT_NAMESPACE: namespace } },
            "spec": { "nodeName": self.node_name(), "serviceAccountName": "taker",
                "automountServiceAccountToken": false, "containers": [container] },
        });
        apply(&self.site.admin, &pod).await?;
        Ok(self.site.objects(kinds::POD, namespace))
    }

    /// Waits until a pool says this about room; gives the message.
    async fn wait_room(&self, name: &str, wanted: (&str, &str)) -> Result<String> {
        let type_ = ConditionType::Capacity.as_str();
        let is = |pool: &NodePool| {
            let pool = serde_json::to_value(pool).unwrap_or_default();
            let (status, reason) = said(&pool, type_);
            (status.as_str(), reason.as_str()) == wanted
        };
        let found = self.site.wait_pool(name, is).await;
        let found = found.with_context(|| format!("{name} does not say {wanted:?}"))?;
        let mut conditions = found
            .status
            .into_iter()
            .flat_map(|status| status.conditions);
        let condition = conditions.find(|c| c.type_ == type_);
        condition.map(|c| c.message).context("it was just there")
    }

    async fn version_of(&self, pool: &str) -> Result<Option<String>> {
        Ok(self.site.pools().get(pool).await?.resource_version())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_follows_the_room_for_one_machine_more_and_another_is_not_touched() -> Result<()> {
    let Some(world) = World::new("room").await? else {
        return Ok(());
    };
    let site = &world.site;
    world.put_node("4Gi").await?;
    site.create_pool("workers", 1).await?;
    let mut large = pool(site, "large", 1);
    large["spec"]["provider"] = json!({ "kubevirt": { "cpu": 1, "memory": "8Gi" } });
    apply(&site.admin, &large).await?;
    world.wait_room("workers", ("True", "Fits")).await?;
    world.wait_room("large", ("False", "NoRoom")).await?;
    for name in ["workers", "large"] {
        // What is said keeps no machine from being made.
        site.wait_pool_ready(name).await?;
        world.operator.settle_pool(site, "demo", name).await?;
    }
    let untouched = world.version_of("large").await?;

    let pods = world.put_taker("3584Mi").await?;
    let message = world.wait_room("workers", ("False", "NoRoom")).await?;
    assert!(
        message.contains("1264Mi of memory") && message.contains("3000m, 512Mi"),
        "{message}"
    );
    world
        .change_status(&pods, "taker", json!({ "phase": "Succeeded" }))
        .await?;
    world.wait_room("workers", ("True", "Fits")).await?;
    let cordon = |on: bool| json!({ "spec": { "unschedulable": on } });
    world.change_node(cordon(true)).await?;
    let message = world.wait_room("workers", ("False", "NoRoom")).await?;
    assert!(
        message.contains("kubevirt.io/schedulable=true"),
        "{message}"
    );
    world.change_node(cordon(false)).await?;
    world.wait_room("workers", ("True", "Fits")).await?;

    // What makes no difference costs no write.
    world.operator.settle_pool(site, "demo", "workers").await?;
    let window = site.api.audit().window()?;
    pods.delete("taker", &DeleteParams::default().grace_period(0))
        .await?;
    world.put_taker("512Mi").await?;
    for name in ["workers", "large"] {
        world.operator.reconcile_pool(site, name).await?;
    }
    window.assert_no_writes(&site.user())?;
    assert_eq!(world.version_of("large").await?, untouched);
    assert_eq!(world.names().await?.len(), 1);
    world
        .nodes()
        .delete(&world.node_name(), &DeleteParams::default())
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_out_of_quota_says_so_before_its_machine_exists() -> Result<()> {
    let refuses = Arc::new(AtomicBool::new(true));
    let refused = Arc::clone(&refuses);
    let refusal = Answer::status(422).when(move |info| {
        let made = info.verb == "create" && info.resource == "machines";
        made && refused.load(Ordering::SeqCst)
    });
    let plan = FaultPlan::none().answering(refusal);
    let Some(world) = World::with_faults("quota", &plan).await? else {
        return Ok(());
    };
    let (site, ns) = (&world.site, &world.ns);
    world.put_node("64Gi").await?;
    let hard = json!({ "requests.memory": "4Gi" });
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "team", "namespace": ns,
            "labels": { names::LABEL_TENANT_NAMESPACE: site.users } },
        "spec": { "hard": hard },
    });
    apply(&site.admin, &quota).await?;
    let quotas = site.objects(kinds::RESOURCE_QUOTA, ns);
    let counted = |used: &str| json!({ "hard": hard, "used": { "requests.memory": used } });
    world.change_status(&quotas, "team", counted("3Gi")).await?;

    site.create_pool("workers", 1).await?;
    let message = world
        .wait_room("workers", ("False", "QuotaExhausted"))
        .await?;
    let named = format!("ResourceQuota {ns}/team");
    assert!(
        message.contains(&named) && message.contains("3Gi of 4Gi"),
        "{message}"
    );
    assert!(world.names().await?.is_empty());
    refuses.store(false, Ordering::SeqCst);
    world.operator.reconcile_pool(site, "workers").await?;
    world.settle().await?;
    assert_eq!(world.names().await?.len(), 1);
    world
        .wait_room("workers", ("False", "QuotaExhausted"))
        .await?;

    world.change_status(&quotas, "team", counted("1Gi")).await?;
    world.wait_room("workers", ("True", "Fits")).await?;
    world.change_status(&quotas, "team", counted("4Gi")).await?;
    world
        .wait_room("workers", ("False", "QuotaExhausted"))
        .await?;
    quotas.delete("team", &DeleteParams::default()).await?;
    world.wait_room("workers", ("True", "Fits")).await?;
    world
        .nodes()
        .delete(&world.node_name(), &DeleteParams::default())
        .await?;
    Ok(())
}
