//! Validation of `spec.addons.autoscaler`.
//!
//! Invariant: what is let through is what the flags of the Cluster Autoscaler can say.

use std::collections::BTreeSet;

use api::Reason;
use api::tenant_cluster::{Autoscaler, AutoscalerLimits};

use crate::problem::Problem;
use crate::text;
use crate::validate::scheduling::malformed_key;
use crate::validate::{pool, quantity};

/// The Cluster Autoscaler counts memory in whole GiB.
const LEAST_MEMORY: &str = "1Gi";
const FIELD: &str = "spec.addons.autoscaler";

pub(super) fn check(autoscaler: &Autoscaler, problems: &mut Vec<Problem>) {
    limits(&autoscaler.limits, problems);
    let mut seen = BTreeSet::new();
    for (number, key) in autoscaler.startup_taints.iter().enumerate() {
        let message = if !text::is_qualified_name(key) {
            malformed_key(key)
        } else if !seen.insert(key) {
            format!("{key} is named twice: remove one of them")
        } else {
            continue;
        };
        let field = format!("{FIELD}.startupTaints[{number}]");
        problems.push(Problem::new(field, Reason::TaintInvalid, message));
    }
    for (name, time, least) in [
        (
            "maxNodeProvisionTime",
            &autoscaler.max_node_provision_time,
            Some("no machine boots that fast"),
        ),
        (
            "scaleDownUnreadyTime",
            &autoscaler.scale_down_unready_time,
            Some("a kubelet that restarts would lose its machine"),
        ),
        (
            "scaleDownDelayAfterAdd",
            &autoscaler.scale_down_delay_after_add,
            None,
        ),
    ] {
        let field = format!("{FIELD}.{name}");
        problems.extend(
            time.as_ref()
                .and_then(|time| pool::timeout(&field, time, least)),
        );
    }
}

fn limits(limits: &AutoscalerLimits, problems: &mut Vec<Problem>) {
    let field = |name: &str| format!("{FIELD}.limits.{name}");
    for (name, limit) in [("nodes", limits.nodes), ("cpu", limits.cpu)] {
        if let Some(limit) = limit.filter(|limit| *limit < 1) {
            problems.push(Problem::new(
                field(name),
                Reason::AutoscalerLimitRange,
                format!("{limit} lets nothing grow: choose 1 or more, or remove it for no limit"),
            ));
        }
    }
    let Some(memory) = &limits.memory else {
        return;
    };
    let text = memory.0.as_str();
    let problem = match (quantity::bytes(text), quantity::bytes(LEAST_MEMORY)) {
        (None, _) => (Reason::QuantityMalformed, quantity::malformed(text)),
        (size, least) if size < least => (
            Reason::AutoscalerLimitRange,
            format!(
                "{text} is less than {LEAST_MEMORY}, and whole GiB are counted: choose \
                 {LEAST_MEMORY} or more (gibibytes are written Gi), or remove it for no limit"
            ),
        ),
        _ => return,
    };
    problems.push(Problem::new(field("memory"), problem.0, problem.1));
}
