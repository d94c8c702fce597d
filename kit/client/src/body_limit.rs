//! Caps how much of an answer is taken: the bytes of one answer, of one line of a watch, and of all answers
//! that share a [`ByteCounter`].
//!
//! Invariant: what is beyond a limit is not kept, and the error names the limit and the path; a watch as
//! such has no end and so no cap on its whole.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tower::{BoxError, Layer, Service};

use crate::deadline::is_endless;

/// How much is taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BodyLimits {
    /// Bytes of one answer that is not a watch.
    pub answer: u64,
    /// Bytes of one line of a watch.
    pub line: u64,
}

impl Default for BodyLimits {
    /// 4 MiB for an answer: etcd takes objects of 1.5 MiB. 2 MiB for a line, which has one object.
    fn default() -> Self {
        Self {
            answer: 4 << 20,
            line: 2 << 20,
        }
    }
}

/// More came than is taken.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TooLarge {
    /// One answer.
    #[error("the answer to {path} has more than {limit} bytes, and no more are read")]
    Answer {
        /// Most bytes.
        limit: u64,
        /// What was asked.
        path: String,
    },
    /// One line of a watch.
    #[error("a line of the watch of {path} has more than {limit} bytes, and no more are read")]
    Line {
        /// Most bytes.
        limit: u64,
        /// What was asked.
        path: String,
    },
    /// All answers together.
    #[error("all answers together, {path} the last of them, have more than {limit} bytes")]
    Sum {
        /// Most bytes.
        limit: u64,
        /// What was asked last.
        path: String,
    },
}

/// Counts the bytes of all answers that share it, and says when there are too many. Clones are one.
#[derive(Clone, Debug)]
pub struct ByteCounter {
    received: Arc<AtomicU64>,
    most: u64,
}

impl Default for ByteCounter {
    /// Only counts.
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

impl ByteCounter {
    /// Nothing so far; `most` is what all answers may have together.
    #[must_use]
    pub fn new(most: u64) -> Self {
        Self {
            received: Arc::default(),
            most,
        }
    }

    /// Bytes so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Whether these are taken too.
    fn take(&self, bytes: u64) -> bool {
        let before = self.received.fetch_add(bytes, Ordering::Relaxed);
        before.saturating_add(bytes) <= self.most
    }
}

/// Makes [`BodyLimit`] services.
#[derive(Clone, Debug, Default)]
pub struct BodyLimitLayer {
    limits: BodyLimits,
    counter: ByteCounter,
}

impl BodyLimitLayer {
    /// With these limits; what comes counts there.
    #[must_use]
    pub fn new(limits: BodyLimits, counter: ByteCounter) -> Self {
        Self { limits, counter }
    }
}

impl<S> Layer<S> for BodyLimitLayer {
    type Service = BodyLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        BodyLimit {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service whose answers end in [`TooLarge`] where they are too long.
#[derive(Clone, Debug)]
pub struct BodyLimit<S> {
    inner: S,
    layer: BodyLimitLayer,
}

impl<S, R, B> Service<Request<R>> for BodyLimit<S>
where
    S: Service<Request<R>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<LimitedBody<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let path = request.uri().path().to_owned();
        let endless = is_endless(&request);
        let BodyLimitLayer { limits, counter } = self.layer.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await.map_err(Into::into)?;
            // A refusal of a watch is an answer as any other.
            let status = response.status();
            let by_line = endless && (status.is_success() || status.is_informational());
            Ok(response.map(|body| LimitedBody {
                body,
                path,
                limits,
                counter,
                by_line,
                since: 0,
            }))
        })
    }
}

/// A body that ends in [`TooLarge`] where it is too long.
#[derive(Debug)]
pub struct LimitedBody<B> {
    body: B,
    path: String,
    limits: BodyLimits,
    counter: ByteCounter,
    by_line: bool,
    /// Bytes since the beginning, or since the last end of a line.
    since: u64,
}

impl<B> LimitedBody<B> {
    fn take(&mut self, data: &[u8]) -> Result<(), TooLarge> {
        let path = || self.path.clone();
        if !self.counter.take(length(data)) {
            let (limit, path) = (self.counter.most, path());
            return Err(TooLarge::Sum { limit, path });
        }
        if !self.by_line {
            self.since = self.since.saturating_add(length(data));
            let limit = self.limits.answer;
            return match self.since > limit {
                true => Err(TooLarge::Answer {
                    limit,
                    path: path(),
                }),
                false => Ok(()),
            };
        }
        let limit = self.limits.line;
        for (number, part) in data.split(|byte| *byte == b'\n').enumerate() {
            if number > 0 {
                self.since = 0;
            }
            self.since = self.since.saturating_add(length(part));
            if self.since > limit {
                let path = self.path.clone();
                return Err(TooLarge::Line { limit, path });
            }
        }
        Ok(())
    }
}

fn length(data: &[u8]) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX)
}

impl<B> HttpBody for LimitedBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        let taken = frame.data_ref().map_or(Ok(()), |data| self.take(data));
        Poll::Ready(Some(match taken {
            Ok(()) => Ok(frame),
            Err(error) => Err(error.into()),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
