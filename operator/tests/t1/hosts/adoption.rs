//! Nodes that run already and whose management cluster was lost: taken over as they run. The kubelet is played by a
//! process of its name, the rest is real.
//!
//! Invariant: kubeadm is played by what fails a test that calls it; a node that is not taken over is as it was.

use anyhow::{Context as _, Result, ensure};
use api::host::HostPhase;
use api::machine::MachinePhase;
use api::{ConditionType, Host, Machine, names};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testkit::FaultPlan;
use testkit::faults::{Crash, Deaths};
use testkit::fixtures::wait_for;
use testkit::waiting::ask_until;

use super::{World, condition, phase};
use crate::crash::{Hand, Writes, dies, for_deaths};
use crate::support::kubevirt::{node_path, node_status};
use crate::support::site::{apply, tenant_namespace};
use crate::support::{Launch, Operator, PATIENCE};

const CLUSTER_INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
const NODE: &str = "old-x2k9p";
/// Where the API was; not where the stand-in of load balancers has it.
const BEFORE: &str = "198.51.100.1";
/// Of the writes of an operator that takes a node over it dies after one in so many: each life has sessions, and a reset
/// at its end, which take some seconds.
const ONE_IN: u64 = 3;
/// Whom the file on the machine names.
const LOST: &str = "0a0b0c0d-1111-4222-8333-444455556666";

/// A certificate of itself, as PEM.
fn certificate(common_name: &str) -> Result<String> {
    let want = pki::Want {
        signer: pki::Signer::Own,
        ..pki::Want::client("any", "any", common_name, 24)
    };
    Ok(pki::issue(&want, None, Timestamp::now())?.certificate)
}

/// The machine is a node that this authority (base64) is believed by, and that was looked after so many seconds ago.
async fn becomes_node(world: &World, authority: &str, looked: u32) -> Result<()> {
    let client = certificate(&format!("system:node:{NODE}"))?;
    let kubelet = "for f in /proc/[0-9]*; do if [ \"$(cat $f/comm)\" = kubelet ]; then kill ${f#/proc/}; fi; done 2> /dev/null\n\
                   rm -f /run/kubelet; cp /bin/sleep /run/kubelet; setsid /run/kubelet 1000 < /dev/null > /dev/null 2>&1 &";
    let files = format!(
        "rm -f /run/calls; mkdir -p /etc/kubernetes/pki /var/lib/kubelet/pki /var/lib/covey\n\
         printf 'clusters:\\n- cluster:\\n    certificate-authority-data: {authority}\\n    server: https://{BEFORE}:6443\\n' > /etc/kubernetes/kubelet.conf\n\
         printf '%s' '{client}' > /var/lib/kubelet/pki/kubelet-client-current.pem\n\
         echo '{{\"installation\":\"lost\",\"tenantCluster\":\"lost\",\"machine\":\"{LOST}\"}}' > /var/lib/covey/owner.json\n\
         echo $(($(date +%s) - {looked})) > /var/lib/covey/looked"
    );
    world.real.shell(&files).await?;
    world.real.shell(kubelet).await?;
    for name in ["kubeadm", "rc-service", "rc-update"] {
        let log = format!("echo \"{name} $*\" >> /run/calls");
        world.real.program(name, &log).await?;
    }
    Ok(())
}

/// What the tenant cluster's nodes believe, in base64, and its namespace.
async fn authority(world: &World) -> Result<(String, String)> {
    let cluster = world.site.wait_ready("demo").await?;
    let tenant = tenant_namespace(&cluster);
    let info = world.site.tenants.object(&tenant, CLUSTER_INFO);
    let info = info.context("no cluster-info")?;
    let info = info["data"]["kubeconfig"].as_str().unwrap_or_default();
    let data = info
        .lines()
        .find_map(|line| line.trim().strip_prefix("certificate-authority-data: "));
    Ok((data.context("no authority")?.to_owned(), tenant))
}

/// Makes the Host, to be taken over.
async fn list(world: &World) -> Result<()> {
    let host = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
        "metadata": { "name": "a", "namespace": world.site.users },
        "spec": { "address": world.address, "port": world.sshd.port(), "user": "root", "adopt": true,
            "sshKeySecretName": "rack-ssh", "hostKeys": world.sshd.host_keys },
    });
    apply(&world.site.admin, &host).await.map(drop)
}

/// Has the machine looked at again.
async fn look_again(world: &World, why: &str) -> Result<()> {
    change(world, &json!({ "spec": { "labels": { "again": why } } })).await
}

async fn change(world: &World, patch: &Value) -> Result<()> {
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    world.hosts.patch("a", &params, &patch).await?;
    Ok(())
}

async fn make_pool(world: &World) -> Result<()> {
    let pool = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
        "metadata": { "name": "workers", "namespace": world.site.users },
        "spec": { "clusterName": "demo", "replicas": 1, "provider": { "static": {} } },
    });
    apply(&world.site.admin, &pool).await.map(drop)
}

/// The Node as it stayed in the tenant cluster; of a Host that was called otherwise.
fn node(called: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": NODE, "labels": { "kubernetes.io/hostname": NODE } },
        "spec": { "providerID": called }, "status": node_status("True"),
    })
}

async fn is_adoptable(world: &World) -> Result<Host> {
    let is = |host: &Host| phase(host) == Some(HostPhase::Adoptable);
    world.wait("a", is).await
}

/// Waits for the Machine of the node's name.
async fn taken(world: &World) -> Result<Machine> {
    let runs = |machine: Option<&Machine>| {
        let status = machine.and_then(|machine| machine.status.as_ref());
        status.is_some_and(|status| {
            status.phase == Some(MachinePhase::Running) && status.node_name.is_some()
        })
    };
    let found = wait_for(&world.site.machines(), NODE, runs, PATIENCE).await?;
    found.context("gone")
}

/// Machines of the pool that nobody asked to go.
async fn staying(world: &World) -> Result<usize> {
    let machines = world.site.machines_of("workers").await?;
    let stays = |machine: &&Machine| machine.metadata.deletion_timestamp.is_none();
    Ok(machines.iter().filter(stays).count())
}

/// What is on the machine then.
async fn is_as_it_ran(world: &World, machine: &Machine, authority: &str) -> Result<()> {
    let config = world.real.shell("cat /etc/kubernetes/kubelet.conf").await?;
    ensure!(
        config.contains(authority)
            && !config.contains(BEFORE)
            && config.contains("server: https://"),
        "{config}"
    );
    let owner = world.real.shell("cat /var/lib/covey/owner.json").await?;
    ensure!(
        owner.contains(&machine.uid().unwrap_or_default()) && !owner.contains("lost"),
        "{owner}"
    );
    let calls = world.real.shell("cat /run/calls").await?;
    ensure!(calls.contains("rc-service kubelet restart"), "{calls}");
    ensure!(
        !calls.contains("kubeadm") && !calls.contains("containerd"),
        "{calls}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_node_is_taken_over_with_its_name_and_reset_with_its_machine() -> Result<()> {
    let Some(world) = World::new("host-adopt").await? else {
        return Ok(());
    };
    let operator = world.operator()?;
    let (authority, tenant) = authority(&world).await?;
    becomes_node(&world, &authority, 7200).await?;
    let called = format!("static://before/{NODE}");
    ensure!(
        world
            .site
            .tenants
            .put(&tenant, &node_path(NODE), &node(&called))
    );
    // Nobody has looked at it yet: the pool waits until it is known which nodes run.
    list(&world).await?;
    make_pool(&world).await?;
    let machine = taken(&world).await?;
    let status = machine.status.clone().unwrap_or_default();
    ensure!(status.provider_id.as_ref() == Some(&called), "{status:?}");
    ensure!(staying(&world).await? == 1);
    is_as_it_ran(&world, &machine, &authority).await?;
    let host = world.hosts.get("a").await?;
    ensure!(phase(&host) == Some(HostPhase::Joined));
    let found = host
        .status
        .and_then(|status| status.node)
        .context("no node")?;
    ensure!(
        found.name == NODE && found.ca_fingerprints.len() == 1,
        "{found:?}"
    );

    world.site.remove_pool("workers").await?;
    let host = world.available("a").await?;
    let status = host.status.unwrap_or_default();
    ensure!(
        status.claim.is_none() && status.node.is_none(),
        "{status:?}"
    );
    let left = world
        .real
        .shell("ls /etc/kubernetes /var/lib/kubelet /var/lib/covey/owner.json 2> /dev/null || true")
        .await?;
    ensure!(left.is_empty(), "{left}");
    ensure!(
        world
            .site
            .tenants
            .object(&tenant, &node_path(NODE))
            .is_none()
    );
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_another_authority_or_of_a_living_installation_is_left_alone() -> Result<()> {
    let Some(world) = World::new("host-alive").await? else {
        return Ok(());
    };
    let operator = world.operator()?;
    let (authority, tenant) = authority(&world).await?;
    ensure!(world.site.tenants.put(&tenant, &node_path(NODE), &node("")));
    // Another installation looked at it a minute ago.
    let foreign = STANDARD.encode(certificate("another authority")?);
    becomes_node(&world, &foreign, 60).await?;
    list(&world).await?;
    let held = |host: &Host| condition(host, ConditionType::Verified).0 == "OwnedByAnother";
    let host = world.wait("a", held).await?;
    let (_, words) = condition(&host, ConditionType::Verified);
    ensure!(words.contains(names::ANNOTATION_TAKE_OVER), "{words}");
    ensure!(phase(&host) == Some(HostPhase::Quarantined));
    make_pool(&world).await?;
    let waits = |pool: Option<&api::NodePool>| {
        let status = pool.and_then(|pool| pool.status.as_ref());
        status.is_some_and(|status| {
            status
                .conditions
                .iter()
                .any(|c| c.message.contains("NoneLeft"))
        })
    };
    wait_for(&world.site.pools(), "workers", waits, PATIENCE).await?;
    // A person says that it is gone for good. Its kubelet believes another authority.
    let gone = json!({ "metadata": { "annotations": { names::ANNOTATION_TAKE_OVER: LOST } } });
    change(&world, &gone).await?;
    is_adoptable(&world).await?;
    let pool = world.site.pools().get("workers").await?;
    operator
        .reconcile_pool_alone(&world.site, "workers")
        .await?;
    let machines = world.site.machines_of("workers").await?;
    ensure!(
        machines.len() == 1 && machines[0].name_any() != NODE,
        "{pool:?}"
    );
    let owner = world.real.shell("cat /var/lib/covey/owner.json").await?;
    ensure!(owner.contains(LOST), "{owner}");
    let config = world.real.shell("cat /etc/kubernetes/kubelet.conf").await?;
    ensure!(config.contains(BEFORE), "{config}");

    // With ours the Machine that waits gives way to the node.
    becomes_node(&world, &authority, 60).await?;
    look_again(&world, "ours").await?;
    let machine = taken(&world).await?;
    is_as_it_ran(&world, &machine, &authority).await?;
    // It joined by itself, and was nobody's.
    let is_called = || async {
        let node = world.site.tenants.object(&tenant, &node_path(NODE));
        let called = node.context("gone")?["spec"]["providerID"].clone();
        let is = called == format!("static://a/{NODE}");
        anyhow::Ok(is.then_some(()).ok_or_else(|| called.to_string()))
    };
    ask_until("the node's providerID", PATIENCE, is_called).await?;
    ensure!(staying(&world).await? == 1);

    // Another installation takes it over in its turn: what is there is its own.
    world
        .real
        .shell(
            "sed -i 's/\"machine\":\"[^\"]*\"/\"machine\":\"theirs\"/' /var/lib/covey/owner.json",
        )
        .await?;
    look_again(&world, "theirs").await?;
    let host = world.wait("a", held).await?;
    ensure!(phase(&host) == Some(HostPhase::Quarantined));
    world.site.remove_pool("workers").await?;
    world
        .real
        .shell("test -s /etc/kubernetes/kubelet.conf")
        .await?;
    operator.stop().await
}

/// A world, and the operator that is to die next.
struct Stage {
    world: World,
    tenant: String,
    authority: String,
    hand: Hand,
}

impl Stage {
    fn start(world: &World) -> Result<Operator> {
        let plan = FaultPlan::none();
        world.site.tenants.obey(Some(&plan));
        let mut launch = Launch::new(&world.site)?;
        launch.settings.network.reserved = vec!["203.0.113.0/24".parse()?];
        launch.plan(&plan).start(&world.site)
    }

    /// Takes the node over under an operator that dies, and to its end under another one.
    async fn life(&self, crash: Crash) -> Result<bool> {
        let world = &self.world;
        becomes_node(world, &self.authority, 7200).await?;
        let called = format!("static://before/{NODE}");
        ensure!(
            world
                .site
                .tenants
                .put(&self.tenant, &node_path(NODE), &node(&called))
        );
        look_again(world, &Timestamp::now().as_millisecond().to_string()).await?;
        is_adoptable(world).await?;
        let operator = self.hand.take().await?;
        operator.plan.arm(crash);
        make_pool(world).await?;
        let taken_over = async { taken(world).await.map(drop) };
        let died = Box::pin(dies(&operator, taken_over)).await?;
        drop(operator);
        let operator = Self::start(world)?;
        let machine = taken(world).await?;
        is_as_it_ran(world, &machine, &self.authority).await?;
        ensure!(staying(world).await? == 1);
        world.site.remove_pool("workers").await?;
        world.available("a").await?;
        self.hand.give(operator).await;
        Ok(died)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_is_taken_over_once_wherever_the_operator_dies() -> Result<()> {
    let Some(world) = World::new("host-adopt-dies").await? else {
        return Ok(());
    };
    let operator = Stage::start(&world)?;
    let (authority, tenant) = authority(&world).await?;
    operator.settle(&world.site, "demo").await?;
    list(&world).await?;
    world.available("a").await?;
    let stage = Stage {
        world,
        tenant,
        authority,
        hand: Hand::new(operator),
    };
    // The pool's finalizer, the Machine, its Secret, its request, the claim, each step of the Host, the node's labels.
    let deaths = Deaths::asked_for_beside_the_model(ONE_IN);
    let (stages, writes) = (vec![stage], Writes::at_least(8));
    for_deaths(deaths, "adoption", stages, writes, async |stage, crash| {
        Box::pin(stage.life(crash)).await
    })
    .await
}
