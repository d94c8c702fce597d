//! Reads a tenant cluster, and carries plans out: in it and by the provider.
//!
//! Invariant: a node is tainted, cordoned and free of pods before the provider is asked to delete its
//! machine, and the provider is asked once for all nodes of a group.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1 as core;
use kube::api::{EvictParams, ListParams, PostParams};
use kube::{Api, Client};
use tonic::Status;

use crate::cluster::{Node, Pod, TO_BE_DELETED};
use crate::observe::{Aborted, observe};
use crate::plan::{Action, Memory, Seen, plan};
use crate::protocol::{Options, Protocol, fake};

/// Time between two looks at a node that is drained.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often a node is changed anew because somebody else has changed it meanwhile.
const TRIES: usize = 5;

/// A tenant cluster.
#[derive(Clone)]
pub struct Tenant {
    client: Client,
    /// How long pods get to leave a node.
    pub patience: Duration,
}

/// What became of one loop.
#[derive(Debug, Default)]
pub struct Turn {
    /// It ended before anything was decided.
    pub aborted: Option<Aborted>,
    /// What was done, and what the provider said to it.
    pub done: Vec<(Action, Result<(), Status>)>,
}

/// A client that runs: the provider's protocol, a tenant cluster, and what is known between loops.
pub struct Autoscaler {
    /// The provider.
    pub protocol: Protocol,
    /// The cluster.
    pub tenant: Tenant,
    /// The flags of the stock client.
    pub defaults: Options,
    memory: Memory,
    began: Instant,
}

impl Tenant {
    /// With ten minutes for pods to leave.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            patience: Duration::from_secs(600),
        }
    }

    /// All nodes.
    ///
    /// # Errors
    /// When the API does not answer.
    pub async fn nodes(&self) -> kube::Result<Vec<Node>> {
        let all = self.api().list(&ListParams::default()).await?;
        Ok(all.iter().map(Node::read).collect())
    }

    /// All pods that have not ended and are not going.
    ///
    /// # Errors
    /// When the API does not answer.
    pub async fn pods(&self) -> kube::Result<Vec<Pod>> {
        let pods: Api<core::Pod> = Api::all(self.client.clone());
        let all = pods.list(&ListParams::default()).await?;
        Ok(all.iter().filter_map(Pod::read).collect())
    }

    fn api(&self) -> Api<core::Node> {
        Api::all(self.client.clone())
    }

    /// Marks a node as the stock client does before it drains it: nothing new comes to it.
    ///
    /// # Errors
    /// When the API does not answer, or others change the node all the time.
    pub async fn mark(&self, name: &str) -> Result<()> {
        for _ in 0..TRIES {
            let mut node = self.api().get(name).await?;
            let spec = node.spec.get_or_insert_default();
            spec.unschedulable = Some(true);
            let taints = spec.taints.get_or_insert_default();
            if taints.iter().all(|taint| taint.key != TO_BE_DELETED) {
                taints.push(core::Taint {
                    key: TO_BE_DELETED.to_owned(),
                    effect: "NoSchedule".to_owned(),
                    ..core::Taint::default()
                });
            }
            match self
                .api()
                .replace(name, &PostParams::default(), &node)
                .await
            {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                answer => return answer.map(drop).context("mark a node"),
            }
        }
        anyhow::bail!("others change the node {name} all the time")
    }

    /// Marks a node and waits until no pod is left on it but those that come with it.
    ///
    /// # Errors
    /// When the API does not answer, or pods do not leave in time.
    pub async fn drain(&self, name: &str) -> Result<()> {
        self.mark(name).await?;
        let begun = Instant::now();
        let mut looks = tokio::time::interval(LOOK_EVERY);
        loop {
            looks.tick().await;
            let pods: Api<core::Pod> = Api::all(self.client.clone());
            let here = ListParams::default().fields(&format!("spec.nodeName={name}"));
            let left = pods.list(&here).await?;
            // One that is going is still there.
            let mut stays = 0;
            for pod in &left {
                let going = pod.metadata.deletion_timestamp.is_some();
                match Pod::read(pod) {
                    Some(pod) if !pod.of_daemon => {
                        stays += 1;
                        self.evict(&pod).await?;
                    }
                    None if going => stays += 1,
                    _ => {}
                }
            }
            if stays == 0 {
                return Ok(());
            }
            let waited = begun.elapsed() < self.patience;
            ensure!(waited, "{stays} pods do not leave the node {name}");
        }
    }

    async fn evict(&self, pod: &Pod) -> kube::Result<()> {
        let pods: Api<core::Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        match pods.evict(&pod.name, &EvictParams::default()).await {
            // Gone, or to be asked for again: its budget is used up.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 429) => Ok(()),
            answer => answer.map(drop),
        }
    }
}

impl Autoscaler {
    /// One that begins now.
    #[must_use]
    pub fn new(protocol: Protocol, tenant: Tenant, defaults: Options) -> Self {
        Self {
            protocol,
            tenant,
            defaults,
            memory: Memory::default(),
            began: Instant::now(),
        }
    }

    /// One loop.
    ///
    /// # Errors
    /// When the tenant cluster's API does not answer, or pods do not leave a node.
    pub async fn turn(&mut self) -> Result<Turn> {
        let nodes = self.tenant.nodes().await?;
        let pods = self.tenant.pods().await?;
        let provider = match observe(&mut self.protocol, &nodes, &self.defaults).await {
            Ok(provider) => provider,
            Err(aborted) => {
                return Ok(Turn {
                    aborted: Some(aborted),
                    ..Turn::default()
                });
            }
        };
        let seen = Seen {
            now: self.began.elapsed(),
            provider: &provider,
            nodes: &nodes,
            pods: &pods,
        };
        self.memory.note(&seen);
        let mut turn = Turn::default();
        for action in plan(&seen, &self.memory) {
            if let Action::Drain { nodes, .. } = &action {
                let drained = nodes.iter().map(|name| self.tenant.drain(name));
                futures::future::try_join_all(drained).await?;
            }
            let said = carry_out(&mut self.protocol, &action, &nodes).await;
            if let (Action::Increase { group, .. }, Err(_)) = (&action, &said) {
                self.memory.back_off(group, seen.now);
            }
            turn.done.push((action, said));
        }
        Ok(turn)
    }
}

/// The provider's part of an action; nodes that go have been drained.
///
/// # Errors
/// Whatever the provider said.
pub async fn carry_out(
    protocol: &mut Protocol,
    action: &Action,
    nodes: &[Node],
) -> Result<(), Status> {
    match action {
        Action::Increase { group, delta } => protocol.increase(group, *delta).await,
        Action::Decrease { group, delta } => protocol.decrease(group, *delta).await,
        Action::Remove {
            group,
            instances,
            reason,
        } => {
            let fakes = instances.iter().map(|id| fake(id, *reason)).collect();
            protocol.delete(group, fakes).await
        }
        Action::Drain {
            group,
            nodes: names,
        } => {
            let going = nodes.iter().filter(|node| names.contains(&node.name));
            let going = going.map(crate::observe::external).collect();
            protocol.delete(group, going).await
        }
    }
}
