//! What the Machine's node is in the overlay of its tenant cluster: an address, and the key that counts.
//!
//! A Host's node is known to its tenant cluster by that address, so it has to be there before the machine is asked for.
//! Invariant: a key that counts is never replaced by what a node says later, and never is one that another
//! Machine has; what is not known now stays.

use api::machine::OverlayMember;

use crate::controllers::machine::observed::Observed;

/// The Machine in the overlay, whose own node says this key; none where there is no overlay, or no address is left.
pub(super) fn member(observed: &Observed, says: Option<&String>) -> Option<OverlayMember> {
    let allotment = observed.overlay.as_ref()?;
    let address = allotment.address?;
    let known = observed.machine.status.as_ref();
    let known = known.and_then(|status| status.overlay.as_ref()?.public_key.as_ref());
    // Two that were seen at the same moment: the older one's it is.
    let known = known.filter(|key| !allotment.older_keys.contains(*key));
    let says = says.filter(|key| !allotment.keys.contains(*key));
    Some(OverlayMember {
        address: address.to_string(),
        public_key: known.or(says).cloned(),
    })
}

/// Whether its node is to be known by an address in the overlay, and there is none left: it has to wait. One that is
/// taken over has its address already.
pub(super) fn lacks_address(observed: &Observed) -> bool {
    let machine = &observed.machine;
    let is_known_by_it = machine.spec.provider.static_.is_some() && machine.adopts().is_none();
    let allotment = observed.overlay.as_ref().filter(|_| is_known_by_it);
    allotment.is_some_and(|allotment| allotment.address.is_none())
}
