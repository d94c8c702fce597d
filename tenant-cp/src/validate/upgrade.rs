//! Upgrades: how long new kube-apiservers serve the minor before.

use std::time::Duration;

use api::{Reason, TenantCluster};

use crate::problem::Problem;
use crate::validate::pool;

const LONGEST: Duration = Duration::from_secs(24 * 3600);

pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    let (field, soak) = ("spec.upgrade.soak", &tc.spec.upgrade.soak);
    if let Some(problem) = pool::timeout(field, soak, None) {
        problems.push(problem);
    } else if soak.get().is_some_and(|soak| soak > LONGEST) {
        let message = format!("{} cannot be had: choose 0s to 24h", soak.0);
        problems.push(Problem::new(field, Reason::DurationRange, message));
    }
}
