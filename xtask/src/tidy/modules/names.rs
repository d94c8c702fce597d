//! Names that modules, types and public functions do not bear: words of our own where the field has
//! one, and names that say nothing.
//!
//! Invariant: a refused name comes with the one to use.

use super::exceptions::{NAMES, PLACE, pairs};
use super::tree::Tree;
use crate::tidy::finding::Finding;

/// A word, and what to say.
const REFUSED: &[(&str, &str)] = &[
    ("desk", "state, ControllerState"),
    ("calm", "throttle"),
    ("gather", "throttle"),
    ("room", "capacity"),
    ("tell", "status, publish"),
    ("given", "reservations"),
    ("look", "reconcile, list, read"),
    ("pulse", "heartbeat"),
    ("keep", "run, control_loop"),
    ("world", "cache"),
    ("reach", "staleness"),
    ("marks", "holders"),
    ("mechanism", "hotplug"),
    ("repair", "reconcile"),
    ("wish", "desired"),
    ("visit", "tenant_session"),
    ("mend", "apply"),
    ("lay", "apply, tenant_objects"),
    ("left_over", "prune"),
    ("between", "adapter"),
    ("workers", "controllers"),
    ("rights", "rbac"),
    ("utils", SAYS_NOTHING),
    ("common", SAYS_NOTHING),
    ("helper", SAYS_NOTHING),
    ("misc", SAYS_NOTHING),
];
const SAYS_NOTHING: &str = "what it is";

/// Every refused name, and every exception that is not needed.
pub(super) fn check(tree: &Tree<'_>) -> Vec<Finding> {
    find(tree, &pairs(NAMES))
}

pub(super) fn find(tree: &Tree<'_>, exceptions: &[(&str, &str)]) -> Vec<Finding> {
    let mut is_needed = vec![false; exceptions.len()];
    let mut findings = Vec::new();
    for module in &tree.modules {
        for (name, line) in &module.names {
            let snake = snake_case(name);
            let Some((_, ours)) = REFUSED.iter().find(|(word, _)| *word == snake) else {
                continue;
            };
            let file = module.file;
            match exceptions.iter().position(|e| e.0 == file && e.1 == name) {
                Some(number) => is_needed[number] = true,
                None => findings.push(Finding {
                    path: file.to_owned(),
                    line: *line,
                    message: format!(
                        "{name} is no name here, say {ours}. What cannot be mended now stands in \
                         NAMES of {PLACE}: \"{file} -> {name}\","
                    ),
                }),
            }
        }
    }
    let exceptions = exceptions.iter().zip(is_needed);
    let unneeded = exceptions.filter(|(_, is_needed)| !is_needed);
    findings.extend(unneeded.map(|((file, name), _)| Finding {
        path: PLACE.to_owned(),
        line: 0,
        message: format!("remove \"{file} -> {name}\" from NAMES: there is no such name any more"),
    }));
    findings
}

/// `LeftOver` as `left_over`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (at, c) in name.char_indices() {
        if c.is_uppercase() && at > 0 && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}
