//! What the Machine's node is in the overlay of its tenant cluster: an address, and the key that counts.
//!
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
