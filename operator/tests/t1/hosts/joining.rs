//! A whole life of a Machine on a Host: claim, join, node, reset. kubeadm and the node are played, the rest is real.
//!
//! Invariant: what plays kubeadm believes whom `cluster-info` of the tenant cluster names, as kubeadm does.

use anyhow::{Context as _, Result, ensure};
use api::host::HostPhase;
use api::machine::MachinePhase;
use api::{MachineAddresses, machine_addresses, names};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;
use testkit::fixtures::wait_for;

use super::machine::Machine;
use super::{World, phase};
use crate::support::kubevirt::{node_path, node_status};
use crate::support::site::{apply, tenant_namespace};
use crate::support::{PATIENCE, Site};

const CLUSTER_INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";

/// Programs of a node. kubeadm keeps what it was told in memory for the test, and the kubelet runs nothing.
pub(crate) async fn programs(real: &Machine, authority: &str) -> Result<()> {
    let kubeadm = format!(
        "if [ \"$1\" = join ]; then cp \"$3\" /run/told; mkdir -p /etc/kubernetes /var/log/pods/a\n\
         echo '    certificate-authority-data: {authority}' > /etc/kubernetes/kubelet.conf; fi"
    );
    real.program("kubeadm", &kubeadm).await?;
    let service = "echo \"rc-service $*\" >> /run/calls";
    real.program("rc-service", service).await?;
    let update = "echo \"rc-update $*\" >> /run/calls";
    real.program("rc-update", update).await
}

/// The authority that the tenant cluster names to who joins.
pub(crate) fn authority(site: &Site, tenant: &str) -> Result<String> {
    let info = site.tenants.object(tenant, CLUSTER_INFO);
    let info = info.context("no cluster-info")?;
    let info = info["data"]["kubeconfig"].as_str().unwrap_or_default();
    let mut lines = info.lines();
    let found = lines.find_map(|line| line.trim().strip_prefix("certificate-authority-data: "));
    Ok(found.context("no authority")?.to_owned())
}

/// Host `a` is taken by a Machine of a pool of one and joins. Gives the Machine's name and the tenant namespace.
pub(super) async fn joins(world: &World) -> Result<(String, String)> {
    let site = &world.site;
    let cluster = site.wait_ready("demo").await?;
    let tenant = tenant_namespace(&cluster);
    programs(&world.real, &authority(site, &tenant)?).await?;
    world.list("a", &world.sshd.host_keys).await?;
    world.available("a").await?;
    let pool = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
        "metadata": { "name": "workers", "namespace": site.users },
        "spec": { "clusterName": "demo", "replicas": 1, "provider": { "static": {} } },
    });
    apply(&site.admin, &pool).await?;
    let joined = |host: &api::Host| phase(host) == Some(HostPhase::Joined);
    let host = world.wait("a", joined).await?;
    let claim = host.status.and_then(|status| status.claim);
    Ok((claim.context("no claim")?.machine_name, tenant))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_of_a_pool_takes_a_host_joins_and_leaves_it_clean() -> Result<()> {
    let Some(world) = World::new("host-join").await? else {
        return Ok(());
    };
    let operator = world.operator()?;
    let site = &world.site;
    let (name, tenant) = joins(&world).await?;
    let told = world.real.shell("cat /run/told").await?;
    let id = format!("static://a/{name}");
    ensure!(told.contains(&id) && told.contains("token"), "{told}");
    let ip = format!("\"value\":\"{}\"", world.address);
    ensure!(told.contains("node-ip") && told.contains(&ip), "{told}");
    let owner = world.real.shell("cat /var/lib/covey/owner.json").await?;
    ensure!(!owner.contains("\"installation\":\"\""), "{owner}");
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "spec": { "providerID": id }, "status": node_status("True"),
    });
    ensure!(site.tenants.put(&tenant, &node_path(&name), &node));
    let runs = |machine: Option<&api::Machine>| {
        let status = machine.and_then(|machine| machine.status.as_ref());
        status.is_some_and(|status| status.phase == Some(MachinePhase::Running))
    };
    let machine = wait_for(&site.machines(), &name, runs, PATIENCE).await?;
    let status = machine.and_then(|machine| machine.status);
    let status = status.context("gone")?;
    ensure!(
        status.provider_id.as_deref() == Some(id.as_str()),
        "{status:?}"
    );
    // The cloud controller manager is told of it, and those who lead traffic to machines are not.
    let told = Api::<MachineAddresses>::namespaced(site.admin.clone(), &tenant);
    let of_it = told.get(machine_addresses::NAME).await?.spec;
    let entry = of_it.machines.get(&name).context("not told")?;
    ensure!(
        entry.provider_id == id && entry.addresses == [world.address.to_string()],
        "{entry:?}"
    );
    ensure!(of_it.addresses.is_empty(), "{of_it:?}");
    let secrets = Api::<Secret>::namespaced(site.admin.clone(), &tenant);
    let secret = secrets.get(&names::user_data_secret(&name)).await?;
    let kept = serde_json::to_string(&secret.data)?;
    ensure!(
        kept.contains("authority") && !kept.contains("token-secret"),
        "{kept}"
    );

    site.remove_pool("workers").await?;
    let host = world.available("a").await?;
    ensure!(host.status.is_some_and(|status| status.claim.is_none()));
    let left = world
        .real
        .shell("ls /etc/kubernetes /var/log/pods /var/lib/covey/owner.json /run/covey/join.yaml 2> /dev/null || true")
        .await?;
    ensure!(left.is_empty(), "{left}");
    ensure!(site.tenants.object(&tenant, &node_path(&name)).is_none());
    let is_forgotten =
        |all: Option<&MachineAddresses>| all.is_some_and(|all| all.spec.machines.is_empty());
    wait_for(&told, machine_addresses::NAME, is_forgotten, PATIENCE).await?;
    // The switch that brings a node back with a boot is where it was.
    let calls = world.real.shell("grep kubelet /run/calls").await?;
    ensure!(
        calls.trim().ends_with("rc-update del kubelet default"),
        "{calls}"
    );
    operator.stop().await
}
