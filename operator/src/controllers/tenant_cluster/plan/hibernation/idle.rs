//! Sleep because nobody uses it: when it is looked at, and what the status says of it.
//!
//! Invariant: it is looked at only while it is awake and nothing is left to do for it.

use std::time::Duration;

use api::tenant_cluster::IdleStatus;
use jiff::Timestamp;

use super::Sleep;
use super::said::Why;
use crate::controllers::tenant_cluster::observed::{Observed, Tenant};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::controllers::tenant_cluster::plan::types::{Action, Part, Plan};
use crate::hibernation::{idle, webhooks};

/// Pause after a look that was due and could not be had.
const AGAIN: Duration = Duration::from_secs(60);

/// Since when nobody uses it, where it is to sleep for that.
pub(super) fn asleep_since(observed: &Observed, now: Timestamp) -> Option<Timestamp> {
    match was_sent_to_sleep(observed) {
        // Nobody can be asked any more; what the status says of it goes as soon as it is to wake.
        true => idle::is_over(&observed.cluster, now),
        false => idle::is_confirmed(&observed.cluster, &observed.usage, now),
    }
}

/// Why it is not put to sleep although nobody uses it, as the newest look found.
pub(super) fn kept_awake(observed: &Observed, now: Timestamp) -> Option<String> {
    idle::is_over(&observed.cluster, now)?;
    let blocking = observed.usage.newest()?.blocking.as_ref()?;
    webhooks::kept_awake(blocking, observed.cluster.spec.hibernation.webhooks)
}

/// Looks whether somebody uses it; none where that is not to be known now.
pub(in super::super) fn part(observed: &Observed, now: Timestamp) -> Option<Part> {
    let answers = matches!(observed.tenant, Tenant::Answers { .. });
    let is_asked = answers && is_looked_at(observed) && observed.usage.now.is_none();
    let next = idle::next_look(&observed.cluster, observed.usage.last.as_ref(), now);
    if !is_asked || next.is_none_or(|next| now < next) {
        return None;
    }
    let mut part = Part::new(PartName::Hibernation);
    part.actions.push(Action::AskUse);
    Some(part)
}

/// What the status says of it, and when it is looked at next.
pub(in super::super) fn report(
    plan: &mut Plan,
    observed: &Observed,
    sleep: Option<&Sleep>,
    now: Timestamp,
) {
    plan.status.idle = told(observed, sleep);
    let last = observed.usage.now.as_ref().or(observed.usage.last.as_ref());
    // One that was never looked at is, once it answers.
    let next = last.filter(|_| is_looked_at(observed));
    let next = next.and_then(|last| idle::next_look(&observed.cluster, Some(last), now));
    if let Some(next) = next {
        let left = Duration::try_from(next.duration_since(now)).unwrap_or_default();
        let left = match left.is_zero() {
            // It could not be asked now: whoever waits for its answer comes back sooner.
            true => AGAIN,
            false => left + Duration::from_millis(1),
        };
        plan.requeue_after = Some(plan.requeue_after.map_or(left, |after| after.min(left)));
    }
}

fn told(observed: &Observed, sleep: Option<&Sleep>) -> Option<IdleStatus> {
    idle::after(&observed.cluster)?;
    let status = observed.cluster.status.as_ref();
    let told = status.and_then(|status| status.idle.as_ref());
    match (was_sent_to_sleep(observed), sleep) {
        (false, _) => idle::next(told, &observed.usage),
        // What is not known stays.
        (true, None) => told.cloned(),
        (true, Some(sleep)) => {
            let is_why = sleep.is_on() && matches!(sleep.why, Why::Unused(_));
            told.filter(|_| is_why).cloned()
        }
    }
}

fn is_looked_at(observed: &Observed) -> bool {
    let spec = &observed.cluster.spec.hibernation;
    spec.idle_after.is_some() && !spec.enabled && !was_sent_to_sleep(observed)
}

fn was_sent_to_sleep(observed: &Observed) -> bool {
    let status = observed.cluster.status.as_ref();
    status.is_some_and(|status| status.hibernation.is_some())
}
