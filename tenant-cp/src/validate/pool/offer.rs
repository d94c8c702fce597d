//! Validation of `spec.autoscaling.capacity`: what a node offers that other fields do not say.
//!
//! Invariant: what is let through is what a node may say in `status.allocatable`, so that no pool grows for
//! pods that can fit none of its nodes (kubernetes `pkg/apis/core/v1/helper`, `IsExtendedResourceName`).

use std::collections::BTreeMap;

use api::{Quantity, Reason};

use crate::problem::Problem;
use crate::text;
use crate::validate::quantity;

/// Fields that say what a node offers besides.
const ELSEWHERE: [(&str, &str); 3] = [
    ("cpu", "spec.provider.kubevirt.cpu"),
    ("memory", "spec.provider.kubevirt.memory"),
    ("pods", "spec.kubelet.maxPods"),
];
const DISK: &str = "ephemeral-storage";
const LEAST_DISK: u64 = 1 << 30;
/// Far more than any node has of one.
const MOST: u64 = 1_000_000;

pub(super) fn check(capacity: &BTreeMap<String, Quantity>, problems: &mut Vec<Problem>) {
    for (resource, amount) in capacity {
        let (reason, message) = if let Some(message) = misnamed(resource) {
            (Reason::ResourceUnknown, message)
        } else if let Some(message) = miscounted(resource, &amount.0) {
            (Reason::QuantityMalformed, message)
        } else {
            continue;
        };
        let field = format!("spec.autoscaling.capacity[{resource}]");
        problems.push(Problem::new(field, reason, message));
    }
}

fn misnamed(resource: &str) -> Option<String> {
    let mut elsewhere = ELSEWHERE.iter();
    if let Some((_, field)) = elsewhere.find(|(name, _)| *name == resource) {
        return Some(format!("{resource} follows from {field}: remove it here"));
    }
    let domain = resource.split_once('/').map(|(domain, _)| domain);
    let is_extended = domain.is_some_and(|domain| {
        let within = |suffix: &str| {
            let rest = domain.strip_suffix(suffix);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        !within("kubernetes.io") && !domain.starts_with("requests.")
    });
    let is_known = resource == DISK || (is_extended && text::is_qualified_name(resource));
    (!is_known).then(|| {
        format!(
            "\"{resource}\" is no resource that a node can have more of: write {DISK}, or an extended \
             resource with its domain, such as nvidia.com/gpu"
        )
    })
}

fn miscounted(resource: &str, amount: &str) -> Option<String> {
    let number = quantity::bytes(amount);
    if resource == DISK {
        return match number {
            None => Some(quantity::malformed(amount)),
            Some(bytes) if bytes < LEAST_DISK => Some(format!(
                "{amount} is less than 1Gi, which no node works with: write its size with a suffix, such \
                 as 20Gi"
            )),
            Some(_) => None,
        };
    }
    number.is_none_or(|number| number > MOST).then(|| {
        format!("\"{amount}\" is no number of devices: write a whole number from 0 to {MOST}")
    })
}
