//! Where the pods of a tenant cluster run: whether it can be said so, whether users may, and what is in
//! force in the end.
//!
//! Invariant: a user adds to what the platform asks of nodes and never takes from it.

use std::collections::BTreeMap;

use api::tenant_cluster::{PodToleration, Scheduling as Spec};
use api::{Reason, TenantCluster};
use k8s_openapi::api::core::v1::Toleration;

use crate::problem::Problem;
use crate::settings::tenant_pods::TenantPods;
use crate::text;
use crate::validate::refusal::not_allowed;
use crate::validate::validated::Scheduling;

/// What is wrong with it whoever asks.
pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    for (field, spec) in fields(tc) {
        check_selector(
            &format!("{field}.nodeSelector"),
            &spec.node_selector,
            problems,
        );
        check_tolerations(field, &spec.tolerations, problems);
        for (name, kind, class) in classes(spec) {
            if let Some(class) = class.filter(|class| !text::is_subdomain(class)) {
                let message = format!(
                    "\"{class}\" is not the name of a {kind}: name one of the management cluster's, \
                     or remove the field"
                );
                problems.push(Problem::new(
                    format!("{field}.{name}"),
                    Reason::ClassMalformed,
                    message,
                ));
            }
        }
    }
}

/// What the platform does not let users choose.
pub(super) fn check_policy(tc: &TenantCluster, pods: &TenantPods, problems: &mut Vec<Problem>) {
    let allowed = &pods.allowed;
    for (field, spec) in fields(tc) {
        check_nodes_allowed(
            (field, "tenantPods.allowed"),
            (&spec.node_selector, &spec.tolerations),
            &pods.node_selector,
            (&allowed.node_labels, &allowed.taints),
            problems,
        );
        let lists = [
            (
                &pods.priority_class_name,
                &allowed.priority_classes,
                "priorityClasses",
            ),
            (
                &pods.runtime_class_name,
                &allowed.runtime_classes,
                "runtimeClasses",
            ),
        ];
        for ((name, _, class), (own, allowed, setting)) in classes(spec).into_iter().zip(lists) {
            let class = class.filter(|class| text::is_subdomain(class));
            if let Some(class) = class
                && own.as_ref() != Some(class)
                && !allowed.contains(class)
            {
                let setting = format!("tenantPods.allowed.{setting}");
                let message = not_allowed(class, allowed, &setting);
                let field = format!("{field}.{name}");
                problems.push(Problem::new(field, Reason::SchedulingNotAllowed, message));
            }
        }
    }
}

/// What the platform says and what the user chose, together.
pub(super) fn in_force(spec: &Spec, pods: &TenantPods) -> Scheduling {
    let mut node_selector = spec.node_selector.clone();
    node_selector.extend(pods.node_selector.clone());
    let chosen = spec.tolerations.iter().map(toleration);
    let or = |chosen: &Option<String>, default: &Option<String>| {
        chosen.as_ref().or(default.as_ref()).cloned()
    };
    Scheduling {
        node_selector,
        tolerations: pods.tolerations.iter().cloned().chain(chosen).collect(),
        spread: spec.spread.unwrap_or(pods.spread),
        priority_class_name: or(&spec.priority_class_name, &pods.priority_class_name),
        runtime_class_name: or(&spec.runtime_class_name, &pods.runtime_class_name),
    }
}

/// A selector of nodes, of a user's or of the operator's configuration.
pub(super) fn check_selector(
    field: &str,
    selector: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) {
    for (key, value) in selector {
        let message = if !text::is_qualified_name(key) {
            malformed_key(key)
        } else if !text::is_label_value(value) {
            malformed_value(value)
        } else {
            continue;
        };
        let field = format!("{field}[{key}]");
        problems.push(Problem::new(field, Reason::NodeSelectorMalformed, message));
    }
}

/// Tolerations below `field`.
pub(super) fn check_tolerations(
    field: &str,
    tolerations: &[PodToleration],
    problems: &mut Vec<Problem>,
) {
    for (number, toleration) in tolerations.iter().enumerate() {
        let value = toleration.value.as_deref().unwrap_or_default();
        let message = if !text::is_qualified_name(&toleration.key) {
            malformed_key(&toleration.key)
        } else if !text::is_label_value(value) {
            malformed_value(value)
        } else {
            continue;
        };
        let field = format!("{field}.tolerations[{number}]");
        problems.push(Problem::new(field, Reason::TolerationMalformed, message));
    }
}

/// Nodes that the platform does not let users choose: what they ask of labels and taints below `field`.
/// `own` are the labels that the platform asks for itself; `setting` has the lists.
pub(super) fn check_nodes_allowed(
    (field, setting): (&str, &str),
    (selector, tolerations): (&BTreeMap<String, String>, &[PodToleration]),
    own: &BTreeMap<String, String>,
    (labels, taints): (&[String], &[String]),
    problems: &mut Vec<Problem>,
) {
    let mut refuse = |name: String, message: String| {
        let field = format!("{field}.{name}");
        problems.push(Problem::new(field, Reason::SchedulingNotAllowed, message));
    };
    for (key, value) in selector
        .iter()
        .filter(|(key, _)| text::is_qualified_name(key))
    {
        let name = format!("nodeSelector[{key}]");
        if !labels.contains(key) {
            let setting = format!("{setting}.nodeLabels");
            refuse(name, not_allowed(key, labels, &setting));
        } else if let Some(own) = own.get(key).filter(|own| *own != value) {
            let message = format!("the platform's nodes for this have {key}={own}: remove it");
            refuse(name, message);
        }
    }
    for (number, PodToleration { key, .. }) in tolerations.iter().enumerate() {
        if text::is_qualified_name(key) && !taints.contains(key) {
            let setting = format!("{setting}.taints");
            let name = format!("tolerations[{number}].key");
            refuse(name, not_allowed(key, taints, &setting));
        }
    }
}

/// A key of labels or taints that could never be one.
pub(super) fn malformed_key(key: &str) -> String {
    format!(
        "\"{key}\" cannot be a key: use up to 63 letters, digits, -, _ and ., with a letter or \
         digit at both ends, and before it, where wanted, a DNS name and /"
    )
}

pub(super) fn malformed_value(value: &str) -> String {
    format!(
        "\"{value}\" cannot be a value: use up to 63 letters, digits, -, _ and ., with a letter or \
         digit at both ends"
    )
}

fn toleration(spec: &PodToleration) -> Toleration {
    Toleration {
        key: Some(spec.key.clone()),
        operator: Some(spec.operator().to_owned()),
        value: spec.value.clone(),
        effect: spec.effect.map(|effect| effect.as_str().to_owned()),
        toleration_seconds: None,
    }
}

fn fields(tc: &TenantCluster) -> [(&'static str, &Spec); 2] {
    [
        (
            "spec.controlPlane.scheduling",
            &tc.spec.control_plane.scheduling,
        ),
        ("spec.etcd.scheduling", &tc.spec.etcd.scheduling),
    ]
}

/// Field, kind and name of the classes.
fn classes(spec: &Spec) -> [(&'static str, &'static str, Option<&String>); 2] {
    [
        (
            "priorityClassName",
            "PriorityClass",
            spec.priority_class_name.as_ref(),
        ),
        (
            "runtimeClassName",
            "RuntimeClass",
            spec.runtime_class_name.as_ref(),
        ),
    ]
}
