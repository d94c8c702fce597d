//! The program is killed with SIGKILL before the k-th call of a pool's growing and shrinking, for
//! every k. The Cluster Autoscaler's loop ends with an error, and its next one goes on from there.
//!
//! Invariant: no k is left out: runs go on until one of them ends without a death.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use api::machine::MachinePhase;
use api::{Machine, names};
use autoscaler_client::protocol::Options;
use autoscaler_client::{Generation, Protocol};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};
use proto::autoscaler::instance_status::InstanceState;
use proto::autoscaler::{ExternalGrpcNode, Instance};
use serde_json::json;
use testkit::fixtures::wait_gone;
use tonic::Status;

use crate::support::{Environment, FakeOperator, PATIENCE, Program};

/// Machines before and after growing.
const FEW: i32 = 1;
const MANY: i32 = 3;

/// A client whose provider dies once.
struct Life<'a> {
    environment: &'a Environment,
    program: &'a mut Program,
    client: Protocol,
    pool: String,
    calls: usize,
    /// Before which call.
    dies_at: usize,
}

/// What is to come about.
enum Goal<'a> {
    Grow,
    Lose(&'a str),
}

impl Life<'_> {
    /// Before each call.
    fn begins(&mut self) -> Result<()> {
        if self.calls == self.dies_at {
            self.program.restart()?;
        }
        self.calls += 1;
        Ok(())
    }

    fn has_died(&self) -> bool {
        self.calls > self.dies_at
    }

    /// One loop; the first error ends it. Whether nothing was left to do.
    async fn turn(&mut self, goal: &Goal<'_>) -> Result<Result<bool, Status>> {
        macro_rules! answer {
            ($($call:tt)*) => {{
                self.begins()?;
                match self.client.$($call)*.await {
                    Ok(answer) => answer,
                    Err(status) => return Ok(Err(status)),
                }
            }};
        }
        answer!(refresh());
        let groups = answer!(node_groups());
        let prefix = format!("{}.", self.pool);
        let group = groups.iter().find(|group| group.id.starts_with(&prefix));
        let Some(id) = group.map(|group| group.id.clone()) else {
            // Its watch has not told of the pool yet.
            return Ok(Ok(false));
        };
        let target = answer!(target_size(&id));
        let instances = answer!(nodes(&id));
        answer!(template(&id));
        answer!(options(&id, &Options::default()));
        match goal {
            Goal::Grow if target < MANY => answer!(increase(&id, MANY - target)),
            Goal::Grow => return Ok(Ok(true)),
            Goal::Lose(machine) => {
                let node = ExternalGrpcNode {
                    provider_id: names::kubevirt_provider_id(machine),
                    name: (*machine).to_owned(),
                    ..ExternalGrpcNode::default()
                };
                match instances.iter().find(|i| i.id == node.provider_id) {
                    // Not told of yet, or gone.
                    None => return Ok(Ok(target < MANY)),
                    Some(instance) if is_going(instance) => return Ok(Ok(true)),
                    Some(_) => {
                        let group = answer!(node_group_for_node(&node));
                        let Some(group) = group else {
                            // Made anew between two calls, and its watches have not told of the node yet.
                            ensure!(self.has_died(), "it is nobody's");
                            return Ok(Ok(false));
                        };
                        ensure!(group.id == id, "it is another one's");
                        answer!(delete(&id, vec![node.clone()]));
                    }
                }
            }
        }
        Ok(Ok(false))
    }

    /// Loops until nothing is left to do.
    async fn reach(&mut self, goal: Goal<'_>) -> Result<()> {
        let mut scans = tokio::time::interval(Duration::from_millis(50));
        let loops = tokio::time::timeout(PATIENCE, async {
            loop {
                scans.tick().await;
                if let Ok(true) = self.turn(&goal).await? {
                    return anyhow::Ok(());
                }
            }
        });
        match loops.await {
            Ok(ended) => ended,
            Err(_) => bail!("{}", self.program.log()),
        }
    }

    /// Waits until the pool has so many machines, all of them nodes; their names.
    async fn machines(&self, count: i32) -> Result<BTreeSet<String>> {
        let mut looks = tokio::time::interval(Duration::from_millis(50));
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                looks.tick().await;
                let all = self
                    .environment
                    .machines()
                    .list(&ListParams::default())
                    .await?;
                let own = all.items.iter().filter(|m| m.spec.pool_name == self.pool);
                let own: Vec<_> = own.collect();
                if own.len() == usize::try_from(count)? && own.iter().all(|m| is_running(m)) {
                    return anyhow::Ok(own.iter().map(|m| m.name_any()).collect());
                }
            }
        });
        let found = found.await;
        found.with_context(|| format!("the pool does not come to have {count} machines"))?
    }
}

fn is_going(instance: &Instance) -> bool {
    let status = instance.status.as_ref();
    status.is_some_and(|status| status.instance_state() == InstanceState::Deleting)
}

fn is_running(machine: &Machine) -> bool {
    let status = machine.status.as_ref();
    status.and_then(|status| status.phase) == Some(MachinePhase::Running)
}

/// Whether it died on the way.
async fn life(environment: &Environment, program: &mut Program, dies_at: usize) -> Result<bool> {
    let pool = environment
        .pool("killed", FEW, &json!({ "max": 5 }))
        .await?;
    let client = program.client(environment, Generation::New)?;
    let mut life = Life {
        environment,
        program,
        client,
        pool,
        calls: 0,
        dies_at,
    };
    let before = life.machines(FEW).await?;
    life.reach(Goal::Grow).await?;
    let grown = life.machines(MANY).await?;
    ensure!(grown.is_superset(&before), "{before:?} became {grown:?}");

    // Not the first nor the last, which would go anyway if nobody were named.
    let victim = grown.iter().nth(1).context("there are three")?.clone();
    life.reach(Goal::Lose(&victim)).await?;
    let mut expected = grown;
    expected.remove(&victim);
    let left = life.machines(MANY - 1).await?;
    ensure!(left == expected, "{left:?} are left, not {expected:?}");
    let pool = environment.pools().get(&life.pool).await?;
    assert_eq!(pool.spec.replicas, MANY - 1);
    let (died, name) = (life.has_died(), life.pool);
    environment
        .pools()
        .delete(&name, &DeleteParams::default())
        .await?;
    wait_gone(&environment.pools(), &name, PATIENCE).await?;
    Ok(died)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_grows_and_shrinks_the_same_wherever_between_two_calls_the_program_is_killed()
-> Result<()> {
    let Some(environment) = Environment::new("killed").await? else {
        return Ok(());
    };
    let _operator = FakeOperator::start(&environment);
    let mut program = Program::new(&environment)?;
    program.restart()?;
    let mut client = program.client(&environment, Generation::New)?;
    program.begin(&mut client).await?;
    for dies_at in 0.. {
        let died = life(&environment, &mut program, dies_at).await;
        if !died.with_context(|| format!("killed before call {dies_at}"))? {
            // Two loops to grow and to see it, two to shrink.
            ensure!(dies_at >= 26, "a life has more calls than {dies_at}");
            break;
        }
    }
    Ok(())
}
