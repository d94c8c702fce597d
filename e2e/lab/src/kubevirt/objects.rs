//! What is applied to install KubeVirt: its release's manifest, and the `KubeVirt` object that says
//! how. Pure.
//!
//! Invariant: nothing of KubeVirt is changed but by settings that it has itself; only the replicas,
//! the readiness and the nodes of the operator's own Deployment are the lab's.

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::NAMESPACE;
use crate::programs::kubevirt::Release;

/// The release's manifest (a List in JSON) for one node: one replica of the operator, whose
/// readiness is asked for every second.
pub(super) fn manifest(release: &str) -> Result<String> {
    let mut list: Value =
        serde_json::from_str(release).context("KubeVirt's manifest is not JSON")?;
    let items = list["items"].as_array_mut();
    let items = items.context("KubeVirt's manifest is no list")?;
    let mut found = items.iter_mut().filter(|item| item["kind"] == "Deployment");
    let Some(operator) = found.next() else {
        bail!("KubeVirt's manifest has no Deployment")
    };
    let spec = &mut operator["spec"];
    spec["replicas"] = json!(1);
    // From 1.9 nodes with the role of a control plane are asked for, and the lab's has none.
    let affinity = spec.pointer_mut("/template/spec/affinity");
    if let Some(affinity) = affinity.and_then(Value::as_object_mut) {
        affinity.remove("nodeAffinity");
    }
    let probe = &mut spec["template"]["spec"]["containers"][0]["readinessProbe"];
    probe["initialDelaySeconds"] = json!(1);
    probe["periodSeconds"] = json!(1);
    Ok(list.to_string())
}

/// One replica of everything, software emulation, and readiness asked for every second: with
/// KubeVirt's own probes (first after 15 s, then every 10 or 20 s) most of an installation is
/// waiting for the next one.
pub(super) fn kubevirt(release: Release) -> String {
    let probe = |container: &str| {
        json!({ "spec": { "template": { "spec": { "containers": [{
            "name": container,
            "readinessProbe": { "initialDelaySeconds": 1, "periodSeconds": 1 },
        }] } } } })
        .to_string()
    };
    let patch_of = |kind: &str, name: &str, container: &str| {
        json!({
            "resourceType": kind,
            "resourceName": name,
            "type": "strategic",
            "patch": probe(container),
        })
    };
    let patch = |kind: &str, name: &str| patch_of(kind, name, name);
    let mut patches = vec![
        patch("Deployment", "virt-api"),
        patch("Deployment", "virt-controller"),
        patch("DaemonSet", "virt-handler"),
    ];
    if release == Release::V1_9 {
        patches.push(patch_of("Deployment", "virt-exportproxy", "exportproxy"));
    }
    let mut object = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": { "name": "kubevirt", "namespace": NAMESPACE },
        "spec": {
            "imagePullPolicy": "IfNotPresent",
            // A place is named because otherwise nodes with a control-plane role are asked for.
            "infra": { "replicas": 1, "nodePlacement": {
                "nodeSelector": { "kubernetes.io/os": "linux" },
            } },
            "configuration": {
                "developerConfiguration": {
                    "useEmulation": true,
                    "featureGates": release.feature_gates(release.hotplug()),
                },
                // A hundred objects that the lab has no use for, at five a second.
                "commonInstancetypesDeployment": { "enabled": false },
                // Without it virt-launcher's pods have no seccomp profile.
                "seccompConfiguration": { "virtualMachineInstanceProfile": {
                    "customProfile": { "runtimeDefaultProfile": true },
                } },
            },
            "customizeComponents": { "patches": patches },
        },
    });
    if release == Release::V1_9 {
        // Two Deployments more, whose images the lab has not, and that it has no use for.
        object["spec"]["configuration"]["virtTemplateDeployment"] = json!({ "enabled": false });
    }
    object.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_replicas_readiness_and_nodes_of_the_operator_change() {
        let release = json!({ "kind": "List", "items": [
            { "kind": "Namespace", "metadata": { "name": "kubevirt" } },
            { "kind": "Deployment", "spec": { "replicas": 2, "template": { "spec": {
                "affinity": { "nodeAffinity": { "required": "a role" }, "podAntiAffinity": {} },
                "containers": [{ "name": "virt-operator", "readinessProbe": {
                    "httpGet": { "path": "/metrics" }, "initialDelaySeconds": 5,
                } }],
            } } } },
        ] });
        let made: Value = serde_json::from_str(&manifest(&release.to_string()).unwrap()).unwrap();
        let mut expected = release;
        expected["items"][1]["spec"]["replicas"] = json!(1);
        expected["items"][1]["spec"]["template"]["spec"]["affinity"] =
            json!({ "podAntiAffinity": {} });
        let container = &mut expected["items"][1]["spec"]["template"]["spec"]["containers"][0];
        container["readinessProbe"]["initialDelaySeconds"] = json!(1);
        container["readinessProbe"]["periodSeconds"] = json!(1);
        assert_eq!(made, expected);
    }

    #[test]
    fn newest_release_needs_no_feature_gate_and_each_part_is_asked_for_readiness() {
        for release in Release::ALL {
            let object: Value = serde_json::from_str(&kubevirt(release)).unwrap();
            let spec = &object["spec"];
            let gates = &spec["configuration"]["developerConfiguration"]["featureGates"];
            let patches = spec["customizeComponents"]["patches"].as_array().unwrap();
            let expected = match release {
                Release::V1_9 => (json!([]), 4),
                Release::V1_6 => (json!(["ExpandDisks", "HotplugVolumes"]), 3),
            };
            assert_eq!((gates, patches.len()), (&expected.0, expected.1));
        }
    }

    #[test]
    fn a_manifest_without_operator_is_refused() {
        for bad in ["", "{}", r#"{"items":[]}"#] {
            assert!(manifest(bad).is_err());
        }
    }
}
