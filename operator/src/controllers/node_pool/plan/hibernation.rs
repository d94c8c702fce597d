//! A pool whose tenant cluster falls asleep or sleeps has no machines, whatever its size says.
//!
//! Invariant: the spec is the user's, or the autoscaler's, and stays as it is: when the tenant cluster wakes, the pool has
//! the size that stands there.

use kit_objects::known::Known;

use crate::controllers::node_pool::observed::Observed;
use crate::hibernation::holds_machines;

/// What was observed, with no machine wanted; none where its tenant cluster is awake.
pub(super) fn as_it_sleeps(observed: &Observed) -> Option<Observed> {
    let Known::Known(cluster) = &observed.cluster else {
        return None;
    };
    if !holds_machines(cluster) || observed.pool.spec.replicas == 0 {
        return None;
    }
    let mut asleep = observed.clone();
    asleep.pool.spec.replicas = 0;
    Some(asleep)
}
