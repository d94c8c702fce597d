//! A pool that replaces its machines: its nodes are kept from the Cluster Autoscaler for as long.

use anyhow::Result;
use api::names::{
    ANNOTATION_SCALE_DOWN_DISABLED as DISABLED, ANNOTATION_SCALE_DOWN_DISABLED_BY as BY,
};
use autoscaler_client::Generation;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::support::script::Turn;
use crate::support::{Adapter, Environment, FakeOperator, Mode, Script};

fn has(node: &Node, annotation: &str) -> bool {
    node.annotations().contains_key(annotation)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_rolling_pool_are_not_given_back_and_those_of_users_stay_marked() -> Result<()> {
    let Some(environment) = Environment::with_nodes("rollout").await? else {
        return Ok(());
    };
    let (operator, adapter) = (
        FakeOperator::start(&environment),
        Adapter::start(&environment).await?,
    );
    let name = environment.pool("roll", 2, &json!({ "max": 3 })).await?;
    let mut script = Script::new(&environment, &adapter, Generation::New, &[&name])?;
    script.wait_for_room(2, 1500);
    let two = |turn: &Turn| turn.nodes.len() == 2;
    let turn = script.until("two nodes are there", two).await?;
    let [ours, theirs] = [&turn.nodes[0].name, &turn.nodes[1].name];
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { DISABLED: "true" } } }));
    environment
        .nodes()
        .patch(theirs, &PatchParams::default(), &patch)
        .await?;

    operator.set(&name, Mode::Rolls);
    let marked = |node: &Node| has(node, DISABLED) && has(node, BY);
    environment.until_node(ours, marked).await?;
    script.waiting.clear();
    // A loop that sees nobody is needed, and takes nobody.
    let before = script.done.len();
    let kept = script.until("nothing is done", |turn| turn.said.is_empty());
    kept.await?;
    assert_eq!(script.done.len(), before, "{:?}", script.done);

    operator.set(&name, Mode::Works);
    let unmarked = |turn: &Turn| turn.nodes.len() == 1 && turn.target(&name) == Some(1);
    script
        .until("the node that nobody forbade is gone", unmarked)
        .await?;
    let node = environment.until_node(theirs, |_| true).await?;
    assert!(has(&node, DISABLED) && !has(&node, BY));
    Ok(())
}
