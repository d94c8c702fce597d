//! Whether the node that runs on a machine may be taken over, and by whom.
//!
//! The file on the machine names who has it. After the loss of a management cluster that is a Machine that nobody has
//! any more; but two installations may list one machine, and the other one may be alive: whoever has a machine says so
//! there at each look.
//! Invariant: nothing is taken from an owner that is alive, or of which nobody knows whether it is and no person said
//! that it is not; a machine says by itself which node it is, and gets no secret for that.

use std::time::Duration;

use api::host::{HostNode, HostPhase};
use api::{ConditionType, Host, Machine, condition::is_true, names};
use kube::ResourceExt;

use super::observed::Observed;
use crate::plan::claim::Owner;
use crate::plan::facts::Facts;

/// How long an owner has not looked at its machine before it counts as gone: twice the longest time between two looks
/// (`super::plan::AT_REST` and a fifth), and what an installation that is updated needs.
pub const OWNER_GONE: Duration = Duration::from_mins(30);

/// Whether it is a node that is to be taken over.
#[must_use]
pub fn is_node(host: &Host, facts: &Facts) -> bool {
    host.spec.adopt
        && facts.kubelet_configured
        && !(facts.kubelet_ca.is_empty() && facts.tasks == 0)
}

/// The node, as the status has it; none where the machine does not say which it is.
#[must_use]
pub fn node(facts: &Facts) -> Option<HostNode> {
    let name = facts.node_name.clone()?;
    let ca_fingerprints = facts.kubelet_authorities.clone();
    (!ca_fingerprints.is_empty()).then(|| HostNode {
        name,
        ca_fingerprints,
        owner: facts.owner.as_ref().map(Owner::seen),
    })
}

/// Why nothing is taken from its owner, and what a person can do; none where it has none, or that is gone.
#[must_use]
pub(super) fn held(observed: &Observed, facts: &Facts) -> Option<String> {
    let owner = facts.owner.as_ref()?;
    if *owner == Owner::default() || owner.machine.is_empty() {
        return Some(
            "it belongs to an owner whose file cannot be read: see /var/lib/covey/owner.json on the machine, and remove it \
             where nobody looks after the machine any more"
                .to_owned(),
        );
    }
    if observed.owner_is_here {
        return Some(format!(
            "it belongs to {owner}, which is there: delete that Machine first"
        ));
    }
    let annotations = observed.host.annotations();
    if annotations.get(names::ANNOTATION_TAKE_OVER) == Some(&owner.machine) {
        return None;
    }
    let person = format!(
        "if that installation is gone for good, kubectl annotate host {} {}={}",
        observed.host.name_any(),
        names::ANNOTATION_TAKE_OVER,
        owner.machine
    );
    match facts.owner_looked {
        Some(seconds) if seconds >= OWNER_GONE.as_secs() => None,
        Some(seconds) => Some(format!(
            "it belongs to {owner}, who looked at it {seconds} s ago: it is taken over once nobody did for {} min; or, \
             {person}",
            OWNER_GONE.as_secs() / 60
        )),
        None => Some(format!(
            "it belongs to {owner}, of whom nobody knows whether it is there: {person}"
        )),
    }
}

/// The node of a Host that a Machine may take over.
#[must_use]
pub fn adoptable(host: &Host) -> Option<&HostNode> {
    let status = host.status.as_ref()?;
    let is_adoptable = status.phase == Some(HostPhase::Adoptable)
        && status.claim.is_none()
        && status.observed_generation == host.metadata.generation
        && is_true(&status.conditions, ConditionType::Reachable)
        && is_true(&status.conditions, ConditionType::Verified)
        && host.spec.adopt
        && !host.spec.maintenance
        && host.metadata.deletion_timestamp.is_none()
        && host
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == names::FINALIZER_HOST);
    status.node.as_ref().filter(|_| is_adoptable)
}

/// Whether it is not known yet whether there is a node to be taken over: nobody has looked at it as it is now, and
/// nothing keeps that from being done.
#[must_use]
pub fn is_awaited(host: &Host) -> bool {
    let status = host.status.as_ref();
    let was_looked_at = status.is_some_and(|status| {
        status.observed_generation.is_some()
            && status.observed_generation == host.metadata.generation
    });
    host.spec.adopt && !was_looked_at && host.metadata.deletion_timestamp.is_none()
}

/// Whether a Machine is made to take over this very node, of this very Host.
#[must_use]
pub fn is_for(machine: &Machine, host: &Host) -> bool {
    let Some((uid, fingerprint)) = machine.adopts() else {
        return false;
    };
    let node = adoptable(host).filter(|_| host.uid().as_deref() == Some(uid));
    node.is_some_and(|node| {
        node.name == machine.name_any()
            && node
                .ca_fingerprints
                .iter()
                .any(|known| known == fingerprint)
    })
}

/// What is on a machine whose node is being taken over is what was seen, or our own already. In words, what is not.
///
/// # Errors
/// In words.
pub fn as_seen(node: &HostNode, facts: &Facts, ca: &str) -> Result<(), String> {
    if facts.node_name.as_ref() != Some(&node.name) {
        let found = facts.node_name.as_deref().unwrap_or("none");
        return Err(format!("it was the node {}, and is {found} now", node.name));
    }
    let is_ours = !ca.is_empty() && facts.kubelet_ca == ca;
    match is_ours || facts.kubelet_authorities == node.ca_fingerprints {
        true => Ok(()),
        false => Err("its kubelet believes another authority than it did".to_owned()),
    }
}
