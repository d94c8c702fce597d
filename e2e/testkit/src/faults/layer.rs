//! The tower layer that carries a [`FaultPlan`] out.
//!
//! Invariant: the reply of a request in flight is lost when the plan crashes meanwhile, and an
//! open stream then ends with an error, as if the connection had gone with the process.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use tower::{BoxError, Layer, Service};

use super::{Decision, FaultPlan, shake};

/// What comes back through the layer.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Makes services that obey a [`FaultPlan`].
#[derive(Clone)]
pub struct FaultLayer {
    plan: FaultPlan,
}

impl FaultLayer {
    pub(super) fn new(plan: FaultPlan) -> Self {
        Self { plan }
    }
}

impl<S> Layer<S> for FaultLayer {
    type Service = FaultService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        FaultService {
            plan: self.plan.clone(),
            inner,
        }
    }
}

/// A service that obeys a [`FaultPlan`].
#[derive(Clone)]
pub struct FaultService<S> {
    plan: FaultPlan,
    inner: S,
}

impl<S, B, ReqBody> Service<Request<ReqBody>> for FaultService<S>
where
    S: Service<Request<ReqBody>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let plan = self.plan.clone();
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.split('&').any(|part| part == "watch=true");
        let last = match plan.decide(request.method(), request.uri()) {
            Decision::Dead => return async { Err(dead()) }.boxed(),
            Decision::Answer(answer) if answer.panics() => {
                return panics().boxed();
            }
            Decision::Answer(answer) => {
                let response = answer.response().map(|body| {
                    Full::from(body)
                        .map_err(|never| match never {})
                        .boxed_unsync()
                });
                return async { Ok(response) }.boxed();
            }
            Decision::SendAndDie => true,
            Decision::Send => false,
        };
        let is_silent = plan.silences(request.method(), request.uri());
        let sent = self.inner.call(request);
        async move {
            if last {
                // Carried out once the head of the answer is here.
                shake::pause().await;
                let answer = sent.await;
                plan.crash();
                drop(answer);
                return Err(dead());
            }
            tokio::select! {
                biased;
                () = plan.crashed() => Err(dead()),
                answer = shake::pause().then(|()| sent) => {
                    let answer = answer.map_err(Into::into)?;
                    Ok(answer.map(|body| mortal(body, plan, is_watch, is_silent)))
                }
            }
        }
        .boxed()
    }
}

#[expect(clippy::panic, reason = "that is the fault")]
async fn panics() -> Result<Response<ResponseBody>, BoxError> {
    panic!("a fault of the test")
}

/// A body that ends with an error when the plan crashes; in shake mode events of a watch come late, those
/// of one that is silent never.
fn mortal<B>(body: B, plan: FaultPlan, is_watch: bool, is_silent: bool) -> ResponseBody
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let frames = BodyStream::new(body)
        .map(|frame| frame.map_err(Into::into))
        .then(move |frame| async move {
            if is_silent {
                std::future::pending::<()>().await;
            }
            if is_watch {
                shake::pause().await;
            }
            frame
        })
        .boxed();
    let death = async move { plan.crashed().await }.boxed();
    let frames = stream::unfold(Some((frames, death)), async |state| {
        let (mut frames, mut death) = state?;
        tokio::select! {
            biased;
            () = &mut death => Some((Err(dead()), None)),
            frame = frames.next() => frame.map(|frame| (frame, Some((frames, death)))),
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

fn dead() -> BoxError {
    "the process is dead (a fault of the test)".into()
}
