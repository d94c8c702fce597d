//! Backups: what no target and no process could be told.
//!
//! Invariant: what passes here goes onto the command line of the process that backs up as it is.

use std::time::Duration;

use api::tenant_cluster::Backup;
use api::{Reason, TenantCluster};

use crate::problem::Problem;
use crate::text;
use crate::validate::pool;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// What is wrong with it. Whether there is such a target is said by a condition: it may come later.
pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    let Some(Backup {
        target,
        full,
        delta,
        restore_test,
        ..
    }) = &tc.spec.backup
    else {
        return;
    };
    if !text::is_subdomain(target) {
        let message = format!(
            "\"{target}\" cannot be the name of a BackupTarget: use lower-case letters, digits, - and ., as \
             `kubectl get backuptargets` shows them"
        );
        problems.push(Problem::new(
            "spec.backup.target",
            Reason::TargetNameMalformed,
            message,
        ));
    }
    for (name, time, least, most) in [
        ("full", full, HOUR, HOUR * 720),
        ("delta", delta, SECOND, HOUR),
    ] {
        let field = format!("spec.backup.{name}");
        if let Some(problem) = pool::timeout(&field, time, None) {
            problems.push(problem);
        } else if time.get().is_some_and(|time| time < least || time > most) {
            let bounds = match name {
                "full" => "1h to 720h",
                _ => "1s to 1h",
            };
            let message = format!("{} cannot be had: choose {bounds}", time.0);
            problems.push(Problem::new(field, Reason::DurationRange, message));
        }
    }
    let Some(test) = restore_test else { return };
    let field = "spec.backup.restoreTest";
    if let Some(problem) = pool::timeout(field, test, None) {
        problems.push(problem);
    } else if test
        .get()
        .is_some_and(|time| !time.is_zero() && (time < HOUR * 24 || time > HOUR * 2160))
    {
        let message = format!(
            "{} cannot be had: choose 24h to 2160h, or 0s for never",
            test.0
        );
        problems.push(Problem::new(field, Reason::DurationRange, message));
    }
}
