//! Sleep by schedule: what cannot be read, never comes, or comes all the time. And by idleness: too early, too late.

use std::time::Duration;

use api::{Reason, TenantCluster};

use crate::hibernation::Schedule;
use crate::problem::Problem;
use crate::validate::pool;

/// Watches are asked for anew within ten minutes: who has one is seen by then.
const SHORTEST: Duration = Duration::from_secs(15 * 60);
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    for (number, schedule) in tc.spec.hibernation.schedules.iter().enumerate() {
        if let Err(fault) = Schedule::read(schedule) {
            let field = format!("spec.hibernation.schedules[{number}].{}", fault.field);
            problems.push(Problem::new(field, Reason::ScheduleRefused, fault.message));
        }
    }
    if let Some(asked) = &tc.spec.hibernation.idle_after {
        let field = "spec.hibernation.idleAfter";
        let can_be_had = |time| (SHORTEST..=LONGEST).contains(&time);
        if let Some(problem) = pool::timeout(field, asked, None) {
            problems.push(problem);
        } else if asked.get().is_some_and(|time| !can_be_had(time)) {
            let message = format!("{} cannot be had: choose 15m to 720h", asked.0);
            problems.push(Problem::new(field, Reason::DurationRange, message));
        }
    }
}
