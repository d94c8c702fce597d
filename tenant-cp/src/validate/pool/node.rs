//! Validation of the labels and taints that nodes are to have.
//!
//! Invariant: a label that a kubelet may not put on its own node is no mistake, because the operator
//! puts it there (`node::user_data::is_self_assignable`); one that Kubernetes or Covey sets itself is.

use std::collections::BTreeMap;

use api::Reason;
use api::node_pool::Taint;

use crate::problem::Problem;
use crate::text;
use crate::validate::scheduling::malformed_key;

/// Domains of Kubernetes that people may take labels from (kubernetes.io/docs,
/// "Well-Known Labels, Annotations and Taints").
const LABEL_DOMAINS: [&str; 5] = [
    "kubelet.kubernetes.io",
    "node-restriction.kubernetes.io",
    "node-role.kubernetes.io",
    "node.kubernetes.io",
    "topology.kubernetes.io",
];
/// Domains of Kubernetes that people may take taints from: those of `node.kubernetes.io` come and go
/// with the state of the node.
const TAINT_DOMAINS: [&str; 2] = ["node-restriction.kubernetes.io", "node-role.kubernetes.io"];

pub(super) fn check_labels(labels: &BTreeMap<String, String>, problems: &mut Vec<Problem>) {
    for (key, value) in labels {
        let message = if !text::is_qualified_name(key) {
            malformed_key(key)
        } else if !text::is_label_value(value) {
            format!(
                "\"{value}\" cannot be the value of a label: use up to 63 letters, digits, -, _ \
                 and ., with a letter or digit at both ends"
            )
        } else if let Some(reserved) = reserved(key, &LABEL_DOMAINS) {
            reserved
        } else {
            continue;
        };
        let field = format!("spec.labels[{key}]");
        problems.push(Problem::new(field, Reason::LabelInvalid, message));
    }
}

pub(super) fn check_taints(taints: &[Taint], problems: &mut Vec<Problem>) {
    for (number, taint) in taints.iter().enumerate() {
        let (key, value) = (&taint.key, taint.value.as_deref().unwrap_or_default());
        let again = taints[..number]
            .iter()
            .any(|other| other.key == *key && other.effect == taint.effect);
        let message = if !text::is_qualified_name(key) {
            malformed_key(key)
        } else if !text::is_label_value(value) {
            format!(
                "\"{value}\" cannot be the value of a taint: use up to 63 letters, digits, -, _ \
                 and ., with a letter or digit at both ends"
            )
        } else if let Some(reserved) = reserved(key, &TAINT_DOMAINS) {
            reserved
        } else if again {
            let effect = taint.effect.as_str();
            format!("{key} has the effect {effect} twice: remove one of them")
        } else {
            continue;
        };
        let field = format!("spec.taints[{number}]");
        problems.push(Problem::new(field, Reason::TaintInvalid, message));
    }
}

/// Why a key is not for people to use.
fn reserved(key: &str, allowed: &[&str]) -> Option<String> {
    let (domain, _) = key.split_once('/')?;
    let within = |suffix: &str| {
        let rest = domain.strip_suffix(suffix);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if within(api::GROUP) {
        return Some(format!("{key} is Covey's own: choose a prefix of yours"));
    }
    let theirs = within("kubernetes.io") || within("k8s.io");
    (theirs && !allowed.contains(&domain)).then(|| {
        format!(
            "{key} is Kubernetes' own: use a prefix of yours, or one of {}",
            allowed.join(", ")
        )
    })
}
