//! Whether the KubeVirt that runs the machines has published holes: the condition `KubeVirtOutdated`.
//!
//! Invariant: nothing is held up by it, because machines that run are worth more than what is told; it goes
//! once KubeVirt is upgraded. While nothing is known of KubeVirt, what was said stays said.

use api::{ConditionStatus, ConditionType, Reason, remove_condition};
use jiff::Timestamp;
use provider_kubevirt::release::Release;

use super::status::set;
use super::{Observed, Plan};

pub(super) fn say(plan: &mut Plan, observed: &Observed, now: Timestamp) {
    let type_ = ConditionType::KubeVirtOutdated;
    let places = observed.pool.spec.places();
    let is_its = places.iter().any(|at| at.provider.kubevirt.is_some());
    if is_its && observed.kubevirt == Release::Unknown {
        return;
    }
    let Some(problem) = observed.kubevirt.problem().filter(|_| is_its) else {
        remove_condition(&mut plan.status.conditions, type_);
        return;
    };
    let status = observed.pool.status.as_ref();
    let mut said = status.into_iter().flat_map(|status| &status.conditions);
    let is_news = !said.any(|said| said.type_ == type_.as_str());
    // Only what is written is told, so that it is told once.
    if is_news && plan.is_settled() {
        plan.publish(true, Reason::KubeVirtOutdated, problem.clone());
    }
    let said = (
        type_,
        ConditionStatus::True,
        Reason::KubeVirtOutdated,
        problem,
    );
    set(plan, observed, now, [said]);
}
