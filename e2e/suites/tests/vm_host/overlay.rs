//! Needs: operator, vm, host, overlay, lab-agent
//!
//! A node whose kernel has WireGuard, a virtual machine's, and one at another site whose kernel may have none, a host of
//! the lab: pods of one reach those of the other through the overlay, sessions of the kernel on one end.
//!
//! Invariant: what crosses goes through a device of the kernel's driver; where the image's kernel has none, the test
//! says so and shows nothing.

use anyhow::{Context as _, Result, ensure};
use api::{ConditionType, Host, condition, tenant_cluster::Overlay};
use futures::future::try_join;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, api::ListParams, runtime::watcher::Config};
use serde_json::json;
use suites::{
    cluster::{
        Tenant,
        wait::{wait_for, wait_list},
    },
    scenario::{
        self, PATIENCE, Scenario,
        kubectl::Kubectl,
        lab_hosts::{LabHost, LabHosts, inside},
        workers::{NODES, PODS},
        workload::Workload,
    },
};

use super::{LEFT, apply, is_free, machine::VirtualMachine, pool, published};

/// Nobody's at the lab's sites, nor the lab's own.
const RANGE: &str = "198.19.1.0/24";
/// Label of the other machine, and its name's beginning.
const RACK: &str = "rack";
/// Where tunnels come to on a machine.
const PORT: u16 = 51820;
/// A device is made, as the program on a node would, and taken away again.
const HAS_WIREGUARD: &str = "if modprobe wireguard && ip link add probe0 type wireguard; then \
                             ip link delete probe0; echo yes; else echo no; fi";
/// Bytes that came out of the tunnels.
const RECEIVED: &str = "cat /sys/class/net/covey0/statistics/rx_bytes";

#[tokio::test]
async fn node_of_a_virtual_machine_reaches_another_site_by_its_kernels_wireguard() {
    let mut machines = LabHosts::default();
    scenario::run("vm-overlay", async |s| vm_overlay(s, &mut machines).await).await;
    machines.end().unwrap();
}

async fn vm_overlay(s: &Scenario, machines: &mut LabHosts) -> Result<()> {
    let overlay = Overlay {
        enabled: true,
        cidr: Some(RANGE.to_owned()),
    };
    let tenant = published(s, |spec| spec.addons.overlay = overlay).await?;
    let vm = VirtualMachine::start(s).await?;
    let said = vm.ssh(HAS_WIREGUARD).await?;
    if said.trim() != "yes" {
        eprintln!("the image's kernel has no WireGuard, nothing is shown: {said}");
        return Ok(());
    }
    let rack = machines.add(s, RACK, &[]).await?;
    tenant.usable(PATIENCE).await?;
    let mut objects = vm.objects()?;
    objects.extend(dialled(&rack)?);
    apply(s, objects).await?;
    let life = life(s, &tenant, &vm, &rack).await;
    match life {
        Ok(()) => Ok(()),
        Err(error) => {
            let tail = "ip -d link show covey0; ip route; \
                        tail -n 40 /var/log/pods/kube-system_covey-overlay-*/*/*.log";
            let vm = format!("{}\n{:?}", vm.logs().await, vm.ssh(tail).await);
            let rack = format!("{:?}", inside(s, &rack.name, tail));
            Err(error.context(format!("--- vm\n{vm}\n--- rack\n{rack}")))
        }
    }
}

/// Its objects, with what its pool selects by and where the other site reaches it.
fn dialled(rack: &LabHost) -> Result<Vec<serde_json::Value>> {
    let mut objects = rack.objects.clone();
    let host = objects.iter_mut().find(|object| object["kind"] == "Host");
    let spec = &mut host.context("no Host is described")?["spec"];
    let address = spec["address"].as_str().context("no address")?;
    spec["overlayEndpoint"] = json!(format!("{address}:{PORT}"));
    spec["labels"] = json!({ "machine": RACK });
    Ok(objects)
}

async fn life(s: &Scenario, tenant: &Tenant, vm: &VirtualMachine, rack: &LabHost) -> Result<()> {
    let hosts: Api<Host> = Api::namespaced(s.client().clone(), &s.namespace);
    is_free(&hosts, "after the first look").await?;
    let before = vm.ssh(LEFT).await?;
    let pools = try_join(pool(tenant, super::NAME), pool(tenant, RACK));
    let (one, other) = pools.await?;
    let settled = try_join(one.settled(1, NODES), other.settled(1, NODES));
    settled.await?;
    tenant.settled(PODS).await?;
    let is_ready = |tenant: &api::TenantCluster| {
        let status = tenant.status.as_ref()?;
        condition::is_true(&status.conditions, ConditionType::OverlayReady).then_some(())
    };
    wait_for(&s.tenants(), "demo", "OverlayReady", PODS, is_ready).await?;
    known_in_the_overlay(tenant).await?;

    let device = vm.ssh("ip -d link show dev covey0").await?;
    ensure!(
        device.split_whitespace().any(|word| word == "wireguard"),
        "its device is none of the kernel's: {device}"
    );
    let there = inside(s, &rack.name, "ip -d link show dev covey0")?;
    eprintln!("the other end of the tunnel is {there}");
    let received = bytes(vm).await?;
    let kubectl = Kubectl::of(s, tenant).await?;
    pods_reach_each_other(tenant, &kubectl).await?;
    let now = bytes(vm).await?;
    ensure!(now > received, "{received} bytes before, {now} after");

    let give_back = json!({ "replicas": 0 });
    try_join(one.patch(give_back.clone()), other.patch(give_back)).await?;
    let what = "nobody has a Host, and all are clean";
    wait_list(&hosts, Config::default(), what, NODES, |all| {
        let is_clean = |host: &Host| {
            let status = host.status.as_ref()?;
            let is_clean = condition::is_true(&status.conditions, ConditionType::Clean);
            (status.claim.is_none() && is_clean).then_some(())
        };
        all.values()
            .all(|host| is_clean(host).is_some())
            .then_some(())
    })
    .await?;
    let left = vm.ssh(LEFT).await?;
    ensure!(left == before, "before:\n{before}\nafter:\n{left}");
    Ok(())
}

/// Both nodes have an address of their own there.
async fn known_in_the_overlay(tenant: &Tenant) -> Result<()> {
    let range: ipnet::IpNet = RANGE.parse()?;
    let nodes = Api::<Node>::all(tenant.admin(PATIENCE).await?);
    let nodes = nodes.list(&ListParams::default()).await?;
    ensure!(nodes.items.len() == 2, "{} nodes", nodes.items.len());
    for node in nodes {
        let status = node.status.unwrap_or_default();
        let addresses = status.addresses.unwrap_or_default();
        let mut internal = addresses.iter().filter(|it| it.type_ == "InternalIP");
        let known = internal.next().context("no InternalIP")?;
        let address: std::net::IpAddr = known.address.parse()?;
        ensure!(range.contains(&address), "known by {addresses:?}");
    }
    Ok(())
}

async fn bytes(vm: &VirtualMachine) -> Result<u64> {
    Ok(vm.ssh(RECEIVED).await?.trim().parse()?)
}

/// A pod on each node asks that of the other one, at the first try.
async fn pods_reach_each_other(tenant: &Tenant, kubectl: &Kubectl) -> Result<()> {
    let web = Workload {
        name: "web",
        replicas: 2,
        config_map: None,
        stays: 0,
    };
    let names = web.deploy(kubectl, PODS).await?;
    let pods = Api::<Pod>::namespaced(tenant.admin(PATIENCE).await?, "default");
    for (from, to) in [(&names[0], &names[1]), (&names[1], &names[0])] {
        let address = pods.get(to).await?.status.and_then(|status| status.pod_ip);
        let address = address.context("no address")?;
        let url = format!("http://{address}:8080/by-overlay");
        let ask = ["exec", from, "--", "wget", "-q", "-O", "-", &url];
        let said = kubectl.run(&ask).await?;
        ensure!(said.trim() == format!("hello from {to}"), "{said}");
    }
    Ok(())
}
