//! What all connections of the fault proxy share, and the bodies that it answers with.
//!
//! Invariant: a rule that was changed holds for the next request of every connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::sync::watch;
use tower::BoxError;

use super::rules::{Counters, Rules};

pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;
pub(super) type Upstream = Box<
    dyn Fn(Request<Incoming>) -> BoxFuture<'static, Result<Response<Incoming>, BoxError>>
        + Send
        + Sync,
>;

/// What all connections share.
pub(super) struct Shared {
    pub(super) rules: Mutex<Rules>,
    /// Changes with the rules, for watches that are stalled.
    pub(super) changed: watch::Sender<u64>,
    /// Changes when all watches are to be broken off.
    pub(super) closed: watch::Sender<u64>,
    pub(super) requests: AtomicU64,
    pub(super) streams: AtomicU64,
    pub(super) events: AtomicU64,
    pub(super) upstream: Upstream,
    pub(super) base: Uri,
}

impl Shared {
    pub(super) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            requests: self.requests.load(Ordering::SeqCst),
            streams: self.streams.load(Ordering::SeqCst),
            events: self.events.load(Ordering::SeqCst),
            rules: self.rules().counters(),
        }
    }
}

pub(super) fn whole(body: Vec<u8>) -> Body {
    Full::from(body)
        .map_err(|never| match never {})
        .boxed_unsync()
}
