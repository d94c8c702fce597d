//! Sends writes only while this process leads: the last look at the leadership before a request leaves.
//!
//! Whoever writes has checked it already, so that it stops early and says why. After that the request may
//! wait for its turn ([`crate::rate`], [`crate::retry`]) for longer than what is left of the Lease.
//! Invariant: no write is handed to the connection once another process may lead.
//! Reads pass, and so do requests of the Lease, which is how one comes to lead.

use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};
use http::{Method, Request};
use tower::{BoxError, Layer, Service};

use crate::rate::is_of_lease;

/// Who knows whether this process may write: its leadership.
pub trait WriteGate {
    /// Whether a write may be sent now.
    ///
    /// # Errors
    /// Why not.
    fn ensure_open(&self) -> Result<(), BoxError>;
}

/// Makes [`Fenced`] services; it goes below everything that may wait.
#[derive(Clone, Debug)]
pub struct FenceLayer<G> {
    gate: G,
}

impl<G> FenceLayer<G> {
    /// A fence that is open while this gate is.
    #[must_use]
    pub const fn new(gate: G) -> Self {
        Self { gate }
    }
}

impl<S, G: Clone> Layer<S> for FenceLayer<G> {
    type Service = Fenced<S, G>;

    fn layer(&self, inner: S) -> Self::Service {
        Fenced {
            inner,
            gate: self.gate.clone(),
        }
    }
}

/// A service whose writes fail with what its gate says while that is not open.
#[derive(Clone, Debug)]
pub struct Fenced<S, G> {
    inner: S,
    gate: G,
}

impl<S, G, B> Service<Request<B>> for Fenced<S, G>
where
    G: WriteGate,
    S: Service<Request<B>, Error = BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<S::Future, Ready<Result<S::Response, BoxError>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.gate.ensure_open() {
            Err(error) if is_fenced(&request) => Either::Right(ready(Err(error))),
            _ => Either::Left(self.inner.call(request)),
        }
    }
}

fn is_fenced<B>(request: &Request<B>) -> bool {
    let is_read = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    !is_read && !is_of_lease(request.uri().path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_fenced_and_neither_reads_nor_the_lease_are() {
        let fenced = |method: Method, path: &str| {
            let request = Request::builder().method(method).uri(path).body(());
            is_fenced(&request.unwrap())
        };
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(fenced(method.clone(), "/api/v1/namespaces/a/secrets/b"));
            assert!(!fenced(
                method,
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/b"
            ));
        }
        assert!(!fenced(
            Method::GET,
            "/api/v1/namespaces/a/secrets?watch=true"
        ));
    }
}
