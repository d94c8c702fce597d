//! A tenant that is slow, endless or asked for ever, on a paused clock.

use std::convert::Infallible;

use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;
use kube::client::Body;

use super::*;

/// Answers after so long, and counts.
fn slow(delay: Duration) -> (Client, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let service = tower::service_fn(move |_: Request<Body>| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            let never = std::future::pending::<()>();
            let _ = tokio::time::timeout(delay, never).await;
            let body = Bytes::from_static(br#"{"metadata":{"name":"a"}}"#);
            Ok::<_, BoxError>(Response::new(Full::new(body)))
        }
    });
    (Client::new(service, NAMESPACE), asked)
}

fn config_maps(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

#[tokio::test(start_paused = true)]
async fn many_slow_answers_take_one_reconcile_no_longer_than_its_deadline() {
    let (client, asked) = slow(Duration::from_secs(4));
    let budget = Budget::default();
    let api = config_maps(&budget.client(&client));
    let begun = Instant::now();
    let mut whys = Vec::new();
    for _ in 0..1500 {
        let done = budget.within(api.get("a")).await;
        whys.extend(done.err());
    }
    assert_eq!(begun.elapsed(), Budget::WAIT);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_eq!(whys[0], Exceeded::Time(Budget::WAIT));
    assert!(
        whys[0].to_string().contains("within the 5 s"),
        "{}",
        whys[0]
    );
}

#[tokio::test(start_paused = true)]
async fn time_between_two_questions_is_not_the_tenants() {
    let (client, _) = slow(Duration::from_secs(2));
    let budget = Budget::default();
    let api = config_maps(&budget.client(&client));
    for _ in 0..2 {
        budget.within(api.get("a")).await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    budget.within(api.get("a")).await.expect_err("4 s are gone");
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_budget_are_not_sent() {
    let (client, asked) = slow(Duration::ZERO);
    let budget = Budget::default();
    let api = config_maps(&budget.client(&client));
    for _ in 0..MOST_REQUESTS {
        api.get("a").await.unwrap();
    }
    let error = api.get("a").await.expect_err("one too many");
    assert!(kit_client::errors::chain(&error).contains("1000 requests"));
    assert_eq!(asked.load(Ordering::Relaxed), MOST_REQUESTS);
    // Another reconcile has its own.
    let other = Budget::default();
    config_maps(&other.client(&client)).get("a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn endless_answers_side_by_side_are_bounded_together() {
    let service = tower::service_fn(|_: Request<Body>| async {
        let frames = futures::stream::repeat_with(|| {
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b' '; 65536])))
        });
        Ok::<_, BoxError>(Response::new(
            StreamBody::new(frames.boxed()).boxed_unsync(),
        ))
    });
    let client = Client::new(service, NAMESPACE);
    let budget = Budget::default();
    let api = config_maps(&budget.client(&client));
    let params = ListParams::default();
    let lists = (0..16).map(|_| api.list(&params));
    let errors = futures::future::join_all(lists).await;
    let texts: Vec<_> = errors
        .iter()
        .map(|e| kit_client::errors::chain(e.as_ref().expect_err("no end")))
        .collect();
    assert!(texts.iter().all(|text| text.contains("bytes")), "{texts:?}");
    // What each had begun with when the last one was refused.
    assert!(budget.received() <= MOST_BYTES + 16 * 65536);
}

#[test]
fn items_of_all_lists_are_counted_together() {
    let budget = Budget::default();
    for _ in 0..80 {
        budget.take_items("ConfigMaps", 50).unwrap();
    }
    let error = budget.take_items("Secrets", 1).expect_err("too many");
    assert!(error.to_string().starts_with("Secrets are more than 4000"));
}
