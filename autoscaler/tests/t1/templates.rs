//! What the Cluster Autoscaler takes an empty pool for, from the fields of the NodePool to the node that it
//! is given.

use anyhow::{Context as _, Result};
use autoscaler_client::Generation;
use kube::ResourceExt as _;
use serde_json::json;

use crate::support::script::Turn;
use crate::support::{Adapter, Environment, Script};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_pool_says_of_its_nodes_is_what_they_are_taken_for() -> Result<()> {
    let Some(environment) = Environment::new("template").await? else {
        return Ok(());
    };
    let adapter = Adapter::start(&environment).await?;
    let capacity = json!({ "example.com/fpga": 2, "ephemeral-storage": "20Gi" });
    let said = json!({ "max": 3, "capacity": capacity, "architecture": "arm64" });
    let name = environment.pool("template", 0, &said).await?;
    for generation in Generation::ALL {
        let mut script = Script::new(&environment, &adapter, generation, &[&name])?;
        let seen = |turn: &Turn| turn.group(&name).is_some();
        let turn = script.until("there is a group", seen).await?;
        let id = turn.group(&name).context("it was just seen")?.id.clone();
        let node = script.protocol.template(&id).await?;
        let status = node.context("no template")?.status.context("no status")?;
        assert_eq!(status.allocatable["example.com/fpga"].string, "2");
        let disk = (20_i64 << 30).to_string();
        assert_eq!(status.capacity["ephemeral-storage"].string, disk);
        let info = status.node_info.context("nothing of the node")?;
        assert_eq!(info.architecture, "arm64");
        let label = script.protocol.gpu_label().await?;
        assert_eq!(label, "cluster-api/accelerator");
    }
    for wrong in [
        json!({ "architecture": "riscv64" }),
        json!({ "capacity": { "example.com/fpga": "two" } }),
    ] {
        let wrong = json!({ "spec": { "autoscaling": wrong } });
        assert!(environment.change(&name, &wrong).await.is_err(), "{wrong}");
    }
    let pool = environment.pools().get(&name).await?;
    assert_eq!(pool.name_any(), name);
    assert_eq!(json!(pool.spec.autoscaling)["architecture"], "arm64");
    Ok(())
}
