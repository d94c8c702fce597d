//! All checks over all facts, the cause first.
//!
//! Invariant: about one object a check has one finding. A finding that another one explains is skipped and names it,
//! and the one that explains is at least as bad as what it explains, so that the first is where to begin.

use k8s_openapi::api::core::v1::Pod;

use crate::check::Check;
use crate::checks;
use crate::facts::Facts;
use crate::finding::{Finding, Level};

/// Most things that one finding is told by.
const MOST_EVIDENCE: usize = 8;

/// Every finding, the worst first, and of equally bad ones the cause first; last what was skipped. `wanted` says which
/// checks are made: what an unwanted one would find explains nothing.
#[must_use]
pub fn diagnose(facts: &Facts, wanted: impl Fn(Check) -> bool) -> Vec<Finding> {
    let mut found = checks::all(facts);
    found.retain(|finding| wanted(finding.check));
    let mut findings = merge(found);
    explain(&mut findings);
    findings.sort_by(|a, b| {
        let key = |f: &Finding| (f.check, f.subject.clone());
        b.level.cmp(&a.level).then_with(|| key(a).cmp(&key(b)))
    });
    findings
}

/// What is wrong with a pod, in a sentence; none where it is ready, or nothing is known to be wrong.
#[must_use]
pub fn trouble_of(pod: &Pod) -> Option<String> {
    checks::pods::trouble(pod).map(|trouble| trouble.what)
}

/// The worst level of all; none where there is nothing to tell.
#[must_use]
pub fn worst(findings: &[Finding]) -> Option<Level> {
    let told = findings.iter().map(|finding| finding.level);
    told.filter(|level| *level > Level::Skipped).max()
}

/// One finding for each check and object: the first says what is wrong, the others become what it is told by.
fn merge(found: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::new();
    for finding in found {
        let same = |f: &&mut Finding| {
            f.check == finding.check
                && f.subject == finding.subject
                && (f.level == Level::Skipped) == (finding.level == Level::Skipped)
        };
        let Some(first) = merged.iter_mut().find(same) else {
            merged.push(finding);
            continue;
        };
        first.level = first.level.max(finding.level);
        first.since = first.since.into_iter().chain(finding.since).min();
        for told in std::iter::once(finding.cause).chain(finding.evidence) {
            let is_new = told != first.cause && !first.evidence.contains(&told);
            if is_new && first.evidence.len() < MOST_EVIDENCE {
                first.evidence.push(told);
            }
        }
    }
    merged
}

/// Skips what others explain. Innermost first, so that how bad it is arrives at the outermost.
fn explain(findings: &mut [Finding]) {
    let mut order: Vec<_> = (0..findings.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(findings[*at].check));
    for at in order {
        let (check, level) = (findings[at].check, findings[at].level);
        if level == Level::Skipped {
            continue;
        }
        let explains = |cause: &Finding| {
            cause.level > Level::Skipped
                && check.after().contains(&cause.check)
                && cause.scope.contains(&findings[at].scope)
        };
        let causes = findings.iter().enumerate().filter(|(_, f)| explains(f));
        let Some((cause, _)) = causes.min_by_key(|(_, f)| f.check) else {
            continue;
        };
        findings[cause].level = findings[cause].level.max(level);
        findings[at].because = Some(findings[cause].check.id());
        findings[at].level = Level::Skipped;
    }
}
