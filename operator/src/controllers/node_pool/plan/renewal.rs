//! Whose kubelet has its turn to be told of a rotation in place.
//!
//! A turn is an annotation on the Machine with the time since when nodes are to have been told; what comes of it the Machine's
//! status says, so a turn is neither taken back nor remembered elsewhere.
//! Invariant: of a pool one machine has a turn until one was told, and then a tenth of them, and no more are missing by that;
//! none while the pool changes otherwise (one that was given up is replaced first), and none whose node is not ready: that one
//! waits, and holds up nobody else. A turn that was given counts until its machine was told, or goes.

use api::{Machine, TenantCluster, names};
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::json;

use super::template::Template;
use super::{Change, Plan, members};
use crate::controllers::node_pool::observed::is_going;
use crate::rotation::kubelets::{known_since, renewed, renewed_before};

/// One in so many at a time, once one was told.
const SHARE: usize = 10;

/// Gives turns.
pub(super) fn plan(
    plan: &mut Plan,
    cluster: &TenantCluster,
    template: &Template,
    machines: &[&Machine],
) {
    let Some(since) = renewed_before(cluster) else {
        return;
    };
    // Who drains, or is about to be replaced, is missing, or about to be.
    let stays = |machine: &&Machine| !is_going(machine) && template.fits(machine);
    if !plan.is_settled() || !machines.iter().all(stays) {
        return;
    }
    let (turns, waiting): (Vec<&Machine>, Vec<_>) = machines
        .iter()
        .copied()
        .filter(|machine| is_of_before(machine, since))
        .partition(|machine| has_turn(machine, since));
    let was_told = machines
        .iter()
        .any(|machine| renewed(machine) >= Some(since));
    let most = match was_told {
        true => (machines.len() / SHARE).max(1),
        false => 1,
    };
    let free = most.saturating_sub(turns.len());
    let ready = waiting
        .into_iter()
        .filter(|machine| members::is_ready(machine));
    plan.changes
        .extend(ready.take(free).map(|machine| turn(machine, since)));
}

/// Whether its kubelet has what it was given before.
fn is_of_before(machine: &Machine, since: Timestamp) -> bool {
    let status = machine.status.as_ref();
    let has_joined = status.is_some_and(|status| status.node_name.is_some());
    has_joined && known_since(machine).is_none_or(|known| known < since)
}

fn has_turn(machine: &Machine, since: Timestamp) -> bool {
    given(machine) == Some(since)
}

/// The turn that a Machine has, or had.
fn given(machine: &Machine) -> Option<Timestamp> {
    let given = machine.annotations().get(names::ANNOTATION_RENEW_KUBELET);
    given.and_then(|given| given.parse().ok())
}

fn turn(machine: &Machine, since: Timestamp) -> Change {
    Change {
        name: machine.name_any(),
        patch: json!({ "metadata": {
            "uid": machine.uid(), "resourceVersion": machine.resource_version(),
            "annotations": { names::ANNOTATION_RENEW_KUBELET: since.to_string() },
        }}),
    }
}
