//! The program itself: flags, files, and that a Cluster Autoscaler notices nothing of its death
//! between any two calls but an answer that does not come.

use anyhow::{Context as _, Result, ensure};
use autoscaler_client::protocol::Options;
use autoscaler_client::{Generation, Protocol};
use serde_json::json;
use tonic::{Code, Status};

use crate::support::{Environment, FakeOperator, PATIENCE, Program};

/// The calls of a loop that are about one pool, each by its number.
async fn call(client: &mut Protocol, number: usize, id: &str) -> Result<bool, Status> {
    match number {
        0 => client.node_groups().await.map(drop)?,
        1 => client.target_size(id).await.map(drop)?,
        2 => client.nodes(id).await.map(drop)?,
        3 => client.template(id).await.map(drop)?,
        4 => client.options(id, &Options::default()).await.map(drop)?,
        5 => client.gpu_label().await.map(drop)?,
        6 => client.gpu_types().await.map(drop)?,
        7 => client.increase(id, 1).await?,
        8 => client.decrease(id, -1).await?,
        _ => return Ok(false),
    }
    Ok(true)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_death_between_any_two_calls_costs_a_loop_and_nothing_else() -> Result<()> {
    let Some(environment) = Environment::new("process").await? else {
        return Ok(());
    };
    let _operator = FakeOperator::start(&environment);
    let name = environment
        .pool("process", 1, &json!({ "min": 1, "max": 30 }))
        .await?;
    let mut program = Program::new(&environment)?;
    program.restart()?;
    let mut client = program.client(&environment, Generation::New)?;
    program.begin(&mut client).await?;
    let groups = client.node_groups().await?;
    let id = groups.first().context("there is no group")?.id.clone();
    for number in 0.. {
        let size = environment.pools().get(&name).await?.spec.replicas;
        program.restart()?;
        // It may be answered already, or not yet: either way the next loop finds what there is.
        let early = call(&mut client, number, &id).await;
        program.begin(&mut client).await?;
        if !call(&mut client, number, &id).await? {
            break;
        }
        let told = client.target_size(&id).await?;
        let is = environment.pools().get(&name).await?.spec.replicas;
        ensure!(told == is, "call {number}: {told} is told and {is} is so");
        // What no program listened to was not done; a late answer may be lost to the caller alone.
        let heard = early.map_or_else(|status| status.code(), |_| Code::Ok) != Code::Unavailable;
        let grown = match number {
            7 => 1 + i32::from(heard),
            _ => 0,
        };
        ensure!(is <= size + grown, "call {number}: {size} became {is}");
        let groups = client.node_groups().await?;
        ensure!(
            groups.first().is_some_and(|group| group.id == id),
            "{groups:?}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_it_in_good_order() -> Result<()> {
    let Some(environment) = Environment::new("signal").await? else {
        return Ok(());
    };
    let mut program = Program::new(&environment)?;
    program.restart()?;
    let mut client = program.client(&environment, Generation::Legacy)?;
    program.begin(&mut client).await?;
    client.cleanup().await?;
    let process = program.process.as_mut().context("it was started")?;
    process.signal(rustix::process::Signal::TERM)?;
    let status = process.ended(PATIENCE).await?;
    ensure!(status.success(), "{status}: {}", program.log());
    Ok(())
}
