//! `--verbose`: each request, its answer and how long that took, on standard error.
//!
//! Invariant: no header and no body is told, so no credential is; of a watch it is told when it begins.

use std::fmt::Display;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response};
use insight::text;
use tokio::time::Instant;
use tower::Service;

use crate::output::say;

/// A service that tells what is asked of it, where that is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Told<S> {
    inner: S,
    is_on: bool,
}

impl<S> Told<S> {
    /// Around this one.
    pub(crate) fn new(inner: S, is_on: bool) -> Self {
        Self { inner, is_on }
    }
}

impl<S, R, B> Service<Request<R>> for Told<S>
where
    S: Service<Request<R>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Display,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let asked = self.is_on.then(|| {
            let place = request.uri().path_and_query();
            let place = place.map(ToString::to_string).unwrap_or_default();
            (format!("{} {place}", request.method()), Instant::now())
        });
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            if let Some((asked, begun)) = asked {
                let said = match &answer {
                    Ok(answer) => answer.status().as_u16().to_string(),
                    Err(error) => error.to_string(),
                };
                say(&line(&asked, &said, begun.elapsed().as_millis()));
            }
            answer
        })
    }
}

/// `GET /api/v1/pods?limit=500 200 12ms`.
fn line(asked: &str, said: &str, millis: u128) -> String {
    format!("{} {millis}ms", text::shown(&format!("{asked} {said}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_line_without_secrets() {
        let told = line("GET /api/v1/pods?limit=500", "200", 12);
        assert_eq!(told, "GET /api/v1/pods?limit=500 200 12ms");
        let told = line("GET /x?token=sesame", "no to Bearer open", 1);
        assert!(!told.contains("sesame") && !told.contains("open"), "{told}");
    }

    #[tokio::test]
    async fn the_answer_is_handed_on() {
        let inner = tower::service_fn(|request: Request<()>| async move {
            let answer = request.uri().path().to_owned();
            Ok::<_, std::io::Error>(Response::new(answer))
        });
        for is_on in [true, false] {
            let mut told = Told::new(inner, is_on);
            let request = Request::get("/version?a=b").body(()).unwrap();
            let answer = told.call(request).await.unwrap();
            assert_eq!(answer.into_body(), "/version");
        }
    }
}
