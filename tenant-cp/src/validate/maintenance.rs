//! Whether a tenant cluster may be held back until a moment.

use api::{Reason, TenantCluster, instant};
use jiff::{SignedDuration, Timestamp};

use crate::problem::Problem;

const FIELD: &str = "spec.maintenance.heldUntil";

/// How far ahead it may be held back: whoever stays behind for longer misses what mends holes.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(90 * 24);

pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    let text = tc.spec.maintenance.held_until.as_ref();
    if let Some(text) = text.filter(|text| instant::read(text).is_none()) {
        let message =
            format!("{text:?} is no day of the calendar: write one as 2027-01-31T12:00:00Z");
        problems.push(Problem::new(FIELD, Reason::HoldRefused, message));
    }
}

/// What speaks against holding it back for so long; nothing where it was held until then before.
#[must_use]
pub fn admit_hold(
    old: Option<&TenantCluster>,
    new: &TenantCluster,
    now: Timestamp,
) -> Option<Problem> {
    let asked = &new.spec.maintenance;
    if old.is_some_and(|old| old.spec.maintenance.held_until == asked.held_until) {
        return None;
    }
    let latest = now.checked_add(LONGEST).ok()?;
    let until = asked.holds(now).filter(|until| *until > latest)?;
    let message = format!(
        "{until} is more than 90 days ahead, and it would miss what mends holes for as long: choose {} or earlier",
        latest.strftime("%Y-%m-%dT%H:%M:%SZ")
    );
    Some(Problem::new(FIELD, Reason::HoldRefused, message))
}
