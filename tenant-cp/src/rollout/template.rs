//! Pod templates of live workloads, and workloads that keep the template that they have.
//!
//! Invariant: a pinned workload never changes what its pods are made from.

use kit_objects::object::{ANNOTATION_HASH, ANNOTATION_TEMPLATE_HASH, Object};
use serde_json::Value;

/// Hash of the template that a workload's pods are made from; none where it has none of ours.
#[must_use]
pub fn of_workload(workload: &Value) -> Option<&str> {
    of_pod(&workload["spec"]["template"])
}

/// Hash of the template that a pod was made from; none where it is not one of ours.
#[must_use]
pub fn of_pod(pod: &Value) -> Option<&str> {
    pod["metadata"]["annotations"][ANNOTATION_TEMPLATE_HASH].as_str()
}

/// Whether a live workload makes its pods from another template than the wanted one.
#[must_use]
pub fn is_behind(wanted: &Object, live: &Value) -> bool {
    of_workload(&wanted.value) != of_workload(live)
}

/// Whether keys that the pods read when they start are others than those that the live ones have read:
/// annotations with hashes of them end so.
#[must_use]
pub fn has_other_keys(wanted: &Object, live: &Value) -> bool {
    key_hashes(of_template(&wanted.value)).ne(key_hashes(of_template(live)))
}

/// Whether what one annotation of the pods hashes is something else than in the live ones.
#[must_use]
pub fn has_other(annotation: &str, wanted: &Object, live: &Value) -> bool {
    pod_has_other(annotation, wanted, of_template(live))
}

/// The same of a pod of it.
#[must_use]
pub fn pod_has_other(annotation: &str, wanted: &Object, pod: &Value) -> bool {
    let wanted = &of_template(&wanted.value)["metadata"]["annotations"][annotation];
    *wanted != pod["metadata"]["annotations"][annotation]
}

fn of_template(workload: &Value) -> &Value {
    &workload["spec"]["template"]
}

fn key_hashes(pod: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let annotations = pod["metadata"]["annotations"].as_object();
    let hashes = annotations.into_iter().flatten();
    hashes.filter(|(name, _)| KEYS_HASH.iter().any(|end| name.ends_with(end)))
}

/// Ends of the names of annotations of pods that hash keys or certificates.
const KEYS_HASH: [&str; 3] = ["authority-hash", "certificate-hash", "keys-hash"];

/// The wanted workload with the template that the live one has. Its hash is the live one's, so that what
/// is held back is still seen to differ later.
#[must_use]
pub fn pinned(mut wanted: Object, live: &Value) -> Object {
    wanted.value["spec"]["template"] = live["spec"]["template"].clone();
    wanted.value["metadata"]["annotations"][ANNOTATION_HASH] =
        live["metadata"]["annotations"][ANNOTATION_HASH].clone();
    wanted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(replicas: i32, image: &str) -> Object {
        Object::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a" },
            "spec": { "replicas": replicas, "template": { "spec": { "image": image } } },
        }))
    }

    #[test]
    fn pinned_workload_is_scaled_and_keeps_its_template() {
        let live = deployment(1, "old").value;
        let pinned = pinned(deployment(3, "new"), &live);
        assert_eq!(pinned.value["spec"]["replicas"], 3);
        assert_eq!(pinned.value["spec"]["template"], live["spec"]["template"]);
        assert!(!is_behind(&pinned, &live));
        assert!(is_behind(&deployment(3, "new"), &pinned.value));
        assert_ne!(
            deployment(3, "new").hash(),
            pinned.hash(),
            "it is applied later"
        );
    }

    #[test]
    fn pinned_workload_of_which_nothing_but_the_template_changed_is_the_live_one() {
        let live = deployment(1, "old").value;
        assert_eq!(pinned(deployment(1, "new"), &live).value, live);
    }
}
