//! A request that is carried out later than it was sent, when nobody waits for its answer any more.
//!
//! Invariant: it is carried out once.

use jiff::Timestamp;

/// A request that is carried out later.
#[derive(Clone, Debug)]
pub(super) struct Late {
    pub(super) at: Timestamp,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) token: String,
    pub(super) body: Vec<u8>,
}
