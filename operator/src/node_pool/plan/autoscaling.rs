//! Who owns `replicas`: the condition `Autoscaling`.
//!
//! Invariant: where `spec.autoscaling` is not set nothing is said, because `replicas` is the user's then,
//! as anybody expects.

use api::{ConditionStatus, ConditionType, TenantCluster};
use jiff::Timestamp;
use kube::ResourceExt;

use super::status::set;
use super::{Observed, Plan};

pub(super) fn say(plan: &mut Plan, observed: &Observed, cluster: &TenantCluster, now: Timestamp) {
    let type_ = ConditionType::Autoscaling;
    let Some(autoscaling) = &observed.pool.spec.autoscaling else {
        let list = &mut plan.status.conditions;
        list.retain(|condition| condition.type_ != type_.as_str());
        return;
    };
    let (value, reason, message) = if cluster.spec.addons.autoscaler.enabled {
        (
            ConditionStatus::True,
            "OwnedByAutoscaler",
            format!(
                "the autoscaler sets replicas, from {} to {}; remove spec.autoscaling to set it \
                 yourself",
                autoscaling.min, autoscaling.max
            ),
        )
    } else {
        (
            ConditionStatus::False,
            "AddonOff",
            format!(
                "nobody sets replicas: TenantCluster {} has the addon autoscaler off; set its \
                 spec.addons.autoscaler.enabled to true, or remove spec.autoscaling",
                cluster.name_any()
            ),
        )
    };
    set(plan, observed, now, [(type_, value, reason, message)]);
}
