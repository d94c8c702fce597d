//! Labels and annotations of pods: the sentence for each mistake, and what the platform is asked for.

use super::*;
use crate::validate::admit;

fn metadata(value: &Value) -> Value {
    json!({"spec": {"controlPlane": {"podMetadata": value}, "etcd": {"podMetadata": value}}})
}

fn said(value: &Value, settings: &Settings) -> Vec<String> {
    let nobody: [TenantCluster; 0] = [];
    let problems = admit(None, &tc(&metadata(value)), &nobody, settings);
    problems.iter().map(ToString::to_string).collect()
}

/// Allows more than it could.
fn generous() -> Settings {
    let every = ["example.com/", "kubernetes.io/", "covey.dev/", "team"];
    let policy = json!({"tenantPods": {"allowed": {"podLabels": every, "podAnnotations": every}}});
    serde_json::from_value(policy).unwrap()
}

#[test]
fn keys_that_covey_or_kubernetes_go_by_are_nobodys_whatever_the_platform_allows() {
    for key in [
        "covey.dev/hash",
        "storage.covey.dev/x",
        "app.kubernetes.io/component",
        "app.kubernetes.io/name",
        "kubernetes.io/psp",
        "pod-security.kubernetes.io/enforce",
        "container.apparmor.security.beta.kubernetes.io/etcd",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "scheduling.k8s.io/group",
        "pod-template-hash",
        "controller-revision-hash",
    ] {
        let all = ["controlPlane", "etcd"]
            .iter()
            .flat_map(|of| ["labels", "annotations"].map(|name| (of, name)))
            .map(|(of, name)| {
                format!(
                    "spec.{of}.podMetadata.{name}[{key}]: \"{key}\" is Covey's or Kubernetes' own: remove it"
                )
            });
        let asked = json!({"labels": {key: "a"}, "annotations": {key: "a"}});
        assert_eq!(said(&asked, &generous()), all.collect::<Vec<_>>());
    }
    let fine = json!({
        "labels": {"example.com/a": "b", "team": ""},
        "annotations": {"example.com/a": "any text, also\nof lines", "team": "a"},
    });
    assert_eq!(said(&fine, &generous()), [""; 0]);
}

#[test]
fn what_is_no_label_or_annotation_is_refused() {
    let asked = json!({
        "labels": {"a b": "a", "team": "a b"}, "annotations": {"/x": "a"},
    });
    let found = said(&asked, &generous());
    assert_eq!(found.len(), 6);
    for (found, start) in found.iter().zip([
        "spec.controlPlane.podMetadata.labels[a b]: \"a b\" cannot be a key: use",
        "spec.controlPlane.podMetadata.annotations[/x]: \"/x\" cannot be a key: use",
        "spec.controlPlane.podMetadata.labels[team]: \"a b\" cannot be a value: use",
        "spec.etcd.podMetadata.labels[a b]: \"a b\" cannot be a key: use",
    ]) {
        assert!(found.starts_with(start), "{found}");
    }
}

#[test]
fn platform_says_which_keys_users_may_set() {
    let asked = json!({
        "labels": {"example.com/a": "b"},
        "annotations": {"k8s.v1.cni.cncf.io/networks": "networks/storage"},
    });
    let refused = |of: &str, name: &str, key: &str, setting: &str| {
        format!(
            "spec.{of}.podMetadata.{name}[{key}]: \"{key}\" is not allowed here: remove it, or have whoever \
             runs the management cluster allow it (config.tenantPods.allowed.{setting} of the chart)"
        )
    };
    let networks = "k8s.v1.cni.cncf.io/networks";
    assert_eq!(
        said(&asked, &Settings::default()),
        [
            refused("controlPlane", "labels", "example.com/a", "podLabels"),
            refused("controlPlane", "annotations", networks, "podAnnotations"),
            refused("etcd", "labels", "example.com/a", "podLabels"),
            refused("etcd", "annotations", networks, "podAnnotations"),
        ]
    );
    let policy = json!({"tenantPods": {"allowed": {
        "podLabels": ["example.com/"], "podAnnotations": [networks],
    }}});
    let settings = serde_json::from_value(policy).unwrap();
    assert_eq!(said(&asked, &settings), [""; 0]);
}
