//! What makes no sense is refused with codes that the Cluster Autoscaler survives, and one group that
//! is wrong does not hold up the others.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use api::names::ANNOTATION_AUTOSCALING_REFUSED;
use api::node_pool::Refused;
use autoscaler_client::protocol::{FakeReason, fake};
use autoscaler_client::{Generation, Protocol};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use testkit::AuditEntry;
use tonic::Code;

use crate::support::{Adapter, Environment, FakeOperator, PATIENCE, Script};

/// The code of an answer.
fn code<T>(answer: Result<T, tonic::Status>) -> Code {
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

async fn unknown(client: &mut Protocol) -> Result<()> {
    let id = "nobody.01234567";
    assert_eq!(client.target_size(id).await?, 0);
    assert_eq!(client.nodes(id).await?, []);
    assert_eq!(client.options(id, &Default::default()).await?, None);
    assert_eq!(client.template(id).await?, None);
    assert_eq!(code(client.increase(id, 1).await), Code::NotFound);
    let node = fake("kubevirt://nobody-00001", FakeReason::Unregistered);
    assert_eq!(
        code(client.delete(id, vec![node.clone()]).await),
        Code::NotFound
    );
    assert_eq!(code(client.decrease(id, -1).await), Code::Ok);
    assert_eq!(client.node_group_for_node(&node).await?, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_is_refused_and_changes_nothing() -> Result<()> {
    let Some(environment) = Environment::new("nonsense").await? else {
        return Ok(());
    };
    let (_operator, adapter) = (
        FakeOperator::start(&environment),
        Adapter::start(&environment).await?,
    );
    let name = environment
        .pool("few", 2, &json!({ "min": 2, "max": 3 }))
        .await?;
    let other = environment
        .pool("more", 1, &json!({ "min": 1, "max": 3 }))
        .await?;
    let mut script = Script::new(&environment, &adapter, Generation::New, &[&name, &other])?;
    let all = |turn: &crate::support::script::Turn| {
        turn.nodes.len() == 3 && turn.group(&name).is_some() && turn.group(&other).is_some()
    };
    let turn = script.until("all nodes are there", all).await?;
    let id = turn.group(&name).context("it was just seen")?.id.clone();
    let node_of = |pool: &str| {
        let node = turn.nodes.iter().find(|node| node.name.starts_with(pool));
        autoscaler_client::observe::external(node.unwrap())
    };
    let (own, strange) = (node_of(&name), node_of(&other));
    let window = environment.management.audit().window()?;
    let mut client = adapter.client(&environment, Generation::New)?;

    unknown(&mut client).await?;
    for delta in [0, -1, i32::MIN] {
        let answer = client.increase(&id, delta).await;
        assert_eq!(code(answer), Code::InvalidArgument, "{delta}");
    }
    for delta in [2, i32::MAX] {
        let answer = client.increase(&id, delta).await;
        assert_eq!(code(answer), Code::FailedPrecondition, "{delta}");
    }
    for delta in [0, 1] {
        let answer = client.decrease(&id, delta).await;
        assert_eq!(code(answer), Code::InvalidArgument, "{delta}");
    }
    let below = client.delete(&id, vec![own]).await;
    assert_eq!(code(below), Code::FailedPrecondition);
    let mixed = client.delete(&id, vec![strange]).await;
    assert_eq!(code(mixed), Code::InvalidArgument);

    // What is refused is noted on its pool, and nothing else is written there, or anywhere.
    let mut writes = window.writes_of(&environment.user())?;
    let is_note = |write: &AuditEntry| {
        write.kind == "covey.dev/nodepools" && write.name.as_deref() == Some(&name)
    };
    writes.retain(|write| !write.kind.starts_with("events") && !is_note(write));
    assert!(writes.is_empty(), "{writes:#?}");
    let mut pool = environment.pools().get(&name).await?;
    pool.annotations_mut()
        .remove(ANNOTATION_AUTOSCALING_REFUSED);
    let unchanged = (Some(1), BTreeMap::new(), BTreeMap::new());
    let meta = (
        pool.metadata.generation,
        pool.annotations().clone(),
        pool.labels().clone(),
    );
    assert_eq!(meta, unchanged, "generation, annotations and labels");
    let events: Api<Event> = Api::namespaced(environment.admin.clone(), &environment.ns);
    let mut told = |event: &Event| event.reason.as_deref() == Some("AutoscalingRefused");
    let list = events.list(&Default::default()).await?;
    let found = list.items.into_iter().find(&mut told);
    if found.is_none() {
        // It is written beside the answer.
        use futures::StreamExt as _;
        let watch = kube::runtime::watcher(events, Default::default());
        let mut objects = Box::pin(kube::runtime::WatchStreamExt::applied_objects(watch));
        let next = async {
            while let Some(event) = objects.next().await {
                if event.as_ref().is_ok_and(&mut told) {
                    return true;
                }
            }
            false
        };
        assert!(
            tokio::time::timeout(PATIENCE, next).await?,
            "nobody was told"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_stands_on_the_pool_and_is_written_once() -> Result<()> {
    let Some(environment) = Environment::new("noted").await? else {
        return Ok(());
    };
    let (_operator, adapter) = (
        FakeOperator::start(&environment),
        Adapter::start(&environment).await?,
    );
    let name = environment.pool("noted", 1, &json!({ "max": 3 })).await?;
    let mut script = Script::new(&environment, &adapter, Generation::New, &[&name])?;
    let there = |turn: &crate::support::script::Turn| turn.group(&name).is_some();
    let turn = script.until("the pool is a group", there).await?;
    let id = turn.group(&name).context("it was just seen")?.id.clone();
    let mut client = adapter.client(&environment, Generation::New)?;
    assert_eq!(code(client.increase(&id, -1).await), Code::InvalidArgument);
    let noted = |pool: &api::NodePool| {
        Refused::of(&pool.metadata).is_some_and(|r| r.message.contains("not by -1"))
    };
    environment.until(&name, noted).await?;

    // The watch may still be behind; what the API answered to the write is known all the same.
    let window = environment.management.audit().window()?;
    assert_eq!(code(client.increase(&id, -1).await), Code::InvalidArgument);
    assert_eq!(code(client.increase(&id, 1).await), Code::Ok);
    let grown = environment
        .until(&name, |pool| pool.spec.replicas == 2)
        .await?;
    assert_eq!(Refused::of(&grown.metadata), None, "it is another pool now");
    let mut writes = window.writes_of(&environment.user())?;
    // One that was decided on an old version is refused: the fake operator may write the pool's status.
    writes.retain(|write| write.kind == "covey.dev/nodepools" && write.code == Some(200));
    assert_eq!(writes.len(), 1, "only the new size: {writes:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_whose_machines_leave_nothing_for_pods_says_so_and_others_grow() -> Result<()> {
    let Some(environment) = Environment::new("small").await? else {
        return Ok(());
    };
    let adapter = Adapter::start(&environment).await?;
    let small = environment.pool("small", 0, &json!({ "max": 3 })).await?;
    let memory = json!({ "spec": { "provider": { "kubevirt": { "memory": "128Mi" } } } });
    environment.change(&small, &memory).await?;
    let pool = environment.until(&small, |pool| Refused::of(&pool.metadata).is_some());
    let refused = Refused::of(&pool.await?.metadata).context("it was just seen")?;
    assert!(
        refused.message.contains("nothing would be left for pods"),
        "{refused}"
    );
    let other = environment.pool("other", 0, &json!({ "max": 3 })).await?;
    let mut script = Script::new(&environment, &adapter, Generation::New, &[&small, &other])?;
    let there = |turn: &crate::support::script::Turn| turn.group(&other).is_some();
    let turn = script.until("the other is a group", there).await?;
    let (id, sound) = (
        turn.group(&small).context("it is a group, too")?.id.clone(),
        turn.group(&other).context("it was just seen")?.id.clone(),
    );
    let mut client = adapter.client(&environment, Generation::New)?;
    assert_eq!(client.template(&id).await?, None);
    client.increase(&sound, 2).await?;
    environment
        .until(&other, |pool| pool.spec.replicas == 2)
        .await?;
    Ok(())
}
