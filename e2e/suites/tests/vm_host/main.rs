//! Needs: operator, vm, host, lab-agent
//!
//! A virtual machine that is reached by SSH becomes a node, boots anew and is the same node, and is given back: what
//! machines in namespaces cannot show, since their clock, kernel, control groups and first process are others'.
//!
//! `cargo test --workspace --test vm_host -- --test-threads=1` with the lab up and the operator in it; its processors
//! are emulated, so it takes minutes.
//! Invariant: it is reached as any machine elsewhere would be, by SSH and a load balancer, and the tenant cluster as
//! well; nothing of Covey's is on it before its first node.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod machine;
mod overlay;

use anyhow::{Context as _, Result, ensure};
use api::{
    ConditionType, Host, condition,
    host::HostPhase,
    names,
    node_pool::{HostSelector, Provider, Static},
    tenant_cluster::EndpointType,
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use suites::{
    cluster::{
        Pool, Tenant,
        pool::small,
        wait::{wait_for, wait_gone},
    },
    scenario::{
        self, PATIENCE, Scenario,
        kubectl::Kubectl,
        workers::{NODES, PODS},
        workload::{Workload, list},
    },
};

use machine::{NAME, VirtualMachine};

/// Where konnectivity is published beside the API: the machine is no pod of the tenant namespace, so it is let in
/// nowhere else.
const KONNECTIVITY: i32 = 8132;
/// s; more than preflight takes for the delay of an answer.
const SKEW: u32 = 300;
/// What a node could have left, one line each.
const LEFT: &str = r#"
for place in /etc/kubernetes /var/lib/kubelet /etc/cni/net.d /var/lib/cni /run/flannel /var/lib/covey/owner.json \
    /var/lib/covey/overlay /var/log/pods /var/log/containers; do
    if [ -e "$place" ]; then find "$place" ! -type d; fi
done | sort
for link in /sys/class/net/*; do echo "link ${link##*/}"; done
if pidof kubelet > /dev/null; then echo "process kubelet"; fi
ctr -n k8s.io containers ls -q | sed 's/^/container /'
awk '$5 ~ "^/var/lib/kubelet/" { print "mount " $5 }' /proc/self/mountinfo
nft list tables | sed -n '/kube-proxy\|flannel/p'
for table in nat filter mangle; do iptables -w -t "$table" -S | sed -n "/^-N KUBE\|^-N CNI\|^-N FLANNEL/s/^/$table /p"; done
"#;

#[tokio::test]
async fn virtual_machine_reached_by_ssh_is_the_same_node_after_a_reboot_and_is_given_back() {
    scenario::run("vm-host", vm_host).await;
}

async fn vm_host(s: &Scenario) -> Result<()> {
    let tenant = published(s, |_| {}).await?;
    let vm = VirtualMachine::start(s).await?;
    tenant.usable(PATIENCE).await?;
    let life = life(s, &tenant, &vm).await;
    match life {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(vm.logs().await)),
    }
}

/// A tenant cluster that machines elsewhere reach.
async fn published(
    s: &Scenario,
    change: impl FnOnce(&mut api::TenantClusterSpec),
) -> Result<Tenant> {
    s.tenant("demo", |spec| {
        let endpoint = &mut spec.control_plane.endpoint;
        endpoint.type_ = EndpointType::LoadBalancer;
        endpoint.konnectivity_port = Some(KONNECTIVITY);
        change(spec);
    })
    .await
}

async fn life(s: &Scenario, tenant: &Tenant, vm: &VirtualMachine) -> Result<()> {
    let hosts: Api<Host> = Api::namespaced(s.client().clone(), &s.namespace);
    is_a_machine_of_its_own(vm).await?;
    let before = vm.ssh(LEFT).await?;
    apply(s, vm.objects()?).await?;
    is_free(&hosts, "after the first look").await?;
    has_a_clock_of_its_own(&hosts, vm).await?;

    let pool = pool(tenant, NAME).await?;
    pool.settled(1, NODES).await?;
    tenant.settled(PODS).await?;
    let joined = Seen::of(s, tenant, &pool).await?;
    joined.is_at(vm)?;
    uses_the_control_groups(vm).await?;
    let kubectl = Kubectl::of(s, tenant).await?;
    pod_answers(&kubectl).await?;

    let boot = vm.reboot().await?;
    let nodes = Api::<Node>::all(tenant.admin(PATIENCE).await?);
    let what = "it is ready in its new boot";
    wait_for(&nodes, &joined.machine, what, NODES, |node| {
        (boot_of(node)? == boot && is_ready(node)).then_some(())
    })
    .await?;
    // In a container of this boot, by way of an agent of this boot.
    let ask = ask("deployment/web", "after-reboot");
    let ask: Vec<_> = ask.iter().map(String::as_str).collect();
    let said = kubectl.until(PODS, &ask, |said| said.starts_with("hello from web-"));
    said.await.context("pods do not answer after a reboot")?;
    pool.settled(1, PODS).await?;
    tenant.settled(PODS).await?;
    let after = Seen::of(s, tenant, &pool).await?;
    ensure!(
        after.boot == boot && after.boot != joined.boot,
        "boots: {} before, {boot} on the machine, {} of the node",
        joined.boot,
        after.boot
    );
    after.is_at(vm)?;
    let same = |seen: &Seen| Seen {
        boot: String::new(),
        ..seen.clone()
    };
    ensure!(
        same(&joined) == same(&after) && after.instance == vm.instance,
        "{joined:?} before the reboot, {after:?} after it"
    );
    is_given_back(tenant, &pool, &hosts).await?;
    let left = vm.ssh(LEFT).await?;
    ensure!(
        left == before,
        "before its node:\n{before}\nafter it was given back:\n{left}"
    );
    hosts.delete(NAME, &DeleteParams::default()).await?;
    wait_gone(&hosts, NAME, None, PATIENCE).await
}

/// systemd is its first process, control groups are of version 2, and its kernel has booted by itself.
async fn is_a_machine_of_its_own(vm: &VirtualMachine) -> Result<()> {
    let said = vm
        .ssh("cat /proc/1/comm; readlink -f /proc/1/exe; stat -fc %T /sys/fs/cgroup")
        .await?;
    let said: Vec<_> = said.lines().collect();
    ensure!(
        matches!(said[..], ["systemd", program, "cgroup2fs"] if program.ends_with("/systemd")),
        "first process and control groups: {said:?}"
    );
    let here = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let there = vm.boot_id().await?;
    ensure!(here.trim() != there, "its kernel is this machine's");
    Ok(())
}

/// Kubelet and runtime agree on systemd's slices, and delegate controllers there.
async fn uses_the_control_groups(vm: &VirtualMachine) -> Result<()> {
    let group = "/sys/fs/cgroup/kubepods.slice";
    let said = vm
        .ssh(&format!(
            "cat {group}/cgroup.controllers; ls -d {group}/*.slice"
        ))
        .await?;
    let controllers = said.lines().next().unwrap_or_default();
    let has = |wanted: &&str| controllers.split_whitespace().any(|it| it == *wanted);
    ensure!(["cpu", "memory", "pids"].iter().all(has), "{said}");
    ensure!(said.contains(".slice"), "no pod is in {group}: {said}");
    Ok(())
}

/// A clock that is wrong keeps it from becoming a node, in words; set right it is free again. In namespaces there is no
/// clock to set.
async fn has_a_clock_of_its_own(hosts: &Api<Host>, vm: &VirtualMachine) -> Result<()> {
    vm.ssh(&format!("date -s @$(($(date +%s) + {SKEW}))"))
        .await?;
    look_again(hosts, "wrong").await?;
    let what = "says that its clock is off";
    wait_for(hosts, NAME, what, PATIENCE, |host| {
        let mut conditions = host.status.as_ref()?.conditions.iter();
        let verified = conditions.find(|it| it.type_ == ConditionType::Verified.as_str())?;
        let says = verified.status == "False"
            && verified.reason == "NotUsable"
            && verified.message.contains("its clock is");
        (says && phase(host) == HostPhase::Unverified).then_some(())
    })
    .await?;
    vm.ssh(&format!("date -s @$(($(date +%s) - {SKEW}))"))
        .await?;
    look_again(hosts, "right").await?;
    is_free(hosts, "with its clock set right").await
}

/// A changed spec is looked at at once.
async fn look_again(hosts: &Api<Host>, clock: &str) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": { "labels": { "clock": clock } } }));
    hosts.patch(NAME, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// A pool of one, of the Hosts that are labelled so.
async fn pool(tenant: &Tenant, machine: &str) -> Result<Pool> {
    let mut spec = small("demo");
    spec.health.join_timeout = "14m".into();
    spec.provider = Some(Provider {
        static_: Some(Static {
            selector: HostSelector {
                match_labels: [("machine".to_owned(), machine.to_owned())].into(),
                ..HostSelector::default()
            },
        }),
        ..Provider::default()
    });
    Pool::create(tenant, machine, spec).await
}

async fn apply(s: &Scenario, objects: Vec<serde_json::Value>) -> Result<()> {
    let manifest = s.file("hosts.json", &list(&objects))?;
    let manifest = manifest.to_str().context("a path that is no text")?;
    s.manage(&["apply", "-f", manifest]).await.map(drop)
}

/// Who a node is, by everybody's word.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    /// Name of Machine and node.
    machine: String,
    machine_uid: Option<String>,
    node_uid: Option<String>,
    /// `/etc/machine-id`, as the node says.
    machine_id: String,
    /// The boot, as the node says.
    boot: String,
    provider_id: String,
    addresses: Vec<(String, String)>,
    /// Of the virtual machine.
    instance: Option<String>,
}

impl Seen {
    async fn of(s: &Scenario, tenant: &Tenant, pool: &Pool) -> Result<Self> {
        use api::foreign::kubevirt::VirtualMachineInstance;
        let machines = pool.list().await?;
        ensure!(machines.len() == 1, "{:?}", machines.keys());
        let (name, machine) = machines.into_iter().next().context("no Machine")?;
        let node = Api::<Node>::all(tenant.admin(PATIENCE).await?);
        let node = node.get(&name).await?;
        ensure!(is_ready(&node), "{:?}", node.status);
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.clone().unwrap_or_default();
        let info = status.node_info.context("no nodeInfo")?;
        let wanted = format!("v{}", machine.spec.version);
        ensure!(info.kubelet_version == wanted, "{}", info.kubelet_version);
        let told = machine.status.clone().unwrap_or_default().provider_id;
        let provider_id = spec.provider_id.context("the node has no providerID")?;
        ensure!(
            told.as_ref() == Some(&provider_id),
            "the Machine has {told:?}"
        );
        let addresses = status.addresses.unwrap_or_default().into_iter();
        let instances = Api::<VirtualMachineInstance>::namespaced(s.client().clone(), &s.namespace);
        Ok(Self {
            machine_uid: machine.uid(),
            node_uid: node.uid(),
            machine_id: info.machine_id,
            boot: info.boot_id,
            provider_id,
            addresses: addresses.map(|it| (it.type_, it.address)).collect(),
            instance: instances.get(NAME).await?.uid(),
            machine: name,
        })
    }

    /// It is our Host's, and known by the machine's own address.
    fn is_at(&self, vm: &VirtualMachine) -> Result<()> {
        let id = names::static_provider_id(NAME, &self.machine);
        ensure!(self.provider_id == id, "{id} wanted: {self:?}");
        let wanted = ("InternalIP".to_owned(), vm.address.clone());
        ensure!(self.addresses.contains(&wanted), "{wanted:?}: {self:?}");
        Ok(())
    }
}

fn boot_of(node: &Node) -> Option<&str> {
    Some(&node.status.as_ref()?.node_info.as_ref()?.boot_id)
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

/// What asks a pod for something by way of konnectivity.
fn ask(pod: &str, path: &str) -> [String; 8] {
    let url = format!("http://127.0.0.1:8080/{path}");
    ["exec", pod, "--", "wget", "-q", "-O", "-", &url].map(str::to_owned)
}

/// A pod runs, and answers by exec and logs, at the first try.
async fn pod_answers(kubectl: &Kubectl) -> Result<()> {
    let web = Workload {
        name: "web",
        replicas: 1,
        config_map: None,
        stays: 0,
    };
    let pods = web.deploy(kubectl, PODS).await?;
    let pod = pods.into_iter().next().context("no pod")?;
    let ask = ask(&pod, "by-exec");
    let said = kubectl
        .run(&ask.iter().map(String::as_str).collect::<Vec<_>>())
        .await?;
    ensure!(said.trim() == format!("hello from {pod}"), "{said}");
    let log = kubectl.run(&["logs", &pod]).await?;
    ensure!(log.contains("GET /by-exec"), "no request in {log}");
    Ok(())
}

/// Deletion of the tenant cluster has the machine reset, and proven clean.
async fn is_given_back(tenant: &Tenant, pool: &Pool, hosts: &Api<Host>) -> Result<()> {
    tenant.delete().await?;
    let mut was_reset = false;
    let what = "nobody has it, and it is clean";
    wait_for(hosts, NAME, what, NODES, |host| {
        was_reset |= phase(host) == HostPhase::Resetting;
        let status = host.status.as_ref()?;
        let is_clean = condition::is_true(&status.conditions, ConditionType::Clean);
        (status.claim.is_none() && is_clean).then_some(())
    })
    .await?;
    ensure!(was_reset, "it was never reset");
    tenant.gone(PATIENCE).await?;
    pool.outlives_its_cluster(PATIENCE).await?;
    pool.machines_are("no Machine is left", PATIENCE, |all| {
        all.is_empty().then_some(())
    })
    .await?;
    pool.delete().await?;
    pool.gone(PATIENCE).await
}

fn phase(host: &Host) -> HostPhase {
    let status = host.status.as_ref();
    status.and_then(|status| status.phase).unwrap_or_default()
}

/// Waits until everything is proven of it, and nobody has it.
async fn is_free(hosts: &Api<Host>, when: &str) -> Result<()> {
    let what = format!("is Available and Clean {when}");
    wait_for(hosts, NAME, &what, PATIENCE, |host| {
        let status = host.status.as_ref()?;
        let is = |type_| condition::is_true(&status.conditions, type_);
        let proven =
            is(ConditionType::Reachable) && is(ConditionType::Verified) && is(ConditionType::Clean);
        let current = status.observed_generation == host.metadata.generation;
        (current && proven && phase(host) == HostPhase::Available && status.claim.is_none())
            .then_some(())
    })
    .await
}
