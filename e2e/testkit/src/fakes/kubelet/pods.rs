//! Pods of the workloads that are played, as the controllers of workloads would make them.
//!
//! Only of etcd, of control planes and of their controllers: nobody looks at others. A Deployment's are replaced when its template
//! changes; those of a StatefulSet are made where they are missing, because its owner ends them (`OnDelete`).
//! Invariant: pure; nothing to do when every pod is as it should be.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};

/// Components whose pods are played.
const COMPONENTS: [&str; 3] = ["etcd", "control-plane", "controllers"];

/// Nobody goes by it.
const SOME_TIME: &str = "2026-01-01T00:00:00Z";

/// What has to be done with pods.
#[derive(Debug, PartialEq)]
pub(super) enum Change {
    /// This one is made, and is ready then.
    Make(Value),
    /// The one of this name is one of another template from now on: nobody looks at its UID.
    Replace(String, Value),
    /// The one of this name ends.
    End(String),
}

/// What has to be done for one workload; `pods` are all of its namespace.
pub(super) fn changes<'a>(
    kind: &str,
    workload: &DynamicObject,
    pods: impl Iterator<Item = &'a DynamicObject>,
) -> Vec<Change> {
    let name = workload.name_any();
    let makes_pods = ["Deployment", "StatefulSet"].contains(&kind);
    if !makes_pods || !COMPONENTS.contains(&name.as_str()) {
        return Vec::new();
    }
    let template = &workload.data["spec"]["template"];
    let annotations = &template["metadata"]["annotations"];
    let replicas = workload.data["spec"]["replicas"].as_i64().unwrap_or(1);
    let wanted: BTreeSet<_> = (0..replicas).map(|n| format!("{name}-{n}")).collect();
    let its = |pod: &&DynamicObject| pod.labels().get("app.kubernetes.io/component") == Some(&name);
    let there: BTreeMap<_, _> = pods.filter(its).map(|pod| (pod.name_any(), pod)).collect();
    let missing = wanted.iter().filter(|name| !there.contains_key(*name));
    let mut changes: Vec<_> = missing
        .map(|name| Change::Make(made(name, template)))
        .collect();
    let is_numbered = |pod: &str| {
        let number = pod
            .strip_prefix(&name)
            .and_then(|rest| rest.strip_prefix('-'));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    for (pod, live) in there.into_iter().filter(|(pod, _)| is_numbered(pod)) {
        let of = serde_json::to_value(live.annotations()).unwrap_or_default();
        if !wanted.contains(&pod) {
            changes.push(Change::End(pod));
        } else if kind == "Deployment" && of[HASH] != annotations[HASH] {
            let patch = json!({ "metadata": { "annotations": annotations } });
            changes.push(Change::Replace(pod, patch));
        }
    }
    changes
}

/// Annotation of a template with its hash, which its pods bear too.
const HASH: &str = "covey.dev/template-hash";

fn made(name: &str, template: &Value) -> Value {
    let tolerations = ["not-ready", "unreachable"].map(|taint| {
        json!({
            "key": format!("node.kubernetes.io/{taint}"), "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 300,
        })
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"],
        },
        // What the pod runs is not played; this passes Pod Security.
        "spec": {
            "automountServiceAccountToken": false,
            // What admission would fill in, so that every server answers the same.
            "enableServiceLinks": true, "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": tolerations,
            "serviceAccountName": template["spec"]["serviceAccountName"],
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "played", "image": "played.invalid/played",
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
                },
            }],
        },
    })
}

/// The status of a pod that is ready, or is not.
pub(super) fn status(ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    json!({ "status": { "conditions": [{
        "type": "Ready", "status": ready, "lastProbeTime": SOME_TIME, "lastTransitionTime": SOME_TIME,
    }] } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(kind: &str, name: &str, replicas: i32, hash: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name },
            "spec": { "replicas": replicas, "template": { "metadata": {
                "labels": { "app.kubernetes.io/component": name },
                "annotations": { "covey.dev/template-hash": hash },
            } } },
        }))
        .unwrap()
    }

    fn after(pods: &mut Vec<DynamicObject>, changes: Vec<Change>) -> (Vec<String>, Vec<String>) {
        let (mut made, mut ended) = (Vec::new(), Vec::new());
        for change in changes {
            match change {
                Change::Make(pod) => {
                    let pod: DynamicObject = serde_json::from_value(pod).unwrap();
                    made.push(pod.name_any());
                    pods.push(pod);
                }
                Change::Replace(name, patch) => {
                    let pod = pods.iter_mut().find(|pod| pod.name_any() == name).unwrap();
                    let annotations = patch["metadata"]["annotations"].clone();
                    pod.metadata.annotations = serde_json::from_value(annotations).unwrap();
                    made.push(name.clone());
                    ended.push(name);
                }
                Change::End(name) => {
                    pods.retain(|pod| pod.name_any() != name);
                    ended.push(name);
                }
            }
        }
        (made, ended)
    }

    #[test]
    fn deployments_replace_their_pods_and_stateful_sets_only_make_them() {
        for (kind, name, replaced) in [
            ("Deployment", "control-plane", 2),
            ("StatefulSet", "etcd", 0),
        ] {
            let mut pods = Vec::new();
            let first = changes(kind, &workload(kind, name, 2, "a"), pods.iter());
            assert_eq!(after(&mut pods, first).0.len(), 2);
            assert_eq!(
                changes(kind, &workload(kind, name, 2, "a"), pods.iter()),
                []
            );
            let second = changes(kind, &workload(kind, name, 2, "b"), pods.iter());
            let (made, ended) = after(&mut pods, second);
            assert_eq!((made.len(), ended.len()), (replaced, replaced), "{kind}");
            pods.clear();
            assert_eq!(
                changes(kind, &workload(kind, name, 2, "b"), pods.iter()).len(),
                2
            );
        }
        for (kind, name) in [("Deployment", "ccm"), ("Service", "control-plane")] {
            assert_eq!(changes(kind, &workload(kind, name, 1, "a"), [].iter()), []);
        }
    }
}
