//! Validation of the settings of kube-apiserver, kube-controller-manager and kube-scheduler.
//!
//! Invariant: an accepted flag name is spelled as the programs themselves spell it, so that no
//! other spelling (`_` for `-`) slips past the list of managed flags.

use std::collections::BTreeSet;

use api::Reason;
use api::tenant_cluster::{Component, ControlPlane};

use crate::flags::Program;
use crate::problem::Problem;
use crate::validate::quantity;

/// Which flags a user may not set.
pub(super) type Managed<'a> = &'a dyn Fn(Program) -> BTreeSet<&'static str>;

/// The programs that a user may say something about, with the field that says it.
pub(super) fn programs(control_plane: &ControlPlane) -> [(&str, Program, &Component); 3] {
    [
        ("apiServer", Program::ApiServer, &control_plane.api_server),
        (
            "controllerManager",
            Program::ControllerManager,
            &control_plane.controller_manager,
        ),
        ("scheduler", Program::Scheduler, &control_plane.scheduler),
    ]
}

pub(super) fn check(
    control_plane: &ControlPlane,
    managed: Managed<'_>,
    problems: &mut Vec<Problem>,
) {
    for (field, program, component) in programs(control_plane) {
        let field = format!("spec.controlPlane.{field}");
        quantity::check_resources(
            &format!("{field}.resources"),
            &component.resources,
            problems,
        );
        check_args(
            &format!("{field}.extraArgs"),
            component,
            &managed(program),
            problems,
        );
    }
}

fn check_args(
    field: &str,
    component: &Component,
    managed: &BTreeSet<&'static str>,
    problems: &mut Vec<Problem>,
) {
    for (name, value) in &component.extra_args {
        let path = || format!("{field}[{}]", name.escape_default());
        if let Some(hint) = malformed(name) {
            problems.push(Problem::new(
                path(),
                Reason::FlagMalformed,
                format!(
                    "\"{}\" is not the name of a flag: {hint}",
                    name.escape_default()
                ),
            ));
        } else if managed.contains(name.as_str()) {
            problems.push(Problem::new(
                path(),
                Reason::FlagManaged,
                format!("--{name} is set by Covey and would break the tenant cluster: remove it"),
            ));
        }
        if value.chars().any(char::is_control) {
            problems.push(Problem::new(
                path(),
                Reason::FlagValueMalformed,
                "the value holds a line break or another control character: remove it",
            ));
        }
    }
}

pub(super) fn malformed(name: &str) -> Option<&'static str> {
    let part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    if name.len() <= 128 && name.split('-').all(part) {
        return None;
    }
    Some(if name.is_empty() {
        "it is empty; remove it"
    } else if name.starts_with('-') {
        "leave out the dashes in front"
    } else if name.contains('=') {
        "put what follows the = into the value"
    } else if name.contains('_') {
        "write - instead of _"
    } else {
        "use lower-case letters, digits and single - in between, such as event-ttl"
    })
}
