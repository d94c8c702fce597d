//! Whether the management cluster has room for one machine more: the condition `Capacity`.
//!
//! Invariant: nothing is held up by it, because a node may be added for a machine that waits, and pods
//! that matter less may have to go. Its words are those of the moment in which it turned over: what is
//! left changes with every pod of the management cluster, and a condition that followed would be
//! written all the time.

use api::{ConditionStatus, ConditionType, set_condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::status::set;
use super::{Observed, Plan, unchanged};

/// Says it in the status; before machines are made where it is news that there is no room.
pub(super) fn say(plan: &mut Plan, observed: &Observed, now: Timestamp) {
    let Some((fits, reason)) = observed.capacity.said() else {
        // What was known stays said.
        return;
    };
    let (type_, value) = (ConditionType::Capacity, ConditionStatus::from(fits));
    let generation = observed.pool.metadata.generation;
    let status = observed.pool.status.as_ref();
    let mut said = status.into_iter().flat_map(|status| &status.conditions);
    let said = said.find(|condition| condition.type_ == type_.as_str());
    // Of another generation the pool may be another size.
    let holds = |c: &&Condition| {
        c.status == value.as_str() && c.reason == reason && c.observed_generation == generation
    };
    let message = match said.filter(holds) {
        Some(condition) => condition.message.clone(),
        None => observed.capacity.message(),
    };
    let news = said.is_none_or(|condition| condition.status != value.as_str());
    if !fits && news && !plan.creations.is_empty() {
        // It may be about to say how locations stand.
        let before = plan.before.take();
        let mut before = before.unwrap_or_else(|| unchanged(observed).status);
        let list = &mut before.conditions;
        set_condition(list, type_, value, reason, &message, generation, Time(now));
        plan.before = Some(before);
        plan.publish(true, reason, message.clone());
    }
    set(plan, observed, now, [(type_, value, reason, message)]);
}
