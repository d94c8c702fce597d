//! What to do about a NodePool that is being deleted, or whose tenant cluster is not there.
//!
//! Invariant: the NodePool goes only once it has no Machine; a NodePool outlives its tenant cluster,
//! because it is the user's, but its Machines do not.

use api::{Machine, Reason, names};
use jiff::Timestamp;
use kit_objects::known::Known;
use kube::ResourceExt;

use super::{Action, Plan, follow, list, sorted, status, unchanged};
use crate::controllers::node_pool::observed::{Observed, is_going};
use crate::status::Waiting;

/// The garbage collector's finalizer: dependents are let go of, not deleted.
const ORPHAN: &str = "orphan";

pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = unchanged(observed);
    let finalizers = observed.pool.finalizers();
    if !finalizers.iter().any(|f| f == names::FINALIZER_NODE_POOL) {
        return plan;
    }
    let machines = sorted(observed);
    if machines.is_empty() {
        plan.actions.push(Action::RemoveFinalizer);
        return plan;
    }
    if !finalizers.iter().any(|f| f == ORPHAN) {
        delete_all(&mut plan, &machines, "the node pool is deleted");
        follow(&mut plan, &observed.pool, &machines);
    }
    let message = format!(
        "waits until {} are gone",
        list(machines.iter().map(|m| m.name_any()))
    );
    plan.waiting_on = Some(Waiting {
        reason: Reason::Deleting,
        message,
    });
    status::going(plan, observed, now)
}

/// The tenant cluster is gone, or about to, for certain.
pub(super) fn without_cluster(observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = unchanged(observed);
    let machines = sorted(observed);
    let name = &observed.pool.spec.cluster_name;
    let (reason, message) = match &observed.cluster {
        Known::Known(_) => (
            Reason::ClusterDeleted,
            format!("TenantCluster {name} is being deleted, and the machines go with it"),
        ),
        Known::Unknown { .. } => return plan,
        Known::Absent => (
            Reason::ClusterNotFound,
            format!(
                "there is no TenantCluster {name} in this namespace; create it, or delete this node \
                 pool"
            ),
        ),
    };
    delete_all(&mut plan, &machines, &message);
    status::unusable(plan, observed, reason, message, now)
}

fn delete_all(plan: &mut Plan, machines: &[&Machine], why: &str) {
    let staying: Vec<_> = machines.iter().copied().filter(|m| !is_going(m)).collect();
    if !staying.is_empty() {
        let message = format!(
            "deletes {}: {why}",
            list(staying.iter().map(|m| m.name_any()))
        );
        plan.publish(false, Reason::Deleting, message);
        staying
            .into_iter()
            .for_each(|m| plan.delete(m, Reason::Deleting));
    }
}
