//! A machine whose node a restore of its tenant cluster took away: it joined after the moment. Its kubelet registers a node
//! once, when it starts (kubernetes#71398, kubernetes#115761), so the machine is started anew.
//!
//! Invariant: only while such a Restore is seen to serve and not over, only a machine that runs and that joined, only where
//! the tenant cluster itself said that there is no node, no more than [`MOST`] times for one Restore, and each time is
//! stored before the provider is asked. Where it does not help, or the provider cannot, the pool's `health` replaces it.

use std::time::Duration;

use api::Reason;
use api::machine::Restarts;
use api::tenant_cluster::RestoreProgress;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use providers::State;

use super::join::whole_seconds;
use super::{Action, Observed, Plan};

/// How often: once, and once more where that was cut off, or not done.
const MOST: u32 = 2;
/// How long a machine has to start and its kubelet to register.
const AGAIN: Duration = Duration::from_mins(5);

/// The Restore that took the node away, where one may have.
fn restore(observed: &Observed) -> Option<&RestoreProgress> {
    let status = observed.home()?.status.as_ref()?;
    let restore = status.restore.as_ref()?;
    // What answered before members ran on what was built is the tenant cluster of before.
    (restore.prepared && restore.given_up.is_none()).then_some(restore)
}

/// Has the machine started anew where that is due.
pub(super) fn plan(plan: &mut Plan, observed: &Observed, now: Timestamp) {
    let (Some(restore), Some(seen), Some(vm)) =
        (restore(observed), observed.seen(), observed.own_vm())
    else {
        return;
    };
    let runs = vm.state == State::Running && !vm.deleting;
    if !observed.capabilities.restarts || !runs || seen.node.is_some() {
        return;
    }
    let before = plan.status.restarts.clone();
    let before = before.filter(|before| before.restore == restore.uid);
    let count = before.as_ref().map_or(0, |before| before.count);
    if count >= MOST {
        return;
    }
    let due = before.map(|before| before.last.0 + AGAIN);
    if let Some(due) = due.filter(|due| *due > now) {
        plan.look_at(due, now);
        return;
    }
    plan.status.restarts = Some(Restarts {
        restore: restore.uid.clone(),
        count: count + 1,
        last: Time(whole_seconds(now)),
    });
    plan.restarts = true;
    plan.actions.push(Action::RestartVm);
    let message = format!(
        "its node is not in what Restore {} brought back; the machine is started anew, so that its kubelet registers it",
        restore.name
    );
    plan.publish(false, Reason::RestartedForRestore, message);
}
