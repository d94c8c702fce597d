//! The Cluster Autoscaler, with pods that exist in its mind alone.
//!
//! Invariant: one loop after another, each from the beginning, until the test has seen what it waits
//! for; what a loop does is what `autoscaler_client::plan` says.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use autoscaler_client::cluster::{Amounts, Node, Pod};
use autoscaler_client::observe::{Aborted, Loop, observe};
use autoscaler_client::plan::{Action, Memory, Seen, plan};
use autoscaler_client::protocol::Options;
use autoscaler_client::tenant::{Tenant, carry_out};
use autoscaler_client::{Generation, Protocol};
use tonic::Status;

use super::{Adapter, Environment, PATIENCE};

/// Time between two loops.
const SCAN: Duration = Duration::from_millis(50);

/// A client that goes through loops.
pub(crate) struct Script {
    pub(crate) protocol: Protocol,
    pub(crate) defaults: Options,
    /// Pods that wait, whatever nodes there are: the tests have no scheduler.
    pub(crate) waiting: Vec<Pod>,
    /// What was done so far.
    pub(crate) done: Vec<Action>,
    prefixes: Vec<String>,
    tenant: Tenant,
    memory: Memory,
    began: Instant,
}

/// What one loop saw and did.
pub(crate) struct Turn {
    pub(crate) provider: Loop,
    pub(crate) nodes: Vec<Node>,
    pub(crate) said: Vec<(Action, Result<(), Status>)>,
}

impl Script {
    /// One that knows the nodes of these pools: a tenant API may be shared.
    pub(crate) fn new(
        environment: &Environment,
        adapter: &Adapter,
        generation: Generation,
        pools: &[&str],
    ) -> Result<Self> {
        Ok(Self {
            protocol: adapter.client(environment, generation)?,
            defaults: Options {
                // What is not needed goes at once.
                unneeded: Duration::ZERO,
                ..Options::default()
            },
            waiting: Vec::new(),
            done: Vec::new(),
            prefixes: pools.iter().map(|pool| format!("{pool}-")).collect(),
            tenant: Tenant::new(environment.inside.clone()),
            memory: Memory::default(),
            began: Instant::now(),
        })
    }

    /// So many pods wait, each for so many thousandths of a processor.
    pub(crate) fn wait_for_room(&mut self, count: usize, cpu: i64) {
        let pod = Pod {
            requests: Amounts {
                cpu,
                memory: 1 << 20,
                pods: 1,
            },
            ..Pod::default()
        };
        self.waiting = vec![pod; count];
    }

    /// As after the five minutes for which a group is left alone that could not grow.
    pub(crate) fn forget(&mut self) {
        self.memory = Memory::default();
    }

    /// One loop.
    pub(crate) async fn turn(&mut self) -> Result<Result<Turn, Aborted>> {
        let mut nodes = self.tenant.nodes().await?;
        let known = |node: &Node| self.prefixes.iter().any(|p| node.name.starts_with(p));
        nodes.retain(known);
        let provider = match observe(&mut self.protocol, &nodes, &self.defaults).await {
            Ok(provider) => provider,
            Err(aborted) => return Ok(Err(aborted)),
        };
        let seen = Seen {
            now: self.began.elapsed(),
            provider: &provider,
            nodes: &nodes,
            pods: &self.waiting,
        };
        self.memory.note(&seen);
        let mut said = Vec::new();
        for action in plan(&seen, &self.memory) {
            let answer = carry_out(&mut self.protocol, &action, &nodes).await;
            if let (Action::Increase { group, .. }, Err(_)) = (&action, &answer) {
                self.memory.back_off(group, seen.now);
            }
            self.done.push(action.clone());
            said.push((action, answer));
        }
        Ok(Ok(Turn {
            provider,
            nodes,
            said,
        }))
    }

    /// Loops until one has seen, and done, what is wanted; an aborted one is followed by another.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(&Turn) -> bool,
    ) -> Result<Turn> {
        let mut scans = tokio::time::interval(SCAN);
        let loops = async {
            loop {
                scans.tick().await;
                if let Ok(turn) = self.turn().await?
                    && wanted(&turn)
                {
                    return anyhow::Ok(turn);
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, loops).await;
        found.with_context(|| format!("no loop in {PATIENCE:?} in which {what}"))?
    }
}

impl Turn {
    /// How many machines the group of a pool is to have; the group's id begins with its name.
    pub(crate) fn target(&self, pool: &str) -> Option<i32> {
        self.group(pool).map(|group| group.target)
    }

    pub(crate) fn group(&self, pool: &str) -> Option<&autoscaler_client::Group> {
        let prefix = format!("{pool}.");
        let mut groups = self.provider.groups.iter();
        groups.find(|group| group.id.starts_with(&prefix))
    }
}
