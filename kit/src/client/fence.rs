//! Sends writes only while this process leads: the last look at the leadership before a request leaves.
//!
//! Whoever writes has checked it already ([`Leadership::ensure`]), so that it stops early and says why.
//! After that the request may wait for its turn ([`super::rate`], [`super::retry`]) for longer than what is
//! left of the Lease. Invariant: no write is handed to the connection once another process may lead.
//! Reads pass, and so do requests of the Lease, which is how one comes to lead.

use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};
use http::{Method, Request};
use tower::{BoxError, Layer, Service};

use super::rate::is_of_lease;
use crate::lease::Leadership;

/// Makes [`Fenced`] services; it goes below everything that may wait.
#[derive(Clone, Debug)]
pub struct FenceLayer {
    leadership: Leadership,
}

impl FenceLayer {
    /// A fence that falls with this leadership.
    #[must_use]
    pub const fn new(leadership: Leadership) -> Self {
        Self { leadership }
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Fenced {
            inner,
            leadership: self.leadership.clone(),
        }
    }
}

/// A service whose writes fail with [`crate::lease::NotLeader`] when this process does not lead.
#[derive(Clone, Debug)]
pub struct Fenced<S> {
    inner: S,
    leadership: Leadership,
}

impl<S, B> Service<Request<B>> for Fenced<S>
where
    S: Service<Request<B>, Error = BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<S::Future, Ready<Result<S::Response, BoxError>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.leadership.ensure() {
            Err(error) if is_fenced(&request) => Either::Right(ready(Err(error.into()))),
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
