//! Validation of labels and annotations of pods in the tenant namespace.
//!
//! Invariant: no key is let through by which Covey, Kubernetes or an admission plugin knows a pod or decides
//! about it: Pod Security, AppArmor, the scheduler, controllers, drains. What others in the management
//! cluster read (networks, meshes, collectors), the platform allows by name or not at all.

use api::tenant_cluster::PodMetadata;
use api::{Reason, TenantCluster};

use crate::problem::Problem;
use crate::settings::policy::allows;
use crate::settings::tenant_pods::SchedulingPolicy;
use crate::text;
use crate::validate::refusal::not_allowed;
use crate::validate::scheduling::{malformed_key, malformed_value};

/// Labels without a prefix that controllers write (`apps/v1`, `types.go`).
const OF_CONTROLLERS: [&str; 3] = [
    "controller-revision-hash",
    "pod-template-generation",
    "pod-template-hash",
];

fn fields(tc: &TenantCluster) -> [(&'static str, &PodMetadata); 2] {
    let spec = &tc.spec;
    [
        (
            "spec.controlPlane.podMetadata",
            &spec.control_plane.pod_metadata,
        ),
        ("spec.etcd.podMetadata", &spec.etcd.pod_metadata),
    ]
}

pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    for (field, metadata) in fields(tc) {
        let mut add = |name: String, reason: Reason, message: String| {
            problems.push(Problem::new(format!("{field}.{name}"), reason, message));
        };
        let labels = metadata.labels.keys().map(|key| ("labels", key));
        let annotations = metadata.annotations.keys();
        for (name, key) in labels.chain(annotations.map(|key| ("annotations", key))) {
            let escaped = key.escape_default().to_string();
            let name = format!("{name}[{escaped}]");
            if !text::is_qualified_name(key) {
                add(name, Reason::PodMetadataMalformed, malformed_key(&escaped));
            } else if is_taken(key) {
                let message = format!("\"{key}\" is Covey's or Kubernetes' own: remove it");
                add(name, Reason::PodMetadataManaged, message);
            }
        }
        let labels = metadata.labels.iter();
        for (key, value) in labels.filter(|(_, value)| !text::is_label_value(value)) {
            let name = format!("labels[{}]", key.escape_default());
            let message = malformed_value(&value.escape_default().to_string());
            add(name, Reason::PodMetadataMalformed, message);
        }
    }
}

/// Whether a key is Covey's, or of a domain that is Kubernetes' own, with all below it.
fn is_taken(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else {
        return OF_CONTROLLERS.contains(&key);
    };
    let within = |domain: &str| {
        let rest = prefix.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    text::is_ours(key) || within("kubernetes.io") || within("k8s.io")
}

/// What the platform does not let users set.
pub(super) fn check_policy(
    tc: &TenantCluster,
    allowed: &SchedulingPolicy,
    problems: &mut Vec<Problem>,
) {
    for (field, metadata) in fields(tc) {
        let lists = [
            ("labels", &metadata.labels, &allowed.pod_labels, "podLabels"),
            (
                "annotations",
                &metadata.annotations,
                &allowed.pod_annotations,
                "podAnnotations",
            ),
        ];
        for (name, asked, allowed, setting) in lists {
            let refused = asked.keys().filter(|key| {
                text::is_qualified_name(key) && !is_taken(key) && !allows(allowed, key)
            });
            problems.extend(refused.map(|key| {
                Problem::new(
                    format!("{field}.{name}[{key}]"),
                    Reason::PodMetadataNotAllowed,
                    not_allowed(key, allowed, &format!("tenantPods.allowed.{setting}")),
                )
            }));
        }
    }
}
