//! Who owns `replicas`: the condition `Autoscaling`; and what the autoscaler's adapter noted on the pool
//! that it cannot carry out: the condition `AutoscalingRefused`.
//!
//! Invariant: where `spec.autoscaling` is not set nothing is said, because `replicas` is the user's then,
//! as anybody expects. What was refused of another generation, or is nobody's concern because the addon
//! is off, is not said any more.

use api::node_pool::Refused;
use api::{ConditionStatus, ConditionType, Reason, TenantCluster, remove_condition};
use jiff::Timestamp;
use kube::ResourceExt;

use super::status::set;
use super::{Observed, Plan};

pub(super) fn say(plan: &mut Plan, observed: &Observed, cluster: &TenantCluster, now: Timestamp) {
    let type_ = ConditionType::Autoscaling;
    let Some(autoscaling) = &observed.pool.spec.autoscaling else {
        let list = &mut plan.status.conditions;
        remove_condition(list, type_);
        remove_condition(list, ConditionType::AutoscalingRefused);
        return;
    };
    let is_on = cluster.spec.addons.autoscaler.enabled;
    let (value, reason, message) = if is_on {
        (
            ConditionStatus::True,
            Reason::OwnedByAutoscaler,
            format!(
                "the autoscaler sets replicas, from {} to {}; remove spec.autoscaling to set it \
                 yourself",
                autoscaling.min, autoscaling.max
            ),
        )
    } else {
        (
            ConditionStatus::False,
            Reason::AddonOff,
            format!(
                "nobody sets replicas: TenantCluster {} has the addon autoscaler off; set its \
                 spec.addons.autoscaler.enabled to true, or remove spec.autoscaling",
                cluster.name_any()
            ),
        )
    };
    set(plan, observed, now, [(type_, value, reason, message)]);
    let type_ = ConditionType::AutoscalingRefused;
    match Refused::of(&observed.pool.metadata).filter(|_| is_on) {
        Some(Refused { message, .. }) => {
            let said = (
                type_,
                ConditionStatus::True,
                Reason::AutoscalingRefused,
                message,
            );
            set(plan, observed, now, [said]);
        }
        None => remove_condition(&mut plan.status.conditions, type_),
    }
}
