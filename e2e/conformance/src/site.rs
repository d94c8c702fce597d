//! The tenant cluster under test, and its nodes: hosts of the lab, reached by SSH, or virtual machines.
//!
//! Invariant: the cluster is one that a user would get: no flag or right is there for the tests, and no addon but those
//! that a suite is about.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use api::node_pool::{Provider, Static};
use lab::programs::KubernetesVersion;
use suites::{
    cluster::{Pool, Tenant, pool::small},
    scenario::{
        PATIENCE, Scenario,
        kubectl::Kubectl,
        lab_hosts::LabHosts,
        workers::{NODES, PODS},
    },
};

use crate::{
    interrupt::Interrupt,
    suite::{Nodes, Suite},
};

/// Of a virtual machine: tests' pods are small, and four of them run beside the addons.
const MEMORY: &str = "2Gi";

/// What the tests are given.
pub(crate) struct Site<'a> {
    s: &'a Scenario,
    tenant: Tenant,
    pool: Pool,
    /// Of the administrator.
    pub(crate) kubeconfig: PathBuf,
}

/// What is made.
pub(crate) struct Wanted {
    pub(crate) suite: Suite,
    pub(crate) version: KubernetesVersion,
    pub(crate) nodes: u8,
}

/// Makes both and waits until pods can run.
///
/// # Errors
/// Also when it is interrupted; hosts that are being made are waited for, so that they can be removed.
pub(crate) async fn make<'a>(
    s: &'a Scenario,
    machines: &mut LabHosts,
    interrupt: &Interrupt,
    wanted: &Wanted,
) -> Result<Site<'a>> {
    let change = |spec: &mut api::TenantClusterSpec| {
        wanted.version.full().clone_into(&mut spec.version);
        // Which zone a node is in, by which volumes are placed, is the cloud controller manager's to say.
        spec.addons.cloud_controller.enabled = wanted.suite != Suite::Conformance;
        spec.addons.csi.enabled = wanted.suite == Suite::Storage;
    };
    let tenant = s.tenant("conformance", change).await?;
    if wanted.suite.nodes() == Nodes::Hosts {
        add_hosts(s, machines, wanted).await?;
    }
    tokio::select! {
        site = settled(s, tenant, wanted) => site,
        () = interrupt.reaches(1) => bail!("interrupted before the first test"),
    }
}

async fn settled<'a>(s: &'a Scenario, tenant: Tenant, wanted: &Wanted) -> Result<Site<'a>> {
    let nodes = i32::from(wanted.nodes);
    let mut spec = small("conformance");
    spec.replicas = nodes;
    let (name, patience) = match wanted.suite.nodes() {
        Nodes::Hosts => {
            spec.provider = Some(Provider {
                static_: Some(Static::default()),
                ..Provider::default()
            });
            ("hosts", PATIENCE)
        }
        Nodes::Machines => {
            s.management.machines().await?;
            ("workers", NODES)
        }
        Nodes::VirtualMachines => {
            s.management.virtual_machines().await?;
            ("workers", NODES)
        }
    };
    if let Some(kubevirt) = spec.provider.as_mut().and_then(|it| it.kubevirt.as_mut()) {
        kubevirt.memory = MEMORY.into();
    }
    tenant.usable(PATIENCE).await?;
    let pool = Pool::create(&tenant, name, spec).await?;
    pool.settled(nodes, patience).await?;
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

async fn add_hosts(s: &Scenario, machines: &mut LabHosts, wanted: &Wanted) -> Result<()> {
    let mut objects = Vec::new();
    for number in 0..wanted.nodes {
        let options = ["--version", wanted.version.full()];
        let host = machines.add(s, &format!("node-{number}"), &options).await?;
        objects.extend(host.objects);
    }
    let manifest = s.file("hosts.json", &suites::scenario::workload::list(&objects))?;
    let manifest = manifest.to_str().context("a path that is no text")?;
    s.manage(&["apply", "-f", manifest]).await.map(drop)
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
