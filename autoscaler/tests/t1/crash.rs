//! The adapter dies at its k-th write, for every k of a life; the Cluster Autoscaler begins a new loop,
//! and another one, which knows nothing, brings the same end about.
//!
//! Invariant: no k is left out: runs go on until one of them ends without having died. On which side
//! of a write is what [`testkit::faults::Deaths`] says.

use std::time::Duration;

use anyhow::{Result, ensure};
use autoscaler_client::Generation;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use testkit::FaultPlan;
use testkit::faults::wherever_it_dies;
use testkit::fixtures::wait_gone;

use crate::support::script::Turn;
use crate::support::{Adapter, Environment, FakeOperator, Mode, PATIENCE, Script};

/// Loops until one has seen what is wanted; when the adapter dies on the way, a healthy one takes
/// over.
struct Life<'a> {
    environment: &'a Environment,
    adapter: Adapter,
    script: Script,
    died: bool,
}

impl Life<'_> {
    async fn until(&mut self, what: &str, wanted: impl Fn(&Turn) -> bool + Copy) -> Result<Turn> {
        let plan = self.adapter.plan.clone();
        let done = tokio::select! {
            biased;
            () = plan.crashed() => None,
            turn = self.script.until(what, wanted) => Some(turn),
        };
        match done {
            Some(turn) if !plan.is_crashed() => turn,
            _ => {
                self.died = true;
                self.adapter = Adapter::start(self.environment).await?;
                let generation = self.script.protocol.generation();
                self.script.protocol = self.adapter.client(self.environment, generation)?;
                self.script.forget();
                self.script.until(what, wanted).await
            }
        }
    }
}

async fn life(
    environment: &Environment,
    operator: &FakeOperator,
    plan: &FaultPlan,
) -> Result<(bool, Value)> {
    let name = environment.pool("life", 0, &json!({ "max": 3 })).await?;
    let adapter = Adapter::with(environment, environment.settings(), plan).await?;
    let script = Script::new(environment, &adapter, Generation::New, &[&name])?;
    let mut life = Life {
        environment,
        adapter,
        script,
        died: false,
    };
    life.script.wait_for_room(2, 1500);
    let two = |turn: &Turn| turn.nodes.len() == 2 && turn.target(&name) == Some(2);
    let turn = life.until("two nodes run", two).await?;
    let grown: Vec<_> = turn
        .group(&name)
        .map(|g| (g.min, g.max, g.target))
        .into_iter()
        .collect();

    operator.set(&name, Mode::Rolls);
    let all = |turn: &Turn, marked: bool| {
        let is = |node: &autoscaler_client::cluster::Node| {
            let key = autoscaler_client::cluster::SCALE_DOWN_DISABLED;
            node.annotations.contains_key(key) == marked
        };
        turn.nodes.iter().all(is)
    };
    life.until("nodes are marked", |turn| all(turn, true))
        .await?;
    operator.set(&name, Mode::Works);
    life.until("nodes are no longer marked", |turn| all(turn, false))
        .await?;

    // One goes, and what nobody makes is no longer asked for.
    life.script.wait_for_room(1, 1500);
    let one = |turn: &Turn| turn.nodes.len() == 1 && turn.target(&name) == Some(1);
    life.until("one node runs", one).await?;
    operator.set(&name, Mode::Away);
    life.script.wait_for_room(3, 1500);
    life.until("it is to have three", |turn| turn.target(&name) == Some(3))
        .await?;
    life.script.defaults.provision = Duration::ZERO;
    life.script.wait_for_room(1, 1500);
    life.until("it is to have one", |turn| turn.target(&name) == Some(1))
        .await?;
    life.script.defaults.provision = Duration::from_secs(900);
    operator.set(&name, Mode::Works);
    life.script.waiting.clear();
    let none = |turn: &Turn| {
        let group = turn.group(&name);
        turn.nodes.is_empty() && group.is_some_and(|g| g.target == 0 && g.instances.is_empty())
    };
    life.until("none is left", none).await?;
    let left = environment
        .machines()
        .list(&Default::default())
        .await?
        .items
        .len();
    ensure!(left == 0, "{left} Machines are left");
    environment
        .pools()
        .delete(&name, &DeleteParams::default())
        .await?;
    wait_gone(&environment.pools(), &name, PATIENCE).await?;
    Ok((life.died, json!(grown)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_ends_the_same_wherever_the_adapter_dies() -> Result<()> {
    let Some(environment) = Environment::with_nodes("crash").await? else {
        return Ok(());
    };
    let operator = FakeOperator::start(&environment);
    let writes = wherever_it_dies(async |plan| life(&environment, &operator, plan).await).await?;
    // Priorities, up by two, two marks on and off, down, up, cancelled, down.
    ensure!(writes >= 9, "a life has more writes than {writes}");
    Ok(())
}
