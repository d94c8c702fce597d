//! What tells a node's kubelet, where it runs, whom to believe from now on, and has it ask for another certificate: a short pod
//! on the node (`link-node renew`, `links/node/src/renew.rs`) and a Secret with what that writes there.
//!
//! Both are the node's in the tenant cluster: with the Node goes what is left of them, whatever becomes of the operator.
//! Invariant: of one machine there is one name for each, so there are never two pods on one node; the pod ends by itself
//! after [`LONGEST`], and the token in the Secret no later ([`crate::node::bootstrap_token`]).

use std::time::Duration;

use kit_objects::object::Object;
use serde_json::{Value, json};

use crate::desired::pod;
use crate::node::bootstrap_token::{Token, token_id};
use crate::settings::Settings;

/// Where both are: namespaces of addons are exempt from Pod Security.
pub const NAMESPACE: &str = "kube-system";
/// How long the pod may take, pulling its image included.
pub const LONGEST: Duration = Duration::from_mins(5);
/// Whom to believe, in the Secret: certificates, PEM.
pub const BELIEVED: &str = "ca.crt";
/// The token, in the Secret.
pub const TOKEN: &str = "token";
/// Where the pod sees the Secret, and folders of the machine.
const FOLDER: &str = "/renewal";
const MACHINE: &str = "/machine";
/// Folders of the machine that it writes into, as kubeadm lays them out.
const KUBERNETES: &str = "/etc/kubernetes";
const KEYS: &str = "/var/lib/kubelet/pki";
/// Least uid: the program is root, because the files are root's alone.
const ROOT: i64 = 0;

/// What it is done for.
#[derive(Clone, Copy, Debug)]
pub struct Renewed<'a> {
    /// The node, which is called as the Machine.
    pub node: &'a str,
    /// UID of the Node.
    pub node_uid: &'a str,
    /// UID of the Machine.
    pub machine_uid: &'a str,
    /// Which try it is of: when that was begun.
    pub begun: &'a str,
}

/// Name of the pod, and of the Secret.
#[must_use]
pub fn name(machine_uid: &str) -> String {
    format!("covey-renew-{}", token_id(machine_uid))
}

/// The image: one that has the program, as the configuration has it.
#[must_use]
pub fn image(settings: &Settings) -> String {
    let images = &settings.images;
    pod::own_image(settings, &images.link_node_registry, &images.link_node)
}

fn metadata(of: Renewed<'_>) -> Value {
    json!({
        "name": name(of.machine_uid),
        "namespace": NAMESPACE,
        "labels": { api::names::LABEL_MANAGED_BY: api::names::MANAGED_BY },
        "annotations": { api::names::ANNOTATION_RENEWAL: of.begun },
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "Node", "name": of.node, "uid": of.node_uid,
        }],
    })
}

/// The Secret.
#[must_use]
pub fn secret(of: Renewed<'_>, believed: &str, token: &Token) -> Object {
    Object::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": metadata(of),
        "data": { BELIEVED: base64(believed), TOKEN: base64(&token.text()) },
    }))
}

/// The pod. It sees the machine's processes, because it ends the kubelet, which whoever looks after it starts anew; and no
/// network but the node's, because it needs none.
#[must_use]
pub fn pod(of: Renewed<'_>, image: &str) -> Object {
    let mount = |name: &str, path: String| json!({ "name": name, "mountPath": path });
    let folder = |name: &str, path: &str| json!({ "name": name, "hostPath": { "path": path, "type": "Directory" } });
    Object::from_value(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": metadata(of),
        "spec": {
            "activeDeadlineSeconds": LONGEST.as_secs(),
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "renew",
                "image": image,
                "args": ["renew", format!("--folder={FOLDER}"), format!("--machine={MACHINE}")],
                "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
                // Profiles of AppArmor and SELinux keep others from signals to the machine's processes, and from its files.
                "securityContext": { "privileged": true, "runAsUser": ROOT },
                // What it says last is why it failed.
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [
                    { "name": "renewal", "mountPath": FOLDER, "readOnly": true },
                    mount("kubernetes", format!("{MACHINE}{KUBERNETES}")),
                    mount("keys", format!("{MACHINE}{KEYS}")),
                ],
            }],
            "enableServiceLinks": false,
            "hostNetwork": true,
            "hostPID": true,
            "nodeName": of.node,
            "priorityClassName": "system-node-critical",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [{ "operator": "Exists" }],
            "volumes": [
                { "name": "renewal", "secret": { "secretName": name(of.machine_uid), "defaultMode": 0o400 } },
                folder("kubernetes", KUBERNETES),
                folder("keys", KEYS),
            ],
        },
    }))
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: Renewed<'_> = Renewed {
        node: "workers-x2k9p",
        node_uid: "uid-of-node",
        machine_uid: "0a1b2c3d-1111-4222-8333-444455556666",
        begun: "2027-01-31T12:00:00Z",
    };

    #[test]
    fn pod_runs_on_that_node_alone_whatever_its_taints_and_ends_by_itself() {
        let pod = pod(OF, "registry.example.com/link-node:1").value;
        let typed: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod).unwrap();
        let spec = typed.spec.unwrap();
        assert_eq!(spec.node_name.as_deref(), Some(OF.node));
        assert_eq!(spec.active_deadline_seconds, Some(300));
        assert_eq!(spec.restart_policy.as_deref(), Some("Never"));
        assert_eq!(spec.host_pid, Some(true));
        assert_eq!(spec.automount_service_account_token, Some(false));
        let tolerations = spec.tolerations.unwrap();
        assert!(tolerations[0].key.is_none() && tolerations[0].effect.is_none());
        let owners = typed.metadata.owner_references.unwrap();
        assert_eq!(
            (owners[0].kind.as_str(), owners[0].uid.as_str()),
            ("Node", OF.node_uid)
        );
    }

    #[test]
    fn names_are_of_the_machine_and_another_machine_of_the_name_has_others() {
        let other = Renewed {
            machine_uid: "another",
            ..OF
        };
        let token = Token::from_random(&[7; 16], OF.machine_uid);
        let [first, again] = [secret(OF, "a", &token), secret(OF, "a", &token)];
        assert_eq!(first.value, again.value);
        assert_eq!(first.name, pod(OF, "image").name);
        assert_ne!(first.name, pod(other, "image").name);
    }

    #[test]
    fn token_is_in_the_secret_and_not_in_the_pod() {
        let token = Token::from_random(&[7; 16], OF.machine_uid);
        let typed: k8s_openapi::api::core::v1::Secret =
            serde_json::from_value(secret(OF, "certificates", &token).value).unwrap();
        let data = typed.data.unwrap();
        assert_eq!(data[TOKEN].0, token.text().into_bytes());
        assert_eq!(data[BELIEVED].0, b"certificates");
        let pod = pod(OF, "image").value.to_string();
        assert!(!pod.contains(token.secret.reveal()), "{pod}");
    }
}
