//! Bodies and lines without end.

use std::convert::Infallible;

use futures::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};

use super::*;

const KIB: usize = 1024;

/// Asks for `uri` and takes what comes, frame by frame: how many bytes, and why it ended.
async fn take(uri: &str, code: u16, frame: &'static [u8], layer: &BodyLimitLayer) -> (u64, String) {
    let transport = tower::service_fn(move |_: Request<()>| async move {
        // Without end.
        let frames = stream::repeat_with(move || Ok::<_, Infallible>(Frame::data(frame.into())));
        let response = Response::builder().status(code);
        response
            .body(StreamBody::new(frames.boxed()))
            .map_err(BoxError::from)
    });
    let mut service = layer.layer(transport);
    let request = Request::get(uri).body(()).unwrap();
    let mut body = service.call(request).await.unwrap().into_body();
    let mut taken = 0;
    loop {
        match body.frame().await.expect("it has no end") {
            Ok(frame) => taken += length(frame.data_ref().unwrap()),
            Err(error) => return (taken, error.to_string()),
        }
        // A limit that does not hold would run for ever.
        assert!(taken <= 64 << 20, "{taken} bytes were taken");
    }
}

#[tokio::test]
async fn an_endless_body_ends_at_the_limit_and_says_which_and_where() {
    let layer = BodyLimitLayer::default();
    let path = "/api/v1/configmaps";
    let (taken, why) = take(path, 200, &[b'x'; 64 * KIB], &layer).await;
    assert_eq!(taken, 4 << 20);
    assert!(why.contains("4194304") && why.contains(path), "{why}");
}

#[tokio::test]
async fn an_endless_line_of_a_watch_ends_at_the_limit() {
    let layer = BodyLimitLayer::default();
    let uri = "/api/v1/nodes?watch=true";
    let (taken, why) = take(uri, 200, &[b'x'; 64 * KIB], &layer).await;
    assert_eq!(taken, 2 << 20);
    assert!(
        why.contains("2097152") && why.contains("/api/v1/nodes"),
        "{why}"
    );
}

#[tokio::test]
async fn a_watch_of_short_lines_goes_on_until_all_is_too_much() {
    let layer = BodyLimitLayer::new(BodyLimits::default(), ByteCounter::new(32 << 20));
    let lines = b"{\"type\":\"BOOKMARK\"}\n{\"type\":\"BOOK";
    let (taken, why) = take("/api/v1/nodes?watch=true", 200, lines, &layer).await;
    assert!(taken > 31 << 20, "{taken}");
    assert!(why.contains("all answers together"), "{why}");
}

#[tokio::test]
async fn a_refused_watch_is_capped_as_any_answer() {
    let layer = BodyLimitLayer::default();
    let (taken, why) = take("/api/v1/nodes?watch=true", 500, b"{}\n", &layer).await;
    assert!(taken <= 4 << 20, "{taken}");
    assert!(why.contains("the answer to"), "{why}");
}

#[tokio::test]
async fn all_answers_that_share_a_counter_are_bounded_together() {
    let counter = ByteCounter::new(10 << 20);
    let layer = BodyLimitLayer::new(BodyLimits::default(), counter.clone());
    let mut whys = Vec::new();
    for _ in 0..3 {
        let (_, why) = take("/api/v1/pods", 200, &[b'x'; 64 * KIB], &layer).await;
        whys.push(why.contains("all answers together"));
    }
    assert_eq!(whys, [false, false, true]);
    assert!(counter.received() <= (10 << 20) + 64 * 1024);
}
