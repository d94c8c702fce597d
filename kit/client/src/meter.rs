//! Counts the requests that one piece of work sends.
//!
//! Invariant: what is counted is what was handed to the connection while the work was polled, tries that
//! failed included; what it leaves to other tasks is not.

use std::cell::Cell;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Request;
use tower::{Layer, Service};

tokio::task_local! {
    static SENT: Cell<u32>;
}

/// Does the work; gives, beside its result, how many requests of metered clients it sent.
pub async fn metered<T>(work: impl Future<Output = T>) -> (T, u32) {
    let counted = async {
        let result = work.await;
        (result, SENT.with(Cell::get))
    };
    SENT.scope(Cell::new(0), counted).await
}

/// Makes [`Metered`] services.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeterLayer;

impl<S> Layer<S> for MeterLayer {
    type Service = Metered<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Metered { inner }
    }
}

/// A service whose requests count for whoever waits for their answers.
#[derive(Clone, Debug)]
pub struct Metered<S> {
    inner: S,
}

impl<S, B> Service<Request<B>> for Metered<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answer = self.inner.call(request);
        async move {
            // Here, because what is above calls from a task of its own, and only the answer is waited for
            // by the one that asked. Others do not meter.
            let _ = SENT.try_with(|sent| sent.set(sent.get().saturating_add(1)));
            answer.await
        }
        .boxed()
    }
}
