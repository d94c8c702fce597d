//! Files that a machine is given besides those of its join: what the tenant cluster and the node pool say
//! of registries, proxy, trusted authorities, time, kubelet and disks.
//!
//! Invariant: nothing where nothing was asked for; what a user wrote is a value in a file or a file's
//! whole content, never part of a script. `validate` let it in, and what it would not let in is left out
//! here, so that no text breaks out of its line.

use std::collections::BTreeMap;

use api::node_pool::{Disk, Kubelet};
use api::tenant_cluster::{Nodes, Proxy, RegistryMirror};
use serde_json::{Map, Value, json};

use crate::text::url;

/// Where `kubeadm join` finds what it changes in the kubelet's configuration
/// (`JoinConfiguration.patches`, kubeadm `util/patches`).
pub(super) const PATCHES: &str = "/run/covey/patches";
/// Beside the join's own files.
const DIRECTORY: &str = "/run/covey";

/// What the kubelet evicts at, unless it is told all of it (kubelet `eviction/defaults_linux.go`): with
/// one signal in its configuration it has no defaults for the others.
const EVICTION_HARD: [(&str, &str); 5] = [
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
];

/// A file of the machine.
pub(super) struct HostFile {
    pub(super) path: String,
    /// Permissions, in octal digits.
    pub(super) mode: &'static str,
    pub(super) content: String,
}

/// What is changed in the kubelet's configuration; none where nothing is.
pub(super) fn kubelet(kubelet: &Kubelet, gates: &BTreeMap<String, bool>) -> Option<HostFile> {
    if kubelet.is_default() && gates.is_empty() {
        return None;
    }
    let patch = format!("{:#}\n", kubelet_patch(kubelet, gates));
    let path = format!("{PATCHES}/kubeletconfiguration+merge.json");
    Some(file(path, patch))
}

/// All others; the script that puts them into force is the last one.
pub(super) fn files(disks: &[Disk], nodes: Option<&Nodes>) -> Vec<HostFile> {
    let mut files = Vec::new();
    let mounts = mounts(disks);
    let nodes = nodes.filter(|nodes| !nodes.is_default());
    if mounts.is_none() && nodes.is_none() {
        return files;
    }
    let prepare = match &mounts {
        Some(_) => format!("{HEADING}{MOUNT}{PREPARE}"),
        None => format!("{HEADING}{PREPARE}"),
    };
    files.extend(mounts);
    files.extend(nodes.into_iter().flat_map(of_nodes));
    files.push(file(format!("{DIRECTORY}/prepare.sh"), prepare));
    files
}

fn of_nodes(nodes: &Nodes) -> Vec<HostFile> {
    let mut files = Vec::new();
    files.extend(nodes.registry_mirrors.iter().filter_map(mirror));
    files.extend(nodes.proxy.as_ref().and_then(proxy));
    for (number, pem) in nodes.trusted_cas.iter().enumerate() {
        let path = format!("{DIRECTORY}/authorities/covey-{number}.crt");
        files.push(file(path, format!("{}\n", pem.trim_end())));
    }
    files.extend(time(nodes));
    files
}

fn file(path: String, content: String) -> HostFile {
    HostFile {
        path,
        mode: "0644",
        content,
    }
}

const HEADING: &str = "\
#!/bin/sh
# Puts into force what the tenant cluster asks of its machines.
";

/// Makes file systems and mounts them, once: after a restart of the machine alone the disks have what they
/// had, and after one of its pod, as the root disk has, nothing.
const MOUNT: &str = "\
while read -r name path; do
  disk=/dev/disk/by-id/virtio-$name
  udevadm settle --timeout=30 --exit-if-exists=\"$disk\"
  blkid \"$disk\" >/dev/null || mkfs.ext4 -q \"$disk\"
  mkdir -p \"$path\"
  grep -q \"^$disk \" /etc/fstab || echo \"$disk $path ext4 defaults,nofail 0 2\" >>/etc/fstab
  mountpoint -q \"$path\" || mount \"$path\"
done </run/covey/disks
";

/// Puts the files into force that are read only when a program starts. Distributions keep trusted
/// authorities in one of two places.
const PREPARE: &str = "\
if [ -d /run/covey/authorities ]; then
  if command -v update-ca-certificates >/dev/null; then
    mkdir -p /usr/local/share/ca-certificates
    cp /run/covey/authorities/*.crt /usr/local/share/ca-certificates/
    update-ca-certificates
  elif command -v update-ca-trust >/dev/null; then
    cp /run/covey/authorities/*.crt /etc/pki/ca-trust/source/anchors/
    update-ca-trust
  else
    echo 'this image has neither update-ca-certificates nor update-ca-trust: it goes on trusting its own authorities alone' >&2
  fi
fi
systemctl daemon-reload
systemctl try-restart containerd.service systemd-timesyncd.service chrony.service chronyd.service
exit 0
";

/// Name and place of the disks that are mounted, one a line, as a shell reads it.
fn mounts(disks: &[Disk]) -> Option<HostFile> {
    let line = |disk: &Disk| {
        let path = disk.mount_path.as_deref()?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'_' | b'-');
        let is_plain = path.bytes().all(plain) && crate::text::is_label(&disk.name);
        is_plain.then(|| format!("{} {path}\n", disk.name))
    };
    let lines: String = disks.iter().filter_map(line).collect();
    (!lines.is_empty()).then(|| file(format!("{DIRECTORY}/disks"), lines))
}

/// A merge patch (RFC 7386) of `kubelet.config.k8s.io/v1beta1`.
fn kubelet_patch(kubelet: &Kubelet, gates: &BTreeMap<String, bool>) -> Value {
    let mut patch = Map::new();
    if !gates.is_empty() {
        patch.insert("featureGates".to_owned(), json!(gates));
    }
    if let Some(pods) = kubelet.max_pods {
        patch.insert("maxPods".to_owned(), json!(pods));
    }
    for (field, reserved) in [
        ("systemReserved", &kubelet.system_reserved),
        ("kubeReserved", &kubelet.kube_reserved),
    ] {
        if !reserved.is_empty() {
            patch.insert(field.to_owned(), json!(reserved));
        }
    }
    if !kubelet.eviction_hard.is_empty() {
        let mut all: Map<String, Value> = EVICTION_HARD
            .iter()
            .map(|(signal, amount)| ((*signal).to_owned(), json!(amount)))
            .collect();
        let asked = kubelet.eviction_hard.iter();
        all.extend(asked.map(|(signal, amount)| (signal.clone(), json!(amount))));
        patch.insert("evictionHard".to_owned(), Value::Object(all));
    }
    Value::Object(patch)
}

/// How containerd is told of mirrors (containerd `docs/hosts.md`). Strings of JSON are strings of TOML.
fn mirror(mirror: &RegistryMirror) -> Option<HostFile> {
    let folder = match mirror.registry.as_str() {
        "*" => "_default",
        registry => url::registry_host(registry).ok().map(|()| registry)?,
    };
    let mut content = String::new();
    for endpoint in &mirror.endpoints {
        let below = url::endpoint(endpoint).ok()?;
        content.push_str(&format!(
            "[host.{}]\ncapabilities = [\"pull\", \"resolve\"]\n",
            json!(endpoint)
        ));
        if below {
            content.push_str("override_path = true\n");
        }
    }
    let path = format!("/etc/containerd/certs.d/{folder}/hosts.toml");
    Some(file(path, content))
}

/// containerd alone: what else runs on a node is in pods.
fn proxy(proxy: &Proxy) -> Option<HostFile> {
    let mut content = "[Service]\n".to_owned();
    let mut set = |variable: &str, value: &str| {
        content.push_str(&format!("Environment=\"{variable}={value}\"\n"));
    };
    for (variable, address) in [("HTTP_PROXY", &proxy.http), ("HTTPS_PROXY", &proxy.https)] {
        if let Some(address) = address {
            url::proxy(address).ok()?;
            set(variable, address);
        }
    }
    let mut straight = vec!["localhost", "127.0.0.1"];
    for host in &proxy.no_proxy {
        url::no_proxy(host).ok()?;
        straight.push(host);
    }
    set("NO_PROXY", &straight.join(","));
    let path = "/etc/systemd/system/containerd.service.d/50-covey-proxy.conf";
    Some(file(path.to_owned(), content))
}

/// For either of the two programs that images have; the other's file is read by nobody.
fn time(nodes: &Nodes) -> Vec<HostFile> {
    let servers = nodes.ntp_servers.iter().map(String::as_str);
    let servers: Vec<&str> = servers
        .filter(|server| crate::text::host(server, None).is_ok())
        .collect();
    if servers.is_empty() {
        return Vec::new();
    }
    let timesyncd = format!("[Time]\nNTP={}\n", servers.join(" "));
    let chrony: String = servers
        .iter()
        .map(|server| format!("server {server} iburst\n"))
        .collect();
    vec![
        file(
            "/etc/systemd/timesyncd.conf.d/50-covey.conf".to_owned(),
            timesyncd,
        ),
        file("/etc/chrony/sources.d/covey.sources".to_owned(), chrony),
    ]
}

#[cfg(test)]
mod tests;
