//! The plan against a service that answers everything.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::*;

type Answered = Result<Response<layer::ResponseBody>, BoxError>;

/// Sends one request through a plan; `served` counts what gets through.
async fn send(plan: &FaultPlan, served: &Arc<AtomicU64>, method: &str, path: &str) -> Answered {
    let served = Arc::clone(served);
    let inner = service_fn(move |_: Request<Empty<Bytes>>| {
        served.fetch_add(1, Ordering::SeqCst);
        // One chunk, and then it stays open as a watch does.
        let frames = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from("first")))]);
        let body = StreamBody::new(frames.chain(stream::pending()));
        async { Ok::<_, Infallible>(Response::new(body)) }
    });
    let request = Request::builder()
        .method(method)
        .uri(path)
        .body(Empty::new())
        .unwrap();
    plan.layer().layer(inner).oneshot(request).await
}

const SECRET: &str = "/api/v1/namespaces/a/secrets/b";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/a/leases/b";

#[tokio::test]
async fn crash_before_a_write_keeps_it_from_the_server() {
    let (plan, served) = (FaultPlan::crash_before_write(2), Arc::default());
    send(&plan, &served, "GET", SECRET).await.unwrap();
    send(&plan, &served, "PATCH", LEASE).await.unwrap();
    send(&plan, &served, "PATCH", SECRET).await.unwrap();
    assert!(!plan.is_crashed());
    assert!(send(&plan, &served, "PATCH", SECRET).await.is_err());
    assert!(plan.is_crashed());
    assert!(send(&plan, &served, "GET", SECRET).await.is_err());
    assert_eq!(
        (
            served.load(Ordering::SeqCst),
            plan.writes(),
            plan.requests()
        ),
        (3, 2, 4)
    );
}

#[tokio::test]
async fn plan_that_is_armed_later_counts_from_then_on() {
    let (plan, served) = (FaultPlan::none(), Arc::default());
    send(&plan, &served, "PATCH", SECRET).await.unwrap();
    send(&plan, &served, "PATCH", SECRET).await.unwrap();
    plan.clone().arm(Crash::Before(2));
    send(&plan, &served, "PATCH", SECRET).await.unwrap();
    assert!(!plan.is_crashed());
    assert!(send(&plan, &served, "PATCH", SECRET).await.is_err());
    assert!(plan.is_crashed());
    assert_eq!((served.load(Ordering::SeqCst), plan.writes()), (3, 4));
}

#[tokio::test]
async fn crash_after_a_write_loses_only_its_reply() {
    let (plan, served) = (FaultPlan::crash_after_write(1), Arc::default());
    assert!(send(&plan, &served, "DELETE", SECRET).await.is_err());
    assert_eq!(served.load(Ordering::SeqCst), 1);
    assert!(send(&plan, &served, "DELETE", SECRET).await.is_err());
    assert_eq!(served.load(Ordering::SeqCst), 1);
    plan.crashed().await;
}

#[tokio::test]
async fn open_watch_ends_with_an_error_when_the_process_dies() {
    let (plan, served) = (FaultPlan::none(), Arc::default());
    let watch = send(&plan, &served, "GET", "/api/v1/secrets?watch=true")
        .await
        .unwrap();
    let mut body = watch.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "first");
    plan.crash();
    assert!(body.frame().await.unwrap().is_err());
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn every_second_picked_request_is_answered_with_an_error() {
    let busy = Answer::status(429)
        .retry_after(3)
        .every(2)
        .when(|info| info.is_write());
    let (plan, served) = (FaultPlan::none().answering(busy.times(1)), Arc::default());
    let mut codes = Vec::new();
    for method in ["PATCH", "GET", "PATCH", "PATCH", "PATCH"] {
        let answer = send(&plan, &served, method, SECRET).await.unwrap();
        if answer.status() == 429 {
            assert_eq!(answer.headers()["retry-after"], "3");
        }
        codes.push(answer.status().as_u16());
    }
    assert_eq!(codes, [200, 200, 429, 200, 200]);
    assert_eq!((plan.answered(), plan.writes(), plan.requests()), (1, 3, 5));
}
