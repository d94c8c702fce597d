//! Enforces NetworkPolicies for the pods of one node with nftables. For the lab alone.
//!
//! Invariant: nothing is enforced before all of pods, namespaces and policies were read once, and
//! nftables is called only when the text for it changed. The rules stay when the agent ends.
//!
//! The node's `forward` hook sees every packet of a pod, because the pod network routes (CNI
//! `ptp`). What a pod sends to the node's own addresses (the management API among them) passes
//! `input`, where its egress policies hold as well; Kubernetes leaves that open, many network
//! plugins do it. What the node itself sends is always allowed: probes come from there.
//!
//! The gap: a pod's rules are there once its address and its labels are known. The address comes
//! from the CNI library's result file, before the first container starts; without those files it
//! comes with the pod's status, up to about a second after the containers started, and until then
//! the pod is open. A pod without policies waits for nothing. Connections that exist when a policy
//! comes stay.

pub mod cni;
pub mod model;
mod neighbours;
pub mod pods;
pub mod policy;
pub mod render;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use k8s_openapi::api::{
    core::v1::{Namespace, Pod},
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, Client, ResourceExt,
    core::PartialObjectMeta,
    runtime::{reflector::Store, watcher},
};
use tokio::{io::AsyncWriteExt, process::Command, sync::Notify};

use self::{
    policy::{Compiled, Namespaces},
    render::Refusal,
};
use super::watch;

/// How policies are enforced.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node whose pods are guarded.
    pub node: String,
    /// Directory of the CNI library's result files.
    pub cni_results: PathBuf,
    /// What happens to refused packets.
    pub refusal: Refusal,
}

/// Enforces until the process ends.
///
/// # Errors
/// When the CNI result files cannot be followed.
pub async fn run(client: Client, settings: Settings) -> anyhow::Result<()> {
    let changed = Arc::new(Notify::new());
    let watched = Watched {
        pods: watch::follow(
            Api::<Pod>::all(client.clone()),
            watcher::Config::default(),
            Arc::clone(&changed),
            trim_pod,
        ),
        namespaces: watch::follow(
            Api::<PartialObjectMeta<Namespace>>::all(client.clone()),
            watcher::Config::default(),
            Arc::clone(&changed),
            |_| {},
        ),
        policies: watch::follow(
            Api::<NetworkPolicy>::all(client),
            watcher::Config::default(),
            Arc::clone(&changed),
            |_| {},
        ),
    };
    let mut addresses = cni::follow(&settings.cni_results)?;
    watched.pods.wait_until_ready().await?;
    watched.namespaces.wait_until_ready().await?;
    watched.policies.wait_until_ready().await?;

    let mut applied: Option<String> = None;
    let mut known_problems = BTreeSet::new();
    loop {
        neighbours::answer_at_once();
        let started = Instant::now();
        let compiled = watched.compile(&settings.node, &addresses.borrow_and_update());
        for problem in &compiled.problems {
            if known_problems.insert(problem.clone()) {
                tracing::warn!(problem, "part of a network policy is left out");
            }
        }
        let text = render::render(&compiled.ruleset, settings.refusal);
        if applied.as_ref() != Some(&text) {
            match nft(&text).await {
                Ok(()) => {
                    tracing::info!(
                        egress = compiled.ruleset.egress.len(),
                        ingress = compiled.ruleset.ingress.len(),
                        microseconds = started.elapsed().as_micros(),
                        "network policies enforced"
                    );
                    applied = Some(text);
                }
                Err(error) => {
                    tracing::error!(
                        error = format!("{error:#}"),
                        "network policies not enforced"
                    );
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
            }
        }
        tokio::select! {
            () = changed.notified() => {}
            followed = addresses.changed() => followed.context("CNI results are lost")?,
        }
    }
}

struct Watched {
    pods: Store<Pod>,
    namespaces: Store<PartialObjectMeta<Namespace>>,
    policies: Store<NetworkPolicy>,
}

impl Watched {
    fn compile(&self, node: &str, addresses: &cni::Addresses) -> Compiled {
        let policies = self.policies.state();
        if policies.is_empty() {
            return Compiled::default();
        }
        let attached = |pod: &Pod| pod.metadata.uid.as_ref().and_then(|uid| addresses.get(uid));
        let pods = self.pods.state();
        let pods: Vec<pods::Pod> = pods
            .iter()
            .filter_map(|pod| pods::Pod::read(pod, node, attached(pod)))
            .collect();
        let namespaces: Namespaces = self
            .namespaces
            .state()
            .iter()
            .map(|namespace| (namespace.name_any(), namespace.labels().clone()))
            .collect();
        policy::compile(&pods, &namespaces, &policies)
    }
}

/// Pods are watched whole because a named port is in the spec and an address in the status; the
/// bulky rest goes.
fn trim_pod(pod: &mut Pod) {
    pod.metadata.annotations = None;
    if let Some(spec) = &mut pod.spec {
        spec.volumes = None;
        for container in spec
            .containers
            .iter_mut()
            .chain(spec.init_containers.iter_mut().flatten())
        {
            *container = k8s_openapi::api::core::v1::Container {
                name: std::mem::take(&mut container.name),
                ports: container.ports.take(),
                restart_policy: container.restart_policy.take(),
                ..Default::default()
            };
        }
    }
    if let Some(status) = &mut pod.status {
        status.conditions = None;
        status.container_statuses = None;
        status.init_container_statuses = None;
    }
}

/// Runs one nftables transaction in this process's network namespace.
///
/// # Errors
/// When `nft` is missing or refuses the text; nothing has changed then.
pub async fn nft(text: &str) -> anyhow::Result<()> {
    let mut child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start nft; install nftables")?;
    let mut input = child.stdin.take().context("nft has no standard input")?;
    // nft may end early on an error; its own words are then better than "broken pipe".
    let written = input.write_all(text.as_bytes()).await;
    drop(input);
    let output = child
        .wait_with_output()
        .await
        .context("cannot wait for nft")?;
    if !output.status.success() {
        bail!(
            "nft refused the ruleset: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    written.context("cannot write to nft")
}
