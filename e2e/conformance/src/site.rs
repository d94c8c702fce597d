//! The tenant cluster under test, and its nodes: hosts of the lab, reached by SSH.
//!
//! Invariant: the cluster is one that a user would get: no flag, right or addon is there for the tests.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use api::node_pool::{Provider, Static};
use lab::programs::KubernetesVersion;
use suites::{
    cluster::{Pool, Tenant, pool::small},
    scenario::{PATIENCE, Scenario, kubectl::Kubectl, lab_hosts::LabHosts, workers::PODS},
};

/// What the tests are given.
pub(crate) struct Site<'a> {
    s: &'a Scenario,
    tenant: Tenant,
    pool: Pool,
    /// Of the administrator.
    pub(crate) kubeconfig: PathBuf,
}

/// Makes both and waits until pods can run.
pub(crate) async fn make<'a>(
    s: &'a Scenario,
    machines: &mut LabHosts,
    version: KubernetesVersion,
    nodes: u8,
) -> Result<Site<'a>> {
    let change = |spec: &mut api::TenantClusterSpec| version.full().clone_into(&mut spec.version);
    let tenant = s.tenant("conformance", change).await?;
    let mut objects = Vec::new();
    for number in 0..nodes {
        let options = ["--version", version.full()];
        let host = machines.add(s, &format!("node-{number}"), &options).await?;
        objects.extend(host.objects);
    }
    let manifest = s.file("hosts.json", &suites::scenario::workload::list(&objects))?;
    let manifest = manifest.to_str().context("a path that is no text")?;
    s.manage(&["apply", "-f", manifest]).await?;
    tenant.usable(PATIENCE).await?;
    let mut spec = small("conformance");
    spec.replicas = i32::from(nodes);
    spec.provider = Some(Provider {
        static_: Some(Static::default()),
        ..Provider::default()
    });
    let pool = Pool::create(&tenant, "hosts", spec).await?;
    pool.settled(i32::from(nodes), PATIENCE).await?;
    tenant.settled(PODS).await?;
    let kubectl = Kubectl::of(s, &tenant).await?;
    kubectl.dns_is_there(PODS).await?;
    let text = tenant.kubeconfig(PATIENCE).await?;
    let kubeconfig = s.file("admin.kubeconfig", &text)?;
    Ok(Site {
        s,
        tenant,
        pool,
        kubeconfig,
    })
}

impl Site<'_> {
    /// Gives the machines back, while there is a cluster that they can be drained from.
    pub(crate) async fn end(&self) -> Result<()> {
        self.pool
            .patch(serde_json::json!({ "replicas": 0 }))
            .await?;
        self.pool.settled(0, PODS).await?;
        self.tenant.delete().await?;
        self.tenant.gone(PATIENCE).await?;
        let hosts = ["delete", "hosts", "--all", "--wait", "-n"];
        let arguments = [&hosts[..], &[self.s.namespace.as_str()]].concat();
        self.s.manage(&arguments).await.map(drop)
    }
}
