//! Pods of a tenant cluster that answer: the lab's testserver, as users would deploy something.
//!
//! Invariant: the pods satisfy Pod Security "restricted" unless they are made to look at their node.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::kubectl::Kubectl;

/// The image, which workers of the lab have already.
pub const IMAGE: &str = "ghcr.io/covey-dev/testserver:1";
/// Plain HTTP; over UDP, an echo.
pub const HTTP: u16 = 8080;
/// TLS: the webhook and the aggregated API.
pub const HTTPS: u16 = 8443;
/// Where [`Workload::config_map`] is mounted.
pub const MOUNT: &str = "/etc/testserver";

/// A Deployment of testservers and a Service of the same name, in the namespace `default`.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// Name of both.
    pub name: &'a str,
    /// Pods; not two of them on one node.
    pub replicas: i32,
    /// A ConfigMap to mount at [`MOUNT`]; its key `ca.crt` is who may call the aggregated API.
    pub config_map: Option<&'a str>,
    /// For how many seconds a pod that is to end is not told so yet, as pods behind load balancers
    /// commonly have it: until then others may still send it requests.
    pub stays: u32,
}

impl Workload<'_> {
    /// The name of the Service as API servers call it.
    #[must_use]
    pub fn host(&self) -> String {
        format!("{}.default.svc", self.name)
    }

    /// Both objects, for [`Kubectl::apply`].
    #[must_use]
    pub fn manifest(&self) -> String {
        let labels = json!({ "app": self.name });
        let mut container = json!({
            "name": "testserver", "image": IMAGE, "args": [self.host()],
            "ports": [{ "containerPort": HTTP }, { "containerPort": HTTPS }],
            "readinessProbe": {
                "httpGet": { "path": "/ready", "port": HTTP }, "periodSeconds": 2, "timeoutSeconds": 5,
            },
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] },
            },
        });
        if self.stays > 0 {
            container["lifecycle"] = json!({ "preStop": { "sleep": { "seconds": self.stays } } });
        }
        let mut volumes = Vec::new();
        if let Some(name) = self.config_map {
            volumes.push(json!({ "name": "config", "configMap": { "name": name } }));
            container["volumeMounts"] = json!([{ "name": "config", "mountPath": MOUNT }]);
            let file = format!("{MOUNT}/ca.crt");
            container["env"] = json!([{ "name": "REQUESTHEADER_CA", "value": file }]);
        }
        let apart = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": labels },
        }] } });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": self.name },
            "spec": {
                "replicas": self.replicas, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "affinity": apart, "terminationGracePeriodSeconds": 5 + self.stays,
                        "automountServiceAccountToken": false,
                        "securityContext": {
                            "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                            "seccompProfile": { "type": "RuntimeDefault" },
                        },
                        "containers": [container], "volumes": volumes,
                    },
                },
            },
        });
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": self.name },
            "spec": { "selector": labels, "ports": [
                { "name": "http", "port": 80, "targetPort": HTTP },
                { "name": "https", "port": 443, "targetPort": HTTPS },
            ] },
        });
        list(&[deployment, service])
    }

    /// Applies it and waits until all pods are ready; returns their names, sorted.
    ///
    /// # Errors
    /// When that takes longer.
    pub async fn deploy(&self, kubectl: &Kubectl, patience: Duration) -> Result<Vec<String>> {
        kubectl.apply(&self.manifest()).await?;
        let deployment = format!("deployment/{}", self.name);
        let timeout = format!("--timeout={}s", patience.as_secs());
        let rolled = ["rollout", "status", &deployment, &timeout];
        let limit = patience + Duration::from_secs(10);
        kubectl.run_within(limit, &rolled).await?;
        let pods = self.pods(kubectl).await?;
        let wanted = usize::try_from(self.replicas)?;
        ensure!(pods.len() == wanted, "{wanted} pods wanted, not {pods:?}");
        Ok(pods)
    }

    /// Names of its pods that are not going, sorted.
    ///
    /// # Errors
    /// When the tenant's API does not answer.
    pub async fn pods(&self, kubectl: &Kubectl) -> Result<Vec<String>> {
        let selector = format!("app={}", self.name);
        let get = ["get", "pods", "-l", &selector, "-o", "json"];
        let list: Value = serde_json::from_str(&kubectl.run(&get).await?)?;
        let items = list["items"]
            .as_array()
            .context("kubectl printed no list")?;
        let staying = items
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let mut names: Vec<_> = staying
            .filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned))
            .collect();
        names.sort();
        Ok(names)
    }
}

/// Several objects as one manifest.
#[must_use]
pub fn list(items: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

/// A pod on one node that sees the node as root does, as administrators of tenants may have one:
/// `nsenter -t 1 -m` is a shell of the node.
#[must_use]
pub fn node_pod(name: &str, node: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "nodeName": node, "hostPID": true, "hostNetwork": true, "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{
                "name": "shell", "image": IMAGE, "command": ["sleep", "infinity"],
                "securityContext": { "privileged": true, "runAsUser": 0 },
            }],
        },
    })
    .to_string()
}

/// Runs a command on a node by a pod of [`node_pod`].
///
/// # Errors
/// When the pod does not start in time or the command fails.
pub async fn on_node(
    kubectl: &Kubectl,
    node: &str,
    patience: Duration,
    command: &str,
) -> Result<String> {
    let pod = format!("shell-{node}");
    kubectl.apply(&node_pod(&pod, node)).await?;
    let timeout = format!("--timeout={}s", patience.as_secs());
    let target = format!("pod/{pod}");
    let wait = ["wait", "--for=condition=Ready", &target, &timeout];
    let limit = patience + Duration::from_secs(10);
    kubectl.run_within(limit, &wait).await?;
    let exec = ["exec", &pod, "--", "nsenter", "-t", "1", "-m", "--"];
    let exec = [&exec[..], &["sh", "-c", command]].concat();
    let said = kubectl.run(&exec).await;
    let delete = ["delete", "pod", &pod, "--wait=false"];
    kubectl.run(&delete).await?;
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_a_deployment_and_a_service_that_select_the_same_pods() {
        let workload = Workload {
            name: "web",
            replicas: 2,
            config_map: Some("proxies"),
            stays: 0,
        };
        let list: Value = serde_json::from_str(&workload.manifest()).unwrap();
        let (deployment, service) = (&list["items"][0], &list["items"][1]);
        let pods = &deployment["spec"]["template"]["metadata"]["labels"];
        assert_eq!(pods, &service["spec"]["selector"]);
        assert_eq!(pods, &deployment["spec"]["selector"]["matchLabels"]);
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["env"][0]["value"], "/etc/testserver/ca.crt");
    }
}
