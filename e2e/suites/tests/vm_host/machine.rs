//! A virtual machine that nobody made a node: KubeVirt's, from the lab's worker image, with a key for root and an SSH
//! server whose key is known before it boots.
//!
//! It is no worker of Covey's: what makes it a node comes by SSH, through a load balancer, since the operator dials no
//! address of the pods' network.
//! Invariant: nothing is learnt on first use; whoever answers with another key is not spoken to.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use api::foreign::kubevirt::VirtualMachineInstance;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use lab::worker;
use serde_json::{Value, json};
use suites::{
    cluster::wait::wait_for,
    scenario::{PATIENCE, Scenario, VERSION, workers::NODES},
};
use tempfile::TempDir;
use testkit::waiting::ask_until;

/// Name of the VirtualMachine and of all that goes with it.
pub(crate) const NAME: &str = "vm";
/// Secret with its user data, and the one with the key by which it is reached.
const USER_DATA: &str = "vm-user-data";
const SSH_KEY: &str = "vm-ssh";
/// By which the Service finds it.
const LABEL: (&str, &str) = ("test", "vm-host");
const SSH: u16 = 22;
/// What is read of it beside its own programs: 2 GiB are the least that a node may have.
const MEMORY: &str = "2Gi";
/// Of the disk that takes the place of /var/lib: 10 GiB have to be free there.
const DISK: &str = "14Gi";
/// One command, on emulated processors.
const COMMAND: Duration = Duration::from_secs(120);

/// Root's, whatever the server gives a command.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Makes the lab's worker image a machine that people reach by SSH, at its first boot. Only then somebody listens on
/// port 22, so whoever gets in finds it done.
///
/// The image's own disk has 8 GiB, and a machine with less than 10 free becomes no node. So a larger one takes the
/// place of /var/lib, with all that is there: images are pulled to where preflight looks.
const PREPARE: &str = r#"#!/bin/sh
set -eux

disk=
for block in /sys/block/vd*; do
    if [ "$(cat "$block/serial")" = node-data ]; then disk=/dev/${block##*/}; fi
done
[ -b "$disk" ]
systemctl stop containerd.service
mkfs.ext4 -q -m 0 -L node-data "$disk"
mkdir -p /run/node-data
mount "$disk" /run/node-data
cp -a /var/lib/. /run/node-data/
umount /run/node-data

# As packages have it: who switches a service on says so in its unit. The image has links alone, which a reset takes.
for unit in containerd kubelet; do
    printf '\n[Install]\nWantedBy=multi-user.target\n' >> "/etc/systemd/system/$unit.service"
done
systemctl daemon-reload
systemctl enable node-data.service
systemctl start node-data.service
systemctl start containerd.service

ln -s /lib/systemd/system/ssh.service /etc/systemd/system/multi-user.target.wants/ssh.service
systemctl daemon-reload
systemctl start ssh.service
"#;
/// The image listens a minute after a boot, for people at a worker; this machine does as soon as it is prepared, and not
/// before.
const SILENT: &str = "systemctl mask ssh.socket";
/// Mounts that disk at each boot.
const UNIT: &str = "\
[Unit]
Description=The disk of /var/lib
# Before udev, so it is found by its label and not by a device unit.
DefaultDependencies=no
Before=worker-init.service containerd.service sysinit.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/mount -L node-data /var/lib

[Install]
WantedBy=sysinit.target
";

/// A machine that runs and lets its root in.
pub(crate) struct VirtualMachine {
    /// Its own address, which is its pod's.
    pub(crate) address: String,
    /// Where its SSH server is reached.
    pub(crate) balancer: String,
    /// UID of its instance: another one would be another machine.
    pub(crate) instance: Option<String>,
    keys: Keys,
}

/// Key pairs of root and of the machine, as ssh-keygen makes them.
struct Keys {
    folder: TempDir,
    /// Public half of the machine's, without comment.
    host: String,
}

impl Keys {
    fn make() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        for name in ["root", "host"] {
            let made = std::process::Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
                .arg(folder.path().join(name))
                .status()
                .context("ssh-keygen cannot be run")?;
            ensure!(made.success(), "ssh-keygen: {made}");
        }
        let host = public(&folder.path().join("host.pub"))?;
        Ok(Self { folder, host })
    }

    fn text(&self, name: &str) -> Result<String> {
        let path = self.folder.path().join(name);
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }
}

fn public(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path)?;
    let mut words = text.split_whitespace();
    let both = words.next().zip(words.next());
    let (kind, key) = both.with_context(|| format!("{} has no key", path.display()))?;
    Ok(format!("{kind} {key}"))
}

impl VirtualMachine {
    /// Makes it, and waits until its SSH server answers, which it does once it is prepared.
    pub(crate) async fn start(s: &Scenario) -> Result<Self> {
        s.management.virtual_machines().await?;
        let keys = Keys::make()?;
        let manifest = suites::scenario::workload::list(&[user_data(&keys)?]);
        let manifest = s.file("user-data.json", &manifest)?;
        let manifest = manifest.to_str().context("a path that is no text")?;
        s.manage(&["apply", "-f", manifest]).await?;
        let kind = GroupVersionKind::gvk("kubevirt.io", "v1", "VirtualMachine");
        let machines: Api<DynamicObject> = Api::namespaced_with(
            s.client().clone(),
            &s.namespace,
            &ApiResource::from_gvk(&kind),
        );
        let object = serde_json::from_value(object())?;
        machines.create(&PostParams::default(), &object).await?;
        let balancer = publish(s).await?;
        let instances: Api<VirtualMachineInstance> =
            Api::namespaced(s.client().clone(), &s.namespace);
        let what = "it runs, is prepared, and its SSH server answers";
        let (address, instance) = wait_for(&instances, NAME, what, NODES, running).await?;
        let known = format!("{balancer} {}\n", keys.host);
        std::fs::write(keys.folder.path().join("known_hosts"), known)?;
        let machine = Self {
            address,
            balancer,
            instance,
            keys,
        };
        machine.boot_id().await?;
        Ok(machine)
    }

    /// Secret and `Host`, as people would write them.
    pub(crate) fn objects(&self) -> Result<Vec<Value>> {
        Ok(vec![
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": { "name": SSH_KEY },
                "type": "kubernetes.io/ssh-auth",
                "stringData": { "ssh-privatekey": self.keys.text("root")? },
            }),
            json!({
                "apiVersion": "covey.dev/v1alpha1",
                "kind": "Host",
                "metadata": { "name": NAME },
                "spec": {
                    "address": self.balancer,
                    "nodeAddress": self.address,
                    "user": "root",
                    "sshKeySecretName": SSH_KEY,
                    "hostKeys": [self.keys.host],
                    "labels": { "machine": NAME },
                },
            }),
        ])
    }

    /// Runs a script as root, by SSH, and says what it printed.
    pub(crate) async fn ssh(&self, script: &str) -> Result<String> {
        let path = |name: &str| -> PathBuf { self.keys.folder.path().join(name) };
        let known = format!("UserKnownHostsFile={}", path("known_hosts").display());
        let mut command = tokio::process::Command::new("ssh");
        command
            .args(["-F", "none", "-i"])
            .arg(path("root"))
            .args(["-o", &known, "-o", "StrictHostKeyChecking=yes"])
            .args(["-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"])
            .args(["-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=5"])
            .arg(format!("root@{}", self.balancer))
            .arg(format!("PATH={PATH}\n{script}"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = tokio::time::timeout(COMMAND, command.output()).await;
        let output = output
            .with_context(|| format!("no end within {COMMAND:?}: {script}"))?
            .context("ssh cannot be run")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{script}: {}: {}",
            output.status,
            said.trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Which boot of its kernel this is; waits until it answers.
    pub(crate) async fn boot_id(&self) -> Result<String> {
        ask_until("it answers by SSH", PATIENCE, || async {
            let said = self.ssh("cat /proc/sys/kernel/random/boot_id").await;
            Ok(said
                .map(|said| said.trim().to_owned())
                .map_err(|error| format!("{error:#}")))
        })
        .await
    }

    /// Has it boot anew from the inside, and waits until it is back; says which boot that is.
    pub(crate) async fn reboot(&self) -> Result<String> {
        let before = self.boot_id().await?;
        // The connection may end before the command has.
        if let Err(error) = self.ssh("systemctl reboot").await {
            eprintln!("systemctl reboot: {error:#}");
        }
        ask_until("it is back after a reboot", NODES, || async {
            let now = self.ssh("cat /proc/sys/kernel/random/boot_id").await;
            Ok(match now.map(|now| now.trim().to_owned()) {
                Ok(now) if now != before => Ok(now),
                Ok(_) => Err("it has not gone down yet".to_owned()),
                Err(error) => Err(format!("{error:#}")),
            })
        })
        .await
    }

    /// What it said itself, for messages.
    pub(crate) async fn logs(&self) -> String {
        let tail = "journalctl --no-pager -n 120 -u kubelet -u containerd -u node-data; df -h /var/lib; ip addr; \
                    cat /var/lib/covey/state.json";
        let said = self.ssh(tail).await;
        said.unwrap_or_else(|error| format!("{error:#}"))
    }
}

fn user_data(keys: &Keys) -> Result<Value> {
    let file = |path: &str, content: &str, mode: &str| json!({ "path": path, "content": content, "permissions": mode });
    let key = "/etc/ssh/ssh_host_ed25519_key";
    let data = json!({
        "manage_etc_hosts": true,
        "ssh_authorized_keys": [public(&keys.folder.path().join("root.pub"))?],
        "write_files": [
            file(key, &keys.text("host")?, "0600"),
            file(&format!("{key}.pub"), &format!("{}\n", keys.host), "0644"),
            file("/etc/ssh/sshd_config.d/host.conf", &format!("HostKey {key}\n"), "0644"),
            file("/etc/systemd/system/node-data.service", UNIT, "0644"),
            file("/usr/local/sbin/prepare", PREPARE, "0700"),
        ],
        "bootcmd": [SILENT],
        "runcmd": ["/usr/local/sbin/prepare"],
    });
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": USER_DATA },
        "stringData": { "userdata": format!("#cloud-config\n{data}\n") },
    }))
}

fn object() -> Value {
    let image = format!("ghcr.io/covey-dev/worker:v{VERSION}");
    let disk = |name: &str| json!({ "name": name, "disk": { "bus": "virtio" } });
    let mut data = disk("data");
    data["serial"] = json!("node-data");
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": { "name": NAME },
        // Once: one that ended would come back as another machine, with empty disks.
        "spec": { "runStrategy": "Once", "template": {
            "metadata": { "labels": { LABEL.0: LABEL.1 } },
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "readinessProbe": { "tcpSocket": { "port": SSH }, "periodSeconds": 2 },
                "domain": {
                    // As of workers: nothing is plugged in later.
                    "cpu": { "sockets": 1, "maxSockets": 1, "cores": 2 },
                    "memory": { "guest": MEMORY, "maxGuest": MEMORY },
                    "firmware": { "kernelBoot": {
                        "kernelArgs": worker::KERNEL_ARGUMENTS,
                        "container": {
                            "image": image,
                            "kernelPath": worker::KERNEL,
                            "initrdPath": worker::INITRD,
                        },
                    } },
                    "devices": {
                        "autoattachGraphicsDevice": false,
                        "autoattachSerialConsole": true,
                        "logSerialConsole": true,
                        "rng": {},
                        "disks": [disk("root"), disk("user-data"), data],
                        "interfaces": [{ "name": "default", "bridge": {}, "model": "virtio" }],
                    },
                },
                "networks": [{ "name": "default", "pod": {} }],
                "volumes": [
                    { "name": "root", "containerDisk": { "image": image } },
                    { "name": "user-data", "cloudInitNoCloud": { "secretRef": { "name": USER_DATA } } },
                    { "name": "data", "emptyDisk": { "capacity": DISK } },
                ],
            },
        } },
    })
}

/// A Service of type LoadBalancer that leads to its SSH server; the address.
async fn publish(s: &Scenario) -> Result<String> {
    let services: Api<Service> = Api::namespaced(s.client().clone(), &s.namespace);
    let service = serde_json::from_value(json!({
        "metadata": { "name": NAME },
        "spec": {
            "type": "LoadBalancer",
            "selector": { LABEL.0: LABEL.1 },
            "ports": [{ "port": SSH }],
        },
    }))?;
    services.create(&PostParams::default(), &service).await?;
    let has = "has the address of a load balancer";
    wait_for(&services, NAME, has, PATIENCE, |service| {
        let status = service.status.as_ref()?.load_balancer.as_ref()?;
        status.ingress.as_ref()?.first()?.ip.clone()
    })
    .await
}

/// Its address and UID, once its SSH server answers.
fn running(instance: &VirtualMachineInstance) -> Option<(String, Option<String>)> {
    let status = instance.status.as_ref()?;
    let conditions = status.conditions.as_ref()?;
    let is_ready = conditions
        .iter()
        .any(|condition| condition.r#type == "Ready" && condition.status == "True");
    let runs = status.phase.as_deref() == Some("Running") && is_ready;
    let address = status.interfaces.as_ref()?.first()?.ip_address.clone()?;
    runs.then(|| (address, instance.uid()))
}
