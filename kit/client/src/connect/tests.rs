//! The whole stack over a fake transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http_body_util::Full;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use tokio::time::Instant;
use tower::layer::layer_fn;

use super::*;
use crate::errors::{Class, Classify as _};
use crate::meter;

/// Fails the first `failures` requests with `code`, then answers with a ConfigMap.
fn client(failures: u32, code: u16) -> (Client, Arc<AtomicU32>, RequestCounter) {
    let seen = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&seen);
    let transport = tower::service_fn(move |_: Request<Body>| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        async move {
            let (code, body) = match number < failures {
                true => (code, "{}".to_owned()),
                false => (200, r#"{"metadata":{"name":"a"}}"#.to_owned()),
            };
            let response = Response::builder()
                .status(code)
                .body(Full::new(Bytes::from(body)));
            response.map_err(BoxError::from)
        }
    });
    let requests = RequestCounter::new();
    (
        assemble(transport, "default", &ClientArgs::default(), &requests),
        seen,
        requests,
    )
}

fn config_maps(client: Client) -> Api<ConfigMap> {
    Api::default_namespaced(client)
}

async fn write(client: Client) -> Result<ConfigMap, kube::Error> {
    let patch = Patch::Apply(serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap" }));
    config_maps(client)
        .patch("a", &PatchParams::apply("test"), &patch)
        .await
}

#[tokio::test(start_paused = true)]
async fn a_read_survives_two_failures_and_every_try_is_counted() {
    let (client, seen, requests) = client(2, 503);
    config_maps(client)
        .get("a")
        .await
        .expect("the third try succeeds");
    assert_eq!((seen.load(Ordering::SeqCst), requests.reads()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_old_retries_as_a_new_one_does() {
    let (client, seen, _) = client(4, 503);
    let reads = config_maps(client);
    reads.get("a").await.expect_err("three failures are final");
    tokio::time::advance(Duration::from_secs(60)).await;
    reads.get("a").await.expect("one failure is not");
    assert_eq!(seen.load(Ordering::SeqCst), 5);
}

#[tokio::test(start_paused = true)]
async fn a_read_gives_up_after_three_tries_within_ten_seconds() {
    let (client, seen, _) = client(u32::MAX, 503);
    let start = Instant::now();
    let error = config_maps(client)
        .get("a")
        .await
        .expect_err("it never succeeds");
    assert_eq!(error.class(), Class::Transient);
    assert_eq!(seen.load(Ordering::SeqCst), 3);
    assert!(start.elapsed() <= Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_write_is_sent_once_unless_the_server_is_too_busy_for_it() {
    let (unavailable, seen, _) = client(u32::MAX, 503);
    write(unavailable)
        .await
        .expect_err("503 is final for a write");
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    let (busy, seen, requests) = client(1, 429);
    write(busy).await.expect("the second try succeeds");
    assert_eq!((seen.load(Ordering::SeqCst), requests.writes()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_never_answers_fails_after_thirty_seconds_without_a_retry() {
    let requests = RequestCounter::new();
    let transport = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Full<Bytes>>, BoxError>>()
    });
    let client = assemble(transport, "default", &ClientArgs::default(), &requests);
    let start = Instant::now();
    let error = config_maps(client).get("a").await.expect_err("no answer");
    assert_eq!(start.elapsed().as_secs(), 30);
    assert_eq!(error.class(), Class::Transient);
    assert!(crate::errors::chain(&error).contains("did not answer in time"));
}

#[tokio::test]
async fn an_extra_layer_sees_every_request_before_the_transport() {
    let config = Config::new("https://127.0.0.1:1".parse().unwrap());
    let requests = RequestCounter::new();
    let faults = layer_fn(|_: Transport| {
        tower::service_fn(|_: Request<Body>| async {
            Err::<Response<Full<Bytes>>, BoxError>("injected".into())
        })
    });
    let client = build(config, &ClientArgs::default(), &requests, &faults).unwrap();
    let error = write(client).await.expect_err("the fault");
    assert!(crate::errors::chain(&error).contains("injected"));
    assert_eq!(requests.writes(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_piece_of_work_is_told_what_it_sent_and_not_what_others_did() {
    let requests = RequestCounter::new();
    let transport = tower::service_fn(|_: Request<Body>| async {
        let body = Full::new(Bytes::from(r#"{"metadata":{"name":"a"}}"#));
        Ok::<_, BoxError>(Response::new(body))
    });
    let transport = meter::MeterLayer.layer(transport);
    let client = assemble(transport, "default", &ClientArgs::default(), &requests);
    let work = async |gets: usize| {
        let gets = (0..gets).map(|_| {
            let client = client.clone();
            async move { config_maps(client).get("a").await.map(drop) }
        });
        let all = futures::future::try_join_all(gets).await;
        all.and(write(client.clone()).await)
            .expect("all are answered")
    };
    let (few, many) = tokio::join!(meter::metered(work(2)), meter::metered(work(40)));
    assert_eq!((few.1, many.1), (3, 41));
    work(1).await;
    assert_eq!(requests.reads() + requests.writes(), 46);
}
