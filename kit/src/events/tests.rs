//! What is written and how often, against a fake API server.

use super::*;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kube::client::Body;
use serde_json::Value;
use tower::BoxError;

type Sent = Arc<Mutex<Vec<Value>>>;

/// A publisher whose server answers with the codes in turn, then with 201.
fn publisher(codes: &'static [u16]) -> (Publisher, Sent) {
    let sent = Sent::default();
    let log = Arc::clone(&sent);
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = Arc::clone(&log);
        async move {
            let bytes = request.into_body().collect().await?.to_bytes();
            let mut log = log.lock().unwrap();
            let code = codes.get(log.len()).copied().unwrap_or(201);
            log.push(serde_json::from_slice(&bytes)?);
            let body = if code == 201 {
                bytes
            } else {
                Bytes::from_static(b"refused")
            };
            let response = Response::builder().status(code).body(Full::new(body));
            response.map_err(BoxError::from)
        }
    });
    let client = Client::new(service, "default");
    (Publisher::new(client, "covey.dev/test", "operator-0"), sent)
}

fn regarding(uid: &str) -> ObjectReference {
    ObjectReference {
        name: Some("demo".to_owned()),
        namespace: Some("team".to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

fn notice(message: &str) -> Notice {
    Notice {
        warning: true,
        reason: "Waiting",
        message: message.to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_written_once_in_ten_minutes() {
    let (publisher, sent) = publisher(&[]);
    let publish = async |uid, message| publisher.publish(&regarding(uid), &notice(message)).await;
    assert_eq!(publish("1", "a").await, Published::Written);
    for _ in 0..9 {
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(publish("1", "a").await, Published::Before);
    }
    assert_eq!(
        publish("1", "b").await,
        Published::Written,
        "another message"
    );
    assert_eq!(
        publish("2", "a").await,
        Published::Written,
        "another object"
    );
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(
        publish("1", "a").await,
        Published::Written,
        "ten minutes later"
    );
    assert_eq!(sent.lock().unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn events_of_one_reason_are_written_once_in_ten_minutes_whatever_their_words() {
    let (publisher, sent) = publisher(&[]);
    for number in 0..9 {
        let notice = notice(&format!("request {number} is denied"));
        let written = publisher.publish_by_reason(&regarding("1"), &notice).await;
        assert_eq!(written == Published::Written, number == 0);
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    let (one, notice) = (regarding("1"), notice("request 9 is denied"));
    let again = publisher.publish_by_reason(&one, &notice).await;
    assert_eq!(again, Published::Written, "ten minutes later");
    assert_eq!(sent.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn an_event_that_was_refused_is_tried_again_next_time() {
    let (publisher, sent) = publisher(&[403]);
    let publish = async || publisher.publish(&regarding("1"), &notice("a")).await;
    assert_eq!(publish().await, Published::Failed);
    assert_eq!(publish().await, Published::Written);
    assert_eq!(sent.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn an_event_has_all_that_the_api_server_asks_for() {
    let (publisher, sent) = publisher(&[]);
    let long = "ü".repeat(600);
    publisher.publish(&regarding("1"), &notice(&long)).await;
    let sent = sent.lock().unwrap();
    let [event] = sent.as_slice() else {
        panic!("one event")
    };
    assert_eq!(event["metadata"]["namespace"], "team");
    assert!(
        event["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with("demo.")
    );
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&"Warning".into(), &"Waiting".into())
    );
    assert_eq!(event["action"], "Waiting");
    assert_eq!(event["reportingController"], "covey.dev/test");
    assert_eq!(event["reportingInstance"], "operator-0");
    assert_eq!(event["note"].as_str().unwrap().len(), 1024);
    assert!(event["eventTime"].is_string());
}

#[test]
fn what_is_long_past_is_forgotten() {
    let start = Instant::now();
    let mut recent = Recent::default();
    let key = |uid: u32| Key {
        uid: uid.to_string(),
        reason: "r",
        message: "m".into(),
    };
    for uid in 0..100 {
        assert!(recent.claim(&key(uid), start));
    }
    assert!(recent.claim(&key(7), start + QUIET));
    assert_eq!(recent.written.len(), 1);
}
