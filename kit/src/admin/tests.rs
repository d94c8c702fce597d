//! Each path of the port, by calls without a socket where one will do.

use super::*;
use axum::body::Body;
use http_body_util::BodyExt;
use prometheus_client::metrics::counter::Counter;
use serde_json::json;
use tower::ServiceExt;

async fn fetch(admin: &Admin, path: &str) -> (StatusCode, String) {
    let request = http::Request::get(path).body(Body::empty()).unwrap();
    let response = admin.router().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn a_failing_check_is_named_and_only_its_path_fails() {
    let admin = Admin::new();
    admin.live("queue", || Ok(()));
    admin.ready("stores", || Err("2 of 3 synced".to_owned()));
    admin.ready("webhook", || Ok(()));
    assert_eq!(
        fetch(&admin, "/livez").await,
        (StatusCode::OK, "[+]queue ok\nok\n".into())
    );
    let expected = "[-]stores failed: 2 of 3 synced\n[+]webhook ok\nfailed\n";
    assert_eq!(
        fetch(&admin, "/readyz").await,
        (StatusCode::SERVICE_UNAVAILABLE, expected.to_owned())
    );
}

#[tokio::test]
async fn metrics_are_open_metrics_text() {
    let admin = Admin::new();
    let counter = Counter::<u64>::default();
    admin.metrics(|registry| registry.register("runs", "Runs", counter.clone()));
    counter.inc();
    let (status, text) = fetch(&admin, "/metrics").await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.contains("runs_total 1\n"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[tokio::test]
async fn state_shows_every_provider_under_its_name() {
    let admin = Admin::new();
    admin.state("lease", || json!({ "leads": true }));
    admin.state("queue", || json!(3));
    let (_, text) = fetch(&admin, "/state").await;
    let state: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(state, json!({ "lease": { "leads": true }, "queue": 3 }));
}

#[tokio::test]
async fn the_port_is_open_once_serve_returns_and_closes_at_shutdown() {
    let shutdown = Shutdown::new();
    let address = Admin::new()
        .serve(([127, 0, 0, 1], 0).into(), &shutdown)
        .await
        .unwrap();
    tokio::net::TcpStream::connect(address)
        .await
        .expect("the port is open");
    shutdown.trigger();
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_stands_still_is_stuck_and_idleness_is_not() {
    let progress = Progress::new(Duration::from_secs(60));
    tokio::time::advance(Duration::from_secs(600)).await;
    assert_eq!(progress.check(), Ok(()), "idle");
    let first = progress.begin();
    tokio::time::advance(Duration::from_secs(50)).await;
    drop(progress.begin());
    tokio::time::advance(Duration::from_secs(50)).await;
    assert_eq!(progress.check(), Ok(()), "something moved 50 s ago");
    tokio::time::advance(Duration::from_secs(11)).await;
    let stuck = progress.check().expect_err("nothing moved for 61 s");
    assert_eq!(stuck, "1 in hand, none began or ended for 61 s");
    drop(first);
    assert_eq!(progress.check(), Ok(()));
}
