//! A request that is carried out later than it was sent, when nobody waits for its answer any more.
//!
//! Invariant: it is carried out once.

use jiff::Timestamp;

/// A request that is carried out later.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    pub(crate) at: Timestamp,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) token: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) is_new: bool,
}
