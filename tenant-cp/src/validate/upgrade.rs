//! Upgrades: how long new kube-apiservers serve the minor before, and how long new pods have to become ready.

use std::time::Duration;

use api::{Reason, TenantCluster};

use crate::problem::Problem;
use crate::validate::pool;

const LONGEST: Duration = Duration::from_secs(24 * 3600);
const SHORTEST_DEADLINE: Duration = Duration::from_secs(60);

pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    let upgrade = &tc.spec.upgrade;
    let none = Duration::ZERO;
    for (field, asked, least, choose) in [
        ("spec.upgrade.soak", &upgrade.soak, none, "0s to 24h"),
        (
            "spec.upgrade.deadline",
            &upgrade.deadline,
            SHORTEST_DEADLINE,
            "1m to 24h",
        ),
    ] {
        let can_be_had = |time| (least..=LONGEST).contains(&time);
        if let Some(problem) = pool::timeout(field, asked, None) {
            problems.push(problem);
        } else if asked.get().is_some_and(|time| !can_be_had(time)) {
            let message = format!("{} cannot be had: choose {choose}", asked.0);
            problems.push(Problem::new(field, Reason::DurationRange, message));
        }
    }
}
