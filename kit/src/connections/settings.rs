//! Limits of a server.
//!
//! Invariant: what peers can make a server hold before a request is looked at is at most
//! `connections` × `window`, plus what TLS and the heads of `connections` × `streams` requests take.

use std::time::Duration;

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Open connections; the next one takes the place of one that did nothing for longest.
    /// Default 512.
    pub connections: usize,
    /// Requests of one connection of HTTP/2 at once. Default 128.
    pub streams: u32,
    /// Bytes of one connection that are read ahead of whoever asks for them; at least 8 KiB.
    /// Default 64 KiB.
    pub window: u32,
    /// For the TLS handshake. Default 10 s.
    pub handshake: Duration,
    /// For the head of a request of HTTP/1.1, from the answer to the one before. The client has to be who ends a connection that
    /// nobody uses: what it sends as the server closes is lost, and what is no `GET` it may not send again. So longer than
    /// clients keep them, which is 90 s in kube-apiserver (`IdleConnTimeout`, apimachinery/pkg/util/net/http.go). Default 120 s.
    pub idle: Duration,
    /// For requests that run when the shutdown starts. Default 10 s.
    pub grace: Duration,
    /// Begins each request of HTTP/2 within the task of its connection, and gives it a task of its
    /// own only when it has to wait. Suits answers that are in memory: an answer is on its way with
    /// one write, and nothing is woken for it. Default: no, so that one that needs a processor for
    /// long does not hold up others of its connection.
    pub at_once: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let ten = Duration::from_secs(10);
        Self {
            connections: 512,
            streams: 128,
            window: 64 * 1024,
            handshake: ten,
            idle: Duration::from_secs(120),
            grace: ten,
            at_once: false,
        }
    }
}
