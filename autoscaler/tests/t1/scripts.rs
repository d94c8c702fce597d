//! Whole scripts of the Cluster Autoscaler: growing and shrinking, machines that never become nodes,
//! machines that cannot be made, pools without quota, and growing from zero. Each in both generations.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::names::ANNOTATION_DELETE_MACHINE;
use autoscaler_client::Generation;
use autoscaler_client::plan::Action;
use autoscaler_client::protocol::FakeReason;
use kube::ResourceExt as _;
use serde_json::json;

use crate::support::script::Turn;
use crate::support::{Adapter, Environment, FakeOperator, Mode, Script};

/// Removes pools, and waits until the client knows.
async fn leave(environment: &Environment, script: &mut Script, pools: &[&str]) -> Result<()> {
    script.waiting.clear();
    for pool in pools {
        environment
            .pools()
            .delete(pool, &Default::default())
            .await?;
    }
    let gone = |turn: &Turn| pools.iter().all(|pool| turn.group(pool).is_none());
    script.until("the groups are gone", gone).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_grows_from_zero_as_far_as_pods_need_and_is_given_back() -> Result<()> {
    let Some(environment) = Environment::new("grow").await? else {
        return Ok(());
    };
    let (_operator, adapter) = (
        FakeOperator::start(&environment),
        Adapter::start(&environment).await?,
    );
    for generation in Generation::ALL {
        let name = environment.pool("grow", 0, &json!({ "max": 3 })).await?;
        let mut script = Script::new(&environment, &adapter, generation, &[&name])?;
        let seen = |turn: &Turn| turn.group(&name).is_some();
        let turn = script.until("there is a group", seen).await?;
        let group = turn.group(&name).context("it was just seen")?;
        let template = group.template.as_ref().context("no template from zero")?;
        ensure!(
            template.ready && template.allocatable.cpu == 2000,
            "{template:?}"
        );
        ensure!(
            (group.min, group.max, group.target) == (0, 3, 0),
            "{group:?}"
        );

        // Three of them fit onto two nodes, and others wait for nodes that there may not be.
        let window = environment.management.audit().window()?;
        script.wait_for_room(3, 900);
        let two = script.until("two nodes are there", |turn| turn.nodes.len() == 2);
        let turn = two.await?;
        ensure!(turn.target(&name) == Some(2), "{:?}", turn.provider.groups);
        let grew = [Action::Increase {
            group: turn.group(&name).unwrap().id.clone(),
            delta: 2,
        }];
        assert_eq!(script.done, grew, "{generation:?}");
        script.wait_for_room(9, 900);
        let three = script.until("three nodes are there", |turn| turn.nodes.len() == 3);
        three.await?;

        script.waiting.clear();
        let none = script.until("no node is left", |turn| {
            turn.nodes.is_empty() && turn.target(&name) == Some(0)
        });
        none.await?;
        // Victims and size in one write; so each action is one.
        let mut writes = window.writes_of(&environment.user())?;
        // One that was decided on an old version is refused.
        writes.retain(|write| write.code == Some(200));
        assert_eq!(writes.len(), script.done.len(), "{writes:#?}");
        leave(&environment, &mut script, &[&name]).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_never_becomes_a_node_is_removed_by_its_instance() -> Result<()> {
    let Some(environment) = Environment::new("unregistered").await? else {
        return Ok(());
    };
    let (operator, adapter) = (
        FakeOperator::start(&environment),
        Adapter::start(&environment).await?,
    );
    for generation in Generation::ALL {
        let name = environment.pool_name("lost");
        operator.set(&name, Mode::Stuck);
        environment
            .pool_named(&name, 0, &json!({ "max": 3 }))
            .await?;
        let mut script = Script::new(&environment, &adapter, generation, &[&name])?;
        script.wait_for_room(1, 900);
        let made = script.until("a machine is told of", |turn| {
            turn.group(&name).is_some_and(|g| g.instances.len() == 1)
        });
        made.await?;
        // Its time is over.
        script.defaults.provision = Duration::ZERO;
        script.waiting.clear();
        let none = script.until("nothing is left", |turn| {
            turn.group(&name)
                .is_some_and(|g| g.target == 0 && g.instances.is_empty())
        });
        none.await?;
        let removed = script.done.iter().filter(|action| {
            matches!(action, Action::Remove { reason, .. } if *reason == FakeReason::Unregistered)
        });
        ensure!(removed.count() >= 1, "{:?}", script.done);
        leave(&environment, &mut script, &[&name]).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_without_quota_is_passed_over_and_another_one_grows() -> Result<()> {
    let Some(environment) = Environment::new("quota").await? else {
        return Ok(());
    };
    let (operator, adapter) = (
        FakeOperator::start(&environment),
        Adapter::start(&environment).await?,
    );
    for generation in Generation::ALL {
        // Of equals the first is chosen, and groups are sorted.
        let (full, other) = (
            environment.pool_name("a-full"),
            environment.pool_name("b-other"),
        );
        operator.set(&full, Mode::Full);
        for name in [&full, &other] {
            environment
                .pool_named(name, 0, &json!({ "max": 3 }))
                .await?;
        }
        let mut script = Script::new(&environment, &adapter, generation, &[&full, &other])?;
        let both = script.until("both groups are told of", |turn| {
            turn.group(&full).is_some() && turn.group(&other).is_some()
        });
        both.await?;
        script.wait_for_room(2, 1500);
        let two = script.until("the other pool has two nodes", |turn| {
            turn.nodes.len() == 2 && turn.target(&full) == Some(0)
        });
        let turn = two.await?;
        ensure!(turn.target(&other) == Some(2), "{:?}", turn.provider.groups);
        let removed = script.done.iter().any(|action| {
            matches!(action, Action::Remove { reason, .. } if *reason == FakeReason::CreateError)
        });
        ensure!(removed, "{:?}", script.done);
        leave(&environment, &mut script, &[&full, &other]).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_makes_is_no_longer_asked_for_and_what_runs_stays() -> Result<()> {
    let Some(environment) = Environment::new("decrease").await? else {
        return Ok(());
    };
    let (operator, adapter) = (
        FakeOperator::start(&environment),
        Adapter::start(&environment).await?,
    );
    let name = environment.pool("late", 1, &json!({ "max": 5 })).await?;
    let mut script = Script::new(&environment, &adapter, Generation::New, &[&name])?;
    // A pod that needs it keeps the node.
    script.wait_for_room(1, 900);
    let one = script.until("one node is there", |turn| turn.nodes.len() == 1);
    one.await?;
    operator.set(&name, Mode::Away);
    script.wait_for_room(3, 1500);
    let three = |turn: &Turn| turn.target(&name) == Some(3);
    script.until("the pool is to have three", three).await?;
    script.defaults.provision = Duration::ZERO;
    script.waiting.truncate(1);
    let back = |turn: &Turn| {
        turn.said
            .iter()
            .any(|(action, _)| matches!(action, Action::Decrease { .. }))
    };
    script.until("the size is put right", back).await?;
    // More than there is to cancel: nobody who runs is touched.
    let group = script.until("the size is seen", |turn| turn.target(&name) == Some(1));
    let id = group.await?.group(&name).unwrap().id.clone();
    script.protocol.decrease(&id, -9).await?;
    let pool = environment.pools().get(&name).await?;
    assert_eq!(pool.spec.replicas, 1);
    assert_eq!(pool.annotations().get(ANNOTATION_DELETE_MACHINE), None);
    Ok(())
}
