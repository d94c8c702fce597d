//! Hosts: those that cannot be used, and those that nobody may take.
//!
//! Invariant: a host that waits for its first look is not told as one that fails.

use api::host::HostPhase;
use kube::ResourceExt as _;

use super::conditions::{self, About, GRACE};
use crate::check::Check;
use crate::facts::Facts;
use crate::finding::{Finding, Level, Scope, Subject};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    for host in facts.hosts.as_ref().there().into_iter().flatten() {
        let (namespace, name) = (host.namespace().unwrap_or_default(), host.name_any());
        let subject = Subject::new("Host", &namespace, &name);
        // It belongs to no tenant cluster, and explains nothing of one.
        let scope = Scope {
            cluster: Some((namespace, String::new())),
            pool: None,
        };
        let Some(status) = &host.status else {
            continue;
        };
        let about = About {
            subject: &subject,
            scope: &scope,
            now: facts.now,
            grace: GRACE,
        };
        let mut told = conditions::check(&status.conditions, &about);
        if status.phase == Some(HostPhase::Quarantined) && told.is_empty() {
            let cause = "the host is quarantined: nobody may take it";
            let mend = format!("`kubectl describe host {name}` says why");
            told.push(Finding::new(
                Check::Hosts,
                Level::Warning,
                subject.clone(),
                cause,
                &mend,
            ));
        }
        // One host less is no tenant cluster that is broken.
        for finding in &mut told {
            finding.level = finding.level.min(Level::Warning);
            finding.scope = scope.clone();
        }
        found.extend(told);
    }
    found
}
