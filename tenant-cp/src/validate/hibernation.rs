//! Sleep by schedule: what cannot be read, never comes, or comes all the time.

use api::{Reason, TenantCluster};

use crate::hibernation::Schedule;
use crate::problem::Problem;

pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    for (number, schedule) in tc.spec.hibernation.schedules.iter().enumerate() {
        if let Err(fault) = Schedule::read(schedule) {
            let field = format!("spec.hibernation.schedules[{number}].{}", fault.field);
            problems.push(Problem::new(field, Reason::ScheduleRefused, fault.message));
        }
    }
}
