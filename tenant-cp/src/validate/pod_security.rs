//! Validation of `spec.controlPlane.podSecurity`.
//!
//! Invariant: what is let through the kube-apiserver starts with.

use api::Reason;
use api::tenant_cluster::PodSecurity;

use crate::problem::Problem;
use crate::text;

pub(super) fn check(pod_security: &PodSecurity, problems: &mut Vec<Problem>) {
    const FIELD: &str = "spec.controlPlane.podSecurity.exemptNamespaces";
    let namespaces = &pod_security.exempt_namespaces;
    for (number, name) in namespaces.iter().enumerate() {
        let message = if !text::is_label(name) {
            format!(
                "\"{name}\" is not the name of a namespace: use lower-case letters, digits and -"
            )
        } else if namespaces[..number].contains(name) {
            format!("{name} is named twice: remove one of them")
        } else {
            continue;
        };
        problems.push(Problem::new(
            format!("{FIELD}[{number}]"),
            Reason::NamespaceMalformed,
            message,
        ));
    }
}
