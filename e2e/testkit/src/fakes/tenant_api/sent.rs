//! What a played API sends: the body of an answer, and how many bytes of one went out.
//!
//! Invariant: what is counted was taken by the connection.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use http_body_util::combinators::UnsyncBoxBody;

/// The body of an answer.
pub(super) type Body = UnsyncBoxBody<bytes::Bytes, std::convert::Infallible>;

/// How many bytes of an answer were sent.
pub(super) type Sent = Arc<AtomicU64>;
