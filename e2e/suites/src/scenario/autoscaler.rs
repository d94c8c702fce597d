//! Plays the stock Cluster Autoscaler for one tenant cluster: with its client certificate, through a
//! port-forward to the adapter's pod, because nobody else is let in and the lab has no image of it.
//!
//! Invariant: what it does to pools it does by the protocol, and to nodes and pods as the stock client
//! does; nothing is waited for but by going through one loop after another.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use autoscaler_client::protocol::Options;
use autoscaler_client::tenant::{Autoscaler, Tenant as Inside, Turn};
use autoscaler_client::{Credentials, Generation, Protocol};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::{
    kubectl::{Forward, Kubectl},
    workload::IMAGE,
};
use crate::cluster::{Management, Tenant, parts::selector, wait::wait_list};

/// Component of the adapter's pods, and its Service.
pub const ADAPTER: &str = "autoscaler";
/// Secret with the client certificate.
const CLIENT: &str = "cluster-autoscaler-client";
/// Port of the adapter's pod.
const PORT: u16 = 8086;
/// Between two loops; the stock client waits ten seconds, or for a pod that cannot be scheduled.
const SCAN: Duration = Duration::from_secs(1);
/// How long a node is not needed before it goes, here.
const UNNEEDED: Duration = Duration::from_secs(5);

/// A way to the adapter that is open.
pub struct Link {
    /// A client of it.
    pub protocol: Protocol,
    /// Ends the way when it is dropped.
    _forward: Forward,
}

/// Waits for the adapter, and opens a way to it.
///
/// # Errors
/// When it is not ready in time, or has no certificate for clients.
pub async fn connect(
    management: &Management,
    tenant: &Tenant,
    generation: Generation,
    patience: Duration,
) -> Result<Link> {
    let pod = ready(tenant, patience).await?;
    let namespace = tenant.tenant_namespace();
    let kubeconfig = management.layout.kubeconfig();
    let kubectl = Kubectl::with(&management.layout, kubeconfig).in_namespace(&namespace);
    let forward = kubectl.port_forward(&format!("pod/{pod}"), PORT).await?;
    let key = async |key: &str| {
        let bytes = tenant.secret(CLIENT, key).await?;
        String::from_utf8(bytes).with_context(|| format!("{key} of {CLIENT} is not text"))
    };
    let shown = Credentials {
        ca: key("ca.crt").await?,
        identity: Some((key("tls.crt").await?, key("tls.key").await?)),
    };
    let name = format!("{ADAPTER}.{namespace}.svc");
    let address = format!("127.0.0.1:{}", forward.port);
    Ok(Link {
        protocol: Protocol::new(&address, &name, &shown, generation)?,
        _forward: forward,
    })
}

/// Waits until a pod of the adapter is ready; its name.
async fn ready(tenant: &Tenant, patience: Duration) -> Result<String> {
    let config = kube::runtime::watcher::Config::default().labels(&selector(ADAPTER));
    let what = "the adapter of the Cluster Autoscaler is ready";
    wait_list(&tenant.parts::<Pod>(), config, what, patience, |pods| {
        let mut ready = pods.iter().filter(|(_, pod)| {
            let status = pod.status.as_ref();
            let conditions = status.and_then(|s| s.conditions.as_ref());
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|c| c.type_ == "Ready" && c.status == "True")
        });
        ready.next().map(|(name, _)| name.clone())
    })
    .await
}

/// The adapter's pod's address, for its metrics.
///
/// # Errors
/// When there is none.
pub async fn address(tenant: &Tenant) -> Result<String> {
    let pods = tenant.pods_of(ADAPTER).await?;
    let pod = pods.first().context("no adapter runs")?;
    let address = pod.status.as_ref().and_then(|s| s.pod_ip.clone());
    address.with_context(|| format!("{} has no address", pod.name_any()))
}

/// A Cluster Autoscaler that gives nodes back after a few seconds.
pub struct Player {
    autoscaler: Autoscaler,
    _link: Forward,
}

impl Player {
    /// One for a tenant cluster whose administrator's client this is.
    #[must_use]
    pub fn new(link: Link, inside: Client) -> Self {
        let defaults = Options {
            unneeded: UNNEEDED,
            ..Options::default()
        };
        let Link { protocol, _forward } = link;
        Self {
            autoscaler: Autoscaler::new(protocol, Inside::new(inside), defaults),
            _link: _forward,
        }
    }

    /// The protocol, for calls of one's own.
    pub fn protocol(&mut self) -> &mut Protocol {
        &mut self.autoscaler.protocol
    }

    /// Goes through loops while `work` lasts; what went wrong in one is told to `say`.
    ///
    /// # Errors
    /// Those of `work`, and of the tenant cluster's API.
    pub async fn during<T>(
        &mut self,
        say: &(dyn Fn(String) + Sync),
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let loops = async {
            let mut scans = tokio::time::interval(SCAN);
            loop {
                scans.tick().await;
                match self.autoscaler.turn().await {
                    Ok(turn) => report(&turn, say),
                    Err(error) => return error,
                }
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            failed = loops => Err(failed),
        }
    }
}

fn report(turn: &Turn, say: &(dyn Fn(String) + Sync)) {
    if let Some(aborted) = &turn.aborted {
        say(format!("a loop was aborted: {aborted}"));
    }
    for (action, said) in &turn.done {
        match said {
            Ok(()) => say(format!("{action:?}")),
            Err(status) => say(format!("{action:?}: {status}")),
        }
    }
}

/// Finds the id of a pool's group: it begins with the pool's name.
///
/// # Errors
/// When the pool is no group in time.
pub async fn group_of(protocol: &mut Protocol, pool: &str, patience: Duration) -> Result<String> {
    let begun = Instant::now();
    let prefix = format!("{pool}.");
    let mut asks = tokio::time::interval(SCAN);
    loop {
        asks.tick().await;
        let failed = match protocol.refresh().await {
            Ok(()) => {
                let groups = protocol.node_groups().await?;
                if let Some(group) = groups.iter().find(|g| g.id.starts_with(&prefix)) {
                    return Ok(group.id.clone());
                }
                format!("there is no group {pool}, only {groups:?}")
            }
            Err(status) => status.to_string(),
        };
        if begun.elapsed() > patience {
            bail!("{failed} after {patience:?}");
        }
    }
}

/// A Deployment whose pods need a node of one processor each.
#[must_use]
pub fn deployment(name: &str, replicas: i32) -> String {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
                    "containers": [{
                        "name": "sleep", "image": IMAGE, "command": ["sleep", "infinity"],
                        "resources": { "requests": { "cpu": "600m" } },
                    }],
                },
            },
        },
    })
    .to_string()
}
