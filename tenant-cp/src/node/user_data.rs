//! cloud-init user data: what makes a machine a node at its first boot.
//!
//! It is plain `#cloud-config` (`write_files`, `runcmd`, `ssh_authorized_keys`), so that
//! any image with cloud-init, containerd, kubelet and kubeadm will do. It writes a kubeadm
//! `JoinConfiguration` that pins the tenant's authority, joins, and takes every copy of the token
//! away again.
//! Invariant: no secret is on a command line, in the environment, or outside files that only root
//! can read; the same input gives the same bytes.

use std::collections::BTreeMap;

use api::node_pool::{Disk, Kubelet};
use api::tenant_cluster::{EndpointStatus, Nodes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Taint;
use pki::Key;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::network::addresses::host_and_port;
use crate::node::bootstrap_token::Token;
use crate::node::host_files;

/// Where the files of the join are in the machine: in memory, gone with a reboot.
pub const DIRECTORY: &str = "/run/covey";
/// The script that joins; a unit of the image may start it before cloud-init's last stage does.
pub const SCRIPT: &str = "/run/covey/join.sh";
/// The kubeadm configuration with the token; gone once the machine has joined.
pub const CONFIGURATION: &str = "/run/covey/join.yaml";

/// Key of the Secret that KubeVirt reads (`cloudInitNoCloud.secretRef`), and sessions with machines that are there
/// already.
pub const USER_DATA: &str = "userdata";
/// Key of the same Secret with [`authority_digest`], for machines that are told in a session; it stays when the rest
/// is blanked.
pub const AUTHORITY: &str = "authority";

/// What is known of a machine before it boots.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Name of the Machine, which becomes the node's.
    pub name: String,
    /// What the node is to the provider; none where that is known only once the machine is made: the cloud
    /// controller manager then sets it. Example: `kubevirt://demo-workers-a1b2c`.
    pub provider_id: Option<String>,
    /// Labels of the node; those that are not [`is_self_assignable`] are left out here.
    pub labels: BTreeMap<String, String>,
    /// Taints that the node registers with.
    pub taints: Vec<Taint>,
    /// Public keys for the image's default user, in the form of `authorized_keys`.
    pub ssh_authorized_keys: Vec<String>,
    /// Settings of the kubelet.
    pub kubelet: Kubelet,
    /// Feature gates of the kubelet, of those that its version has.
    pub feature_gates: BTreeMap<String, bool>,
    /// Its further disks.
    pub disks: Vec<Disk>,
    /// What all machines of the tenant cluster are given; none where that is not known.
    pub nodes: Option<Nodes>,
    /// Whether a cloud controller will initialise the node (addon `cloudController`); until it has,
    /// nothing is scheduled there.
    pub cloud_provider_external: bool,
}

/// Why there is no user data.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// The authority is not a certificate.
    #[error("the tenant's certificate authority cannot be read: look at the Secret ca")]
    AuthorityUnreadable,
    /// It could not be written as YAML, which is a bug.
    #[error("the user data cannot be written as YAML")]
    Yaml,
}

/// The user data of a machine that has joined: a restart of it must find something that cloud-init
/// accepts, without a token in it.
#[must_use]
pub fn blank_user_data() -> &'static str {
    "#cloud-config\n{}\n"
}

/// The user data of a machine that is to join. `endpoint`: where the tenant's API answers; `ca_pem`:
/// the certificates of its authority.
///
/// # Errors
/// [`Error`].
pub fn user_data(
    endpoint: &EndpointStatus,
    ca_pem: &str,
    token: &Token,
    machine: &Machine,
) -> Result<Key, Error> {
    let pins = pki::public_key_pins(ca_pem).ok_or(Error::AuthorityUnreadable)?;
    // As JSON, which every reader of YAML understands alike (`on` and `1:20` mean different things
    // in YAML 1.1 and 1.2).
    let configuration = format!("{:#}\n", configuration(endpoint, &pins, token, machine));
    let file = |path: &str, mode: &str, content: &str| json!({ "path": path, "owner": "root:root", "permissions": mode, "content": content });
    let mut files = vec![file(CONFIGURATION, "0600", &configuration)];
    let kubelet = host_files::kubelet(&machine.kubelet, &machine.feature_gates);
    let more = host_files::files(&machine.disks, machine.nodes.as_ref());
    files.extend(
        kubelet
            .iter()
            .chain(&more)
            .map(|more| file(&more.path, more.mode, &more.content)),
    );
    // Last: its appearance is what a unit of the image may wait for.
    files.push(file(SCRIPT, "0700", JOIN));
    let mut data = json!({
        "write_files": files,
        // The machine's own name is looked up by kubeadm and the kubelet; no DNS knows it.
        "manage_etc_hosts": "localhost",
        "runcmd": [["sh", SCRIPT], ["sh", "-c", FORGET]],
    });
    if !machine.ssh_authorized_keys.is_empty() {
        data["ssh_authorized_keys"] = json!(machine.ssh_authorized_keys);
    }
    Ok(Key::new(format!("#cloud-config\n{}", yaml(&data)?)))
}

/// What a machine is told to join that is there already and boots with nothing: one JSON document, for who tells it
/// in a session. Its fields: `configuration`, kubeadm's; `kubelet`, what is changed in the kubelet's configuration,
/// where anything is. Disks, keys of users and files of the tenant cluster's `spec.nodes` are not in it: such a
/// machine has its own.
///
/// # Errors
/// [`Error`].
pub fn session_data(
    endpoint: &EndpointStatus,
    ca_pem: &str,
    token: &Token,
    machine: &Machine,
) -> Result<Key, Error> {
    let pins = pki::public_key_pins(ca_pem).ok_or(Error::AuthorityUnreadable)?;
    let mut data = json!({ "configuration": configuration(endpoint, &pins, token, machine) });
    if let Some(patch) = host_files::kubelet(&machine.kubelet, &machine.feature_gates) {
        data["kubelet"] = json!(patch.content);
    }
    Ok(Key::new(data.to_string()))
}

/// What a machine is told whose node is taken over as it runs: one JSON document as [`session_data`]'s. Its field
/// `adoption` has `server`, the URL of the API, and `authority`, its certificates in base64. No secret.
///
/// # Errors
/// [`Error::AuthorityUnreadable`].
pub fn adoption_data(endpoint: &EndpointStatus, ca_pem: &str) -> Result<String, Error> {
    pki::public_key_pins(ca_pem).ok_or(Error::AuthorityUnreadable)?;
    let server = host_and_port(&endpoint.host, endpoint.port);
    let adoption = json!({
        "server": format!("https://{server}"),
        "authority": STANDARD.encode(ca_pem),
    });
    Ok(json!({ "adoption": adoption }).to_string())
}

/// Digest (SHA-256, hexadecimal) of the authority that the kubelet of a machine believes once it joined: no secret,
/// and what tells that it joined this tenant cluster.
#[must_use]
pub fn authority_digest(ca_pem: &str) -> String {
    hex::encode(Sha256::digest(ca_pem))
}

/// Joins until it has worked. Whoever takes the lock first does the work; others wait for it and
/// find nothing left to do.
const JOIN: &str = "\
#!/bin/sh
# Makes this machine a node of its tenant cluster, once.
cd /run/covey || exit 1
exec 9>lock
flock 9
if [ -e prepare.sh ]; then
  sh prepare.sh
  rm -f prepare.sh
fi
while [ -e join.yaml ]; do
  if kubeadm join --config join.yaml; then
    rm -f join.yaml
  else
    kubeadm reset --force
    sleep 3
  fi
done
";

/// cloud-init keeps what it was given; it runs this as its last deed.
const FORGET: &str = "\
rm -f /var/lib/cloud/instance/user-data.txt* /var/lib/cloud/instance/cloud-config.txt \
/var/lib/cloud/instance/obj.pkl /run/cloud-init/combined-cloud-config.json";

fn yaml(value: &Value) -> Result<String, Error> {
    serde_saphyr::to_string(value).map_err(|_| Error::Yaml)
}

/// `kubeadm.k8s.io/v1beta4`, which kubeadm knows from 1.31 on.
fn configuration(
    endpoint: &EndpointStatus,
    pins: &[String],
    token: &Token,
    machine: &Machine,
) -> Value {
    let id = machine.provider_id.iter();
    let id = id.map(|id| json!({ "name": "provider-id", "value": id }));
    let mut arguments: Vec<Value> = id.collect();
    let labels: Vec<String> = machine
        .labels
        .iter()
        .filter(|(key, _)| is_self_assignable(key))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if !labels.is_empty() {
        arguments.push(json!({ "name": "node-labels", "value": labels.join(",") }));
    }
    if machine.cloud_provider_external {
        arguments.push(json!({ "name": "cloud-provider", "value": "external" }));
    }
    let mut registration = json!({
        "criSocket": "unix:///run/containerd/containerd.sock",
        "imagePullPolicy": "IfNotPresent",
        "kubeletExtraArgs": arguments,
        "name": machine.name,
    });
    if !machine.taints.is_empty() {
        registration["taints"] = json!(machine.taints);
    }
    let mut join = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": { "bootstrapToken": {
            "apiServerEndpoint": host_and_port(&endpoint.host, endpoint.port),
            // Any of them will do (kubeadm `pubkeypin.CheckAny`), so a machine joins whichever of two
            // authorities cluster-info names.
            "caCertHashes": pins,
            "token": token.text(),
        }},
        "nodeRegistration": registration,
    });
    if !machine.kubelet.is_default() || !machine.feature_gates.is_empty() {
        join["patches"] = json!({ "directory": host_files::PATCHES });
    }
    join
}

/// Labels of Kubernetes' own domains that a kubelet may put on its own node
/// (k8s.io/kubelet `pkg/apis/well_known_labels.go`).
const OWN_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Whether a kubelet may put this label on its own node. All others the kubelet itself refuses
/// (`--node-labels`) and the admission plugin NodeRestriction too: the operator sets them.
#[must_use]
pub fn is_self_assignable(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return true;
    };
    let within = |suffix: &str| {
        domain
            .strip_suffix(suffix)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if !within("kubernetes.io") && !within("k8s.io") {
        return true;
    }
    OWN_LABELS.contains(&key) || within("kubelet.kubernetes.io") || within("node.kubernetes.io")
}

#[cfg(test)]
mod tests;
