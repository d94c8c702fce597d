//! Where the pods of a tenant cluster run: whether it can be said so, whether users may, and what is in
//! force in the end.
//!
//! Invariant: a user adds to what the platform asks of nodes and never takes from it.

use std::collections::BTreeMap;

use api::TenantCluster;
use api::tenant_cluster::{PodToleration, Scheduling as Spec};
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
        for (number, toleration) in spec.tolerations.iter().enumerate() {
            let value = toleration.value.as_deref().unwrap_or_default();
            let message = if !text::is_qualified_name(&toleration.key) {
                malformed_key(&toleration.key)
            } else if !text::is_label_value(value) {
                malformed_value(value)
            } else {
                continue;
            };
            let field = format!("{field}.tolerations[{number}]");
            problems.push(Problem::new(field, "TolerationMalformed", message));
        }
        for (name, kind, class) in classes(spec) {
            if let Some(class) = class.filter(|class| !text::is_subdomain(class)) {
                let message = format!(
                    "\"{class}\" is not the name of a {kind}: name one of the management cluster's, \
                     or remove the field"
                );
                problems.push(Problem::new(
                    format!("{field}.{name}"),
                    "ClassMalformed",
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
        let mut refuse = |name: &str, asked: &str, allowed: &[String], setting: &str| {
            let setting = format!("tenantPods.allowed.{setting}");
            let message = not_allowed(asked, allowed, &setting);
            let field = format!("{field}.{name}");
            problems.push(Problem::new(field, "SchedulingNotAllowed", message));
        };
        for key in spec.node_selector.keys() {
            let is_key = text::is_qualified_name(key);
            if is_key && !allowed.node_labels.contains(key) {
                let name = format!("nodeSelector[{key}]");
                refuse(&name, key, &allowed.node_labels, "nodeLabels");
            }
        }
        for (number, PodToleration { key, .. }) in spec.tolerations.iter().enumerate() {
            if text::is_qualified_name(key) && !allowed.taints.contains(key) {
                let name = format!("tolerations[{number}].key");
                refuse(&name, key, &allowed.taints, "taints");
            }
        }
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
                refuse(name, class, allowed, setting);
            }
        }
        for (key, value) in &spec.node_selector {
            if let Some(own) = pods.node_selector.get(key).filter(|own| *own != value) {
                let message =
                    format!("the platform's nodes for tenant clusters have {key}={own}: remove it");
                let field = format!("{field}.nodeSelector[{key}]");
                problems.push(Problem::new(field, "SchedulingNotAllowed", message));
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
        problems.push(Problem::new(field, "NodeSelectorMalformed", message));
    }
}

/// A key of labels or taints that could never be one.
pub(super) fn malformed_key(key: &str) -> String {
    format!(
        "\"{key}\" cannot be a key: use up to 63 letters, digits, -, _ and ., with a letter or \
         digit at both ends, and before it, where wanted, a DNS name and /"
    )
}

fn malformed_value(value: &str) -> String {
    format!(
        "\"{value}\" cannot be a value: use up to 63 letters, digits, -, _ and ., with a letter or \
         digit at both ends"
    )
}

fn toleration(spec: &PodToleration) -> Toleration {
    let operator = match spec.value {
        Some(_) => "Equal",
        None => "Exists",
    };
    Toleration {
        key: Some(spec.key.clone()),
        operator: Some(operator.to_owned()),
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
