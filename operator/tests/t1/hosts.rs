//! Hosts: a machine in namespaces of its own behind a real SSH server, seen by the operator.
//!
//! Invariant: what the machine says is what its own programs say; where no address but the loopback one is there,
//! which no Host may have, these tests are skipped as where there is no `sshd`.

use std::net::{IpAddr, UdpSocket};

use anyhow::{Context as _, Result, ensure};
use api::condition::is_true;
use api::host::HostPhase;
use api::{ConditionType, Host, Machine, names};
use jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use provider_static::life::choose;
use serde_json::{Value, json};
use testkit::fixtures::{wait_for, wait_gone};
use testkit::programs::or_skip;

use crate::support::site::apply;
use crate::support::{Launch, Operator, PATIENCE, Site};

mod adoption;
pub(crate) mod joining;
mod last_cluster;

#[path = "../../providers/static/tests/t1/machine.rs"]
#[allow(
    dead_code,
    reason = "shared with the provider's tests, which ask it more"
)]
pub(crate) mod machine;
#[path = "../../providers/static/tests/t1/sshd.rs"]
#[allow(dead_code, reason = "as above")]
pub(crate) mod sshd;

use sshd::Sshd;

const MACHINE_ID: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f9";

/// An installation, a machine, and the way to it.
struct World {
    site: Site,
    hosts: Api<Host>,
    real: machine::Machine,
    sshd: Sshd,
    address: IpAddr,
}

impl World {
    /// None where it cannot be.
    async fn new(prefix: &str) -> Result<Option<Self>> {
        let Some(address) = own_address()? else {
            return Ok(None);
        };
        let Some(site) = Site::new(prefix).await? else {
            return Ok(None);
        };
        let real = machine::Machine::start(machine::Flavour::Debian).await?;
        prepare(&real, address).await?;
        let sshd = Sshd::inside(real.first()).await?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/ssh-auth",
            "metadata": { "name": "rack-ssh", "namespace": site.users },
            "stringData": { "ssh-privatekey": sshd.login() },
        });
        apply(&site.admin, &secret).await?;
        // The operator reads Secrets where a TenantCluster is.
        site.create("demo").await?;
        let hosts = Api::namespaced(site.admin.clone(), &site.users);
        Ok(Some(Self {
            site,
            hosts,
            real,
            sshd,
            address,
        }))
    }

    /// An operator for which this machine's addresses are not among the management cluster's.
    fn operator(&self) -> Result<Operator> {
        let mut launch = Launch::new(&self.site)?;
        launch.settings.network.reserved = vec!["203.0.113.0/24".parse()?];
        launch.start(&self.site)
    }

    /// Makes a Host of the machine.
    async fn list(&self, name: &str, keys: &[String]) -> Result<()> {
        let host = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
            "metadata": { "name": name, "namespace": self.site.users },
            "spec": { "address": self.address, "port": self.sshd.port(), "user": "root",
                "sshKeySecretName": "rack-ssh", "hostKeys": keys },
        });
        apply(&self.site.admin, &host).await.map(drop)
    }

    async fn wait(&self, name: &str, is: impl Fn(&Host) -> bool + Send + Sync) -> Result<Host> {
        let found = wait_for(&self.hosts, name, |host| host.is_some_and(&is), PATIENCE).await?;
        found.context("gone")
    }

    async fn available(&self, name: &str) -> Result<Host> {
        self.wait(name, |host| phase(host) == Some(HostPhase::Available))
            .await
    }

    /// A Machine that nobody reconciles: its tenant cluster is not there.
    async fn machine(&self, name: &str) -> Result<Machine> {
        let machine = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
            "metadata": { "name": name, "namespace": self.site.users },
            "spec": { "clusterName": "other", "clusterUID": "0a1b2c3d", "poolName": "w", "version": "1.35.4",
                "provider": { "static": {} } },
        });
        let machines = Api::<Machine>::namespaced(self.site.admin.clone(), &self.site.users);
        let machine = serde_json::from_value(machine)?;
        Ok(machines.create(&PostParams::default(), &machine).await?)
    }
}

/// This machine's address, by which others in it are reached; none where they cannot be.
pub(crate) fn own_address() -> Result<Option<IpAddr>> {
    // Nothing is sent: it is asked which address would be the sender's.
    let own = || -> Result<IpAddr> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect("203.0.113.1:9")?;
        Ok(socket.local_addr()?.ip())
    };
    let Some(own) = or_skip(own())? else {
        return Ok(None);
    };
    Ok(sshd::is_possible()?.then_some(own))
}

/// What the machine lacks of a real one: it is a part of one whose kernel and processes it cannot choose.
pub(crate) async fn prepare(real: &machine::Machine, address: IpAddr) -> Result<()> {
    let id = format!("echo {MACHINE_ID} > /etc/machine-id; mkdir -p /run/sshd");
    real.shell(&id).await?;
    real.shell(
        "mount -t tmpfs tmpfs /sys/fs/cgroup; touch /sys/fs/cgroup/cgroup.controllers; \
         printf 'MemTotal: 8388608 kB\\nSwapTotal: 0 kB\\n' > /run/meminfo; mount --bind /run/meminfo /proc/meminfo",
    )
    .await?;
    // It is behind the address of the machine that plays it.
    real.shell(&format!("ip addr add {address} dev lo")).await?;
    real.program("modprobe", "exit 0").await?;
    real.program("systemctl", "exit 0").await?;
    real.program("iptables", "exit 0").await?;
    for name in ["containerd", "kubeadm"] {
        real.program(name, "exit 0").await?;
    }
    real.program("kubelet", "echo Kubernetes v1.35.4").await?;
    real.program("df", "echo 'x 1 1 52428800 1% /var/lib'")
        .await?;
    real.program(
        "uname",
        "case $1 in -m) echo x86_64 ;; *) echo 6.1.0-28-amd64 ;; esac",
    )
    .await
}

fn phase(host: &Host) -> Option<HostPhase> {
    host.status.as_ref().and_then(|status| status.phase)
}

fn condition(host: &Host, type_: ConditionType) -> (String, String) {
    let mut all = host.status.iter().flat_map(|status| &status.conditions);
    let found = all.find(|condition| condition.type_ == type_.as_str());
    found.map_or_else(Default::default, |found| {
        (found.reason.clone(), found.message.clone())
    })
}

/// Writes a status with the resourceVersion that it was decided with.
async fn write(client: &Client, host: &Host, status: &Value) -> Result<()> {
    let object = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
        "metadata": { "name": host.name_any(), "namespace": host.namespace(),
            "resourceVersion": host.resource_version() },
        "status": status,
    });
    // The operator's own name: what is left out is taken away.
    kit_client::write::apply_status(client, &object, operator::FIELD_MANAGER, true).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_is_seen_and_becomes_available_and_then_nothing_is_written() -> Result<()> {
    let Some(world) = World::new("host-seen").await? else {
        return Ok(());
    };
    let operator = world.operator()?;
    world.list("a", &world.sshd.host_keys).await?;
    let host = world.available("a").await?;
    let status = host.status.clone().context("no status")?;
    let facts = status.facts.context("no facts")?;
    ensure!(facts.machine_id == MACHINE_ID, "{facts:?}");
    ensure!(
        facts.architecture == "amd64" && facts.memory.0 == "8192Mi",
        "{facts:?}"
    );
    ensure!(
        facts.host_key.starts_with("ssh-ed25519 SHA256:"),
        "{facts:?}"
    );
    for type_ in [
        ConditionType::Reachable,
        ConditionType::Verified,
        ConditionType::Clean,
    ] {
        ensure!(is_true(&status.conditions, type_), "{type_:?}");
    }
    // Looked at anew, nothing changes.
    let window = world.site.api.audit().window()?;
    let again = operator::controllers::host::reconcile(
        std::sync::Arc::new(host.clone()),
        std::sync::Arc::clone(&operator.context),
    );
    again.await?;
    let writes = window.writes_of(&world.site.user())?;
    let of_hosts: Vec<_> = writes
        .iter()
        .map(|write| format!("{write:?}"))
        .filter(|write| write.contains("hosts"))
        .collect();
    ensure!(of_hosts.is_empty(), "{of_hosts:?}");
    // Listed twice.
    world.list("b", &world.sshd.host_keys).await?;
    let second = |host: &Host| condition(host, ConditionType::Verified).0 == "Duplicate";
    world.wait("b", second).await?;
    // Traces of a node.
    world
        .real
        .shell("mkdir -p /etc/kubernetes; touch /etc/kubernetes/kubelet.conf")
        .await?;
    let touch = Patch::Merge(json!({ "spec": { "labels": { "rack": "a" } } }));
    world
        .hosts
        .patch("a", &PatchParams::default(), &touch)
        .await?;
    let dirty = world
        .wait("a", |host| {
            condition(host, ConditionType::Clean).0 == "TracesLeft"
        })
        .await?;
    ensure!(phase(&dirty) == Some(HostPhase::Unverified));
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_host_key_is_told_with_the_fingerprint_that_was_seen() -> Result<()> {
    let Some(world) = World::new("host-key").await? else {
        return Ok(());
    };
    let operator = world.operator()?;
    let other = sshd::public(&sshd::key(russh::keys::Algorithm::Ed25519));
    world.list("a", &[other]).await?;
    let refused = |host: &Host| condition(host, ConditionType::Reachable).0 == "HostKeyUnknown";
    let host = world.wait("a", refused).await?;
    let (_, words) = condition(&host, ConditionType::Reachable);
    ensure!(
        words.contains("SHA256:") && words.contains("Host.spec.hostKeys"),
        "{words}"
    );
    ensure!(phase(&host) == Some(HostPhase::Unverified));
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_machines_one_gets_the_host_which_is_then_not_let_go_but_by_its_uid() -> Result<()> {
    let Some(world) = World::new("host-claim").await? else {
        return Ok(());
    };
    let operator = world.operator()?;
    world.list("a", &world.sshd.host_keys).await?;
    let host = world.available("a").await?;
    let (one, two) = (world.machine("w-1").await?, world.machine("w-2").await?);
    let claim = |machine: &Machine| {
        let status = choose::claim(&host, machine, Timestamp::now());
        serde_json::to_value(status.unwrap_or_default())
    };
    let (first, second) = (claim(&one)?, claim(&two)?);
    write(&world.site.admin, &host, &first).await?;
    ensure!(
        write(&world.site.admin, &host, &second).await.is_err(),
        "both have it"
    );
    world.hosts.delete("a", &DeleteParams::default()).await?;
    let told = |host: &Host| {
        condition(host, ConditionType::Clean)
            .1
            .contains(names::ANNOTATION_ABANDON)
    };
    let host = world.wait("a", told).await?;
    let claim = host
        .status
        .clone()
        .unwrap_or_default()
        .claim
        .context("no claim")?;
    ensure!(claim.machine_uid == one.uid().unwrap_or_default());
    let uid = host.uid().unwrap_or_default();
    let abandon =
        Patch::Merge(json!({ "metadata": { "annotations": { names::ANNOTATION_ABANDON: uid } } }));
    world
        .hosts
        .patch("a", &PatchParams::default(), &abandon)
        .await?;
    wait_gone(&world.hosts, "a", PATIENCE).await?;
    operator.stop().await
}
