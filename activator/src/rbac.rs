//! RBAC rules: the rights that the code needs, next to why. Whoever deploys it grants these and no more.
//!
//! Invariant: Leases are all that it may write; an admission policy of the chart keeps it to those of its own names.
//! No right outside of the operator's namespace, and none on Secrets or pods.

use api::names::SLEEPERS;
use kit_objects::rbac::Rule;

/// In the operator's namespace.
#[must_use]
pub fn rules() -> Vec<Rule> {
    vec![
        // Who is waited for at which port.
        Rule::new(&[""], &["configmaps"], &["list", "watch"]).named(&[SLEEPERS]),
        // Their names have UIDs in them, so they cannot be listed here.
        Rule::new(
            &["coordination.k8s.io"],
            &["leases"],
            &["create", "get", "update"],
        ),
    ]
}
