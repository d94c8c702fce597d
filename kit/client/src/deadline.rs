//! Bounds how long an answer may take: 30 s to its head, and for plain requests 30 s to its end.
//!
//! Invariant: a watch, a followed log or an upgraded connection lasts as long as it likes once it
//! has begun (kube's watcher has an idle time-out of its own); nothing else does.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, header};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tower::{BoxError, Layer, Service};

/// The answer did not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server did not answer in time")]
pub struct TimedOut;

/// Makes [`Deadline`]s.
#[derive(Clone, Copy, Debug)]
pub struct DeadlineLayer {
    limit: Duration,
}

impl Default for DeadlineLayer {
    /// 30 s.
    fn default() -> Self {
        Self::new(Duration::from_secs(30))
    }
}

impl DeadlineLayer {
    /// A layer with this limit per try.
    pub const fn new(limit: Duration) -> Self {
        Self { limit }
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Deadline {
            inner,
            limit: self.limit,
        }
    }
}

/// A service whose answers come in time or fail with [`TimedOut`].
#[derive(Clone, Debug)]
pub struct Deadline<S> {
    inner: S,
    limit: Duration,
}

impl<S, R, B> Service<Request<R>> for Deadline<S>
where
    S: Service<Request<R>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<TimedBody<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let deadline = Instant::now() + self.limit;
        let endless = is_endless(&request);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = tokio::time::timeout_at(deadline, answer)
                .await
                .map_err(|_| TimedOut)??;
            let sleep = (!endless).then(|| Box::pin(tokio::time::sleep_until(deadline)));
            Ok(response.map(|body| TimedBody { body, sleep }))
        })
    }
}

/// Whether the answer has no end of its own.
pub(super) fn is_endless<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let asks_for_more = query.split('&').any(|pair| {
        matches!(
            pair,
            "watch=true" | "watch=1" | "follow=true" | "follow=1" | "watch" | "follow"
        )
    });
    asks_for_more || request.headers().contains_key(header::UPGRADE)
}

/// A body that fails with [`TimedOut`] when its end does not come in time.
#[derive(Debug)]
pub struct TimedBody<B> {
    body: B,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<B> HttpBody for TimedBody<B>
where
    B: HttpBody + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        match &mut self.sleep {
            Some(sleep) => {
                ready!(sleep.as_mut().poll(context));
                Poll::Ready(Some(Err(TimedOut.into())))
            }
            None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;
    use http_body_util::{BodyExt, StreamBody};
    use hyper::body::Bytes;
    use std::convert::Infallible;

    /// Answers after `head` with a body of one frame that ends `tail` later.
    async fn ask(uri: &str, head: u64, tail: u64) -> Result<Bytes, BoxError> {
        let transport = tower::service_fn(move |_: Request<()>| async move {
            tokio::time::sleep(Duration::from_secs(head)).await;
            let frames = futures::stream::once(async move {
                tokio::time::sleep(Duration::from_secs(tail)).await;
                Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"end")))
            });
            Ok::<_, BoxError>(Response::new(StreamBody::new(frames.boxed())))
        });
        let mut service = DeadlineLayer::default().layer(transport);
        let response = service.call(Request::get(uri).body(()).unwrap()).await?;
        Ok(response.into_body().collect().await?.to_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn a_plain_answer_must_end_in_time() {
        assert_eq!(ask("/api/v1/pods", 20, 9).await.unwrap(), "end");
        for (head, tail) in [(31, 0), (20, 11)] {
            let error = ask("/api/v1/pods", head, tail).await.expect_err("too late");
            assert!(error.is::<TimedOut>(), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_must_begin_in_time_and_then_lasts() {
        assert_eq!(
            ask("/api/v1/pods?watch=true&timeoutSeconds=290", 20, 3600)
                .await
                .unwrap(),
            "end"
        );
        assert!(ask("/api/v1/pods?watch=true", 31, 0).await.is_err());
    }

    #[test]
    fn only_watches_followed_logs_and_upgrades_are_endless() {
        let endless = |uri| is_endless(&Request::get(uri).body(()).unwrap());
        assert!(endless("/x?a=b&watch=true") && endless("/x?follow=true"));
        assert!(!endless("/x?watch=false") && !endless("/watch") && !endless("/x?b=watch%3Dtrue"));
        let upgrade = Request::get("/x")
            .header("upgrade", "websocket")
            .body(())
            .unwrap();
        assert!(is_endless(&upgrade));
    }
}
