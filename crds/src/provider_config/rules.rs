//! Rules and defaults that several clouds have in common.
//!
//! Invariant: the words of a rule name the field that mends it.

pub(super) const ZONE_STAYS: &str = "zone cannot change: machines are there already; make another ProviderConfig, and name it in the node pools";

pub(super) fn yes() -> bool {
    true
}
