//! Needs: operator, ccm, csi, vm, lab-agent
//!
//! A tenant cluster with one worker: it joins by itself, its Machine follows the virtual machine,
//! its pods answer what kubectl asks, names and Services are found, a load balancer leads to them from
//! outside, a volume keeps what they wrote, and nothing of it stays.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use api::{ConditionType, Machine, condition, machine::MachinePhase, names};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::{Api, ResourceExt as _, api::ListParams, runtime::watcher::Config};
use suites::{
    cluster::{
        Tenant,
        pool::remains,
        wait::{wait_for, wait_list},
    },
    scenario::{
        self, PATIENCE, Scenario,
        workers::{NODES, PODS, Workers},
        workload::Workload,
    },
};

use super::{load_balancer, volumes};

/// Shorter than the pool's `joinTimeout`, so that a machine that hangs is there to be looked at, its
/// console included, when the test fails.
const JOINED: Duration = Duration::from_secs(540);

#[tokio::test]
async fn one_worker_joins_and_runs_pods_and_leaves_nothing_behind() {
    scenario::run("worker", worker).await;
}

async fn worker(s: &Scenario) -> Result<()> {
    let workers = s
        .workers(|cluster, _| {
            cluster.addons.cloud_controller.enabled = true;
            cluster.addons.csi.enabled = true;
        })
        .await?;
    let name = joined(&workers).await?;
    let tenant = &workers.tenant;
    // A tenant with nodes is Ready only with the addons that they need.
    tenant.settled(PODS).await?;
    node_is_the_machines(&workers, &name).await?;
    token_is_gone(tenant, &name).await?;
    load_balancer::node_is_initialised(&workers).await?;
    let pod = pods_answer(&workers).await?;
    // Both are there when the tenant cluster goes.
    load_balancer::is_reached(&workers, &pod).await?;
    volumes::next_pod_reads_it(&workers.kubectl).await?;
    nothing_is_left(&workers).await
}

/// Follows the Machine until it runs; returns its name.
async fn joined(workers: &Workers) -> Result<String> {
    let mut phases: Vec<(String, MachinePhase)> = Vec::new();
    let pool = &workers.pool;
    let what = "the only Machine runs and is ready";
    let found = pool.machines_are(what, JOINED, |all| {
        for (name, machine) in all {
            let phase = machine.status.as_ref().and_then(|status| status.phase);
            let now = (name.clone(), phase.unwrap_or_default());
            if phases.last() != Some(&now) {
                phases.push(now);
            }
        }
        let (name, machine) = all.iter().next()?;
        let status = machine.status.as_ref()?;
        condition::is_true(&status.conditions, ConditionType::Ready).then(|| name.clone())
    });
    let name = found.await?;
    ensure!(
        phases.iter().all(|(other, _)| *other == name),
        "one Machine was wanted, and there were more: {phases:?}"
    );
    // It went forward all the time, by way of a virtual machine that runs.
    let order = |phase: &MachinePhase| {
        use MachinePhase::{Booting, Creating, Joining, Pending, Running};
        let all = [Pending, Creating, Booting, Joining, Running];
        all.iter().position(|known| known == phase)
    };
    let steps: Vec<_> = phases.iter().map(|(_, phase)| order(phase)).collect();
    ensure!(
        steps.iter().all(Option::is_some) && steps.is_sorted(),
        "phases went {phases:?}"
    );
    ensure!(
        phases.iter().any(|(_, p)| *p == MachinePhase::Booting)
            && phases
                .last()
                .is_some_and(|(_, p)| *p == MachinePhase::Running),
        "phases went {phases:?}"
    );
    pool.settled(1, NODES).await?;
    Ok(name)
}

/// Machine, virtual machine and node have one name, one provider ID and one address.
async fn node_is_the_machines(workers: &Workers, name: &str) -> Result<()> {
    let machine = workers.pool.machines().get(name).await?;
    let status = machine.status.clone().unwrap_or_default();
    let admin = workers.tenant.admin(PATIENCE).await?;
    let nodes = Api::<Node>::all(admin).list(&ListParams::default()).await?;
    let found: Vec<_> = nodes.iter().map(|node| node.name_any()).collect();
    ensure!(
        found == [name],
        "nodes are {found:?}, the Machine is {name}"
    );
    let node = nodes.items.into_iter().next().context("no node")?;
    let spec = node.spec.unwrap_or_default();
    let id = names::kubevirt_provider_id(name);
    ensure!(
        spec.provider_id.as_deref() == Some(&id) && status.provider_id.as_deref() == Some(&id),
        "{id} wanted, the node has {:?}, the Machine {:?}",
        spec.provider_id,
        status.provider_id
    );
    let instance = workers.pool.instances().get(name).await?;
    let instance = instance.status.unwrap_or_default();
    ensure!(instance.phase.as_deref() == Some("Running"), "{instance:?}");
    let interfaces = instance.interfaces.unwrap_or_default();
    let address = interfaces.into_iter().find_map(|i| i.ip_address);
    let address = address.context("the instance has no address")?;
    let node_status = node.status.unwrap_or_default();
    let of_node: Vec<_> = node_status
        .addresses
        .into_iter()
        .flatten()
        .map(|a| (a.type_, a.address))
        .collect();
    let wanted = ("InternalIP".to_owned(), address.clone());
    ensure!(
        of_node.contains(&wanted) && status.addresses.iter().any(|a| a.address == address),
        "the instance has {address}, the node {of_node:?}, the Machine {:?}",
        status.addresses
    );
    let version = node_status.node_info.map(|info| info.kubelet_version);
    let expected = format!("v{}", machine.spec.version);
    ensure!(version.as_ref() == Some(&expected), "kubelet {version:?}");
    Ok(())
}

/// The token was for this one join, and whoever reads the user data now learns nothing.
async fn token_is_gone(tenant: &Tenant, machine: &str) -> Result<()> {
    let inside = tenant.admin(PATIENCE).await?;
    let secrets: Api<Secret> = Api::namespaced(inside, "kube-system");
    let tokens = Config::default().fields("type=bootstrap.kubernetes.io/token");
    wait_list(&secrets, tokens, "no token is left", PATIENCE, |all| {
        all.is_empty().then_some(())
    })
    .await?;
    let data: Api<Secret> = tenant.parts();
    let name = names::user_data_secret(machine);
    wait_for(&data, &name, "is empty", PATIENCE, |secret| {
        let data = secret.data.as_ref()?;
        let told = |value: &k8s_openapi::ByteString| {
            String::from_utf8_lossy(&value.0).contains("bootstrapToken")
        };
        (!data.values().any(told)).then_some(())
    })
    .await
}

/// exec, logs, DNS and a Service, each at the first try: the cluster has said that it is ready.
/// Returns the name of the pod that answers.
async fn pods_answer(workers: &Workers) -> Result<String> {
    let kubectl = &workers.kubectl;
    let web = Workload {
        name: "web",
        replicas: 1,
        config_map: None,
        stays: 0,
    };
    let pods = web.deploy(kubectl, PODS).await?;
    let pod = &pods[0];
    let exec = async |command: &[&str]| {
        let exec = ["exec", pod, "--"];
        kubectl.run(&[&exec[..], command].concat()).await
    };
    let host = exec(&["hostname"]).await?;
    ensure!(host.trim() == pod, "exec ran in {host:?}");

    // Deployments begin before CoreDNS runs on the first node; users wait for it, too.
    kubectl.dns_is_there(PODS).await?;
    let found = exec(&["nslookup", "web.default.svc.cluster.local"]).await?;
    let service = ["get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"];
    let address = kubectl.run(&service).await?;
    ensure!(found.contains(&address), "{address} is not in {found}");
    let url = "http://web.default.svc.cluster.local/by-name";
    let said = exec(&["wget", "-q", "-O", "-", url]).await?;
    ensure!(said.trim() == format!("hello from {pod}"), "{said}");

    let log = kubectl.run(&["logs", pod]).await?;
    ensure!(log.contains("GET /by-name"), "the request is not in {log}");
    Ok(pod.clone())
}

/// Deletion of the tenant cluster takes its machines with it; the node pool is the user's, stays,
/// says why it is idle, and goes when it is told to.
async fn nothing_is_left(workers: &Workers) -> Result<()> {
    let (tenant, pool) = (&workers.tenant, &workers.pool);
    let left = remains(tenant).await?;
    let kinds: BTreeMap<_, _> = left
        .iter()
        .filter_map(|what| what.split_once(' '))
        .collect();
    ensure!(
        kinds.len() == 4,
        "VirtualMachine, instance, pod and Machine were to be there, so that their end proves \
         something: {left:?}"
    );
    tenant.delete().await?;
    tenant.gone(PATIENCE).await?;
    let no_machine = |all: &BTreeMap<String, Machine>| all.is_empty().then_some(());
    pool.machines_are("no Machine is left", PATIENCE, no_machine)
        .await?;
    let left = remains(tenant).await?;
    ensure!(left.is_empty(), "{left:?} outlived the tenant cluster");
    pool.outlives_its_cluster(PATIENCE).await?;
    pool.delete().await?;
    pool.gone(PATIENCE).await
}
