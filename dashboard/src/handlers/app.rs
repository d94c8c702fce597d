//! What all pages share, and the forms of answers.
//!
//! Invariant: nothing in it is of one user but the sessions.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use tokio::sync::Semaphore;

use crate::sessions::Sessions;
use crate::upstream::Upstream;

/// As which field manager and agent changes are made.
pub(crate) const MANAGER: &str = "covey-dashboard";
/// Log-ins that are tried at once.
const LOG_INS: usize = 8;
/// Requests that are answered at once, of all sessions: each may hold an answer of the API and what was made of it, and
/// together they stay below the memory of the pod.
const AT_ONCE: usize = 4;
/// Streams of all sessions.
const STREAMS: usize = 400;

/// What all pages share. Clones are one.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) sessions: Sessions,
    pub(crate) upstream: Arc<dyn Upstream>,
    pub(crate) is_read_only: bool,
    pub(crate) log_ins: Arc<Semaphore>,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) turns: Arc<Semaphore>,
}

impl App {
    pub(crate) fn new(sessions: Sessions, upstream: Arc<dyn Upstream>, is_read_only: bool) -> Self {
        Self {
            sessions,
            upstream,
            is_read_only,
            log_ins: Arc::new(Semaphore::new(LOG_INS)),
            streams: Arc::new(Semaphore::new(STREAMS)),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

/// A page.
pub(crate) fn html(status: StatusCode, text: String) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    (status, [(CONTENT_TYPE, kind)], text).into_response()
}

/// Another page, which is asked for by GET whatever this was.
pub(crate) fn see(address: &str) -> Response {
    // Addresses of ours are escaped, so that each is a header's value.
    let value = HeaderValue::from_str(address).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(LOCATION, value)]).into_response()
}

/// The sentence of something that was done, by its word in an address: nobody else's text can stand there.
pub(crate) fn notice(word: &str) -> Option<&'static str> {
    Some(match word {
        "created" => "It was made. It is ready when its conditions say so.",
        "created-without-pool" => {
            "It was made, but its node pool was refused: make that one by itself."
        }
        "created-pool" => "The node pool was made.",
        "paused" => "It is paused: nothing of it is changed until it is resumed.",
        "resumed" => "It goes on.",
        "scaled" => "The number of machines was changed.",
        "deleted" => "It is being deleted.",
        "out" => "You are logged out.",
        "ended" => "Your session has ended. Log in again.",
        _ => return None,
    })
}
