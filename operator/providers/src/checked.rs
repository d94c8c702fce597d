//! What a check of a provider found out.
//!
//! Invariant: who was asked is said by the provider, never taken from what a user wrote.

/// What a check found out, where it found nothing wrong.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Checked {
    /// The account, project or subscription that the credentials are of, by the provider's own ID. Machines of
    /// another one are not ours, and not being found in another one proves nothing. None where there is no such
    /// thing.
    pub account: Option<String>,
}
