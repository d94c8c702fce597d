//! Each path of the port, by calls without a socket where one will do.

use super::*;
use axum::body::Body;
use http_body_util::BodyExt;
use prometheus_client::metrics::counter::Counter;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
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
async fn the_port_for_probes_shows_neither_metrics_nor_state() {
    let admin = Admin::new();
    let paths = ["/livez", "/readyz", "/metrics", "/state"];
    let (all, probes) = (admin.router(), admin.probes());
    for (path, probed) in paths.into_iter().zip([200, 200, 404, 404]) {
        for (router, wanted) in [(&all, 200), (&probes, probed)] {
            let request = http::Request::get(path).body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), wanted, "{path}");
        }
    }
}

#[tokio::test]
async fn silent_peers_on_the_admin_port_keep_neither_port_from_answering() {
    let shutdown = Shutdown::new();
    let admin = Admin::new();
    let local = ([127, 0, 0, 1], 0).into();
    let port = admin.serve(local, &shutdown).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..3 * LIMITS.connections {
        let mut stream = TcpStream::connect(port).await.unwrap();
        // Half a head.
        stream.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
        silent.push(stream);
    }
    let mut stream = TcpStream::connect(port).await.unwrap();
    let request = b"GET /livez HTTP/1.1\r\nHost: covey\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Of the silent ones at most the places are left; the first was cut without a time-out.
    assert_eq!(silent[0].read(&mut [0; 8]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn the_port_is_open_once_serve_returns_and_closes_at_shutdown() {
    let shutdown = Shutdown::new();
    let address = Admin::new()
        .serve(([127, 0, 0, 1], 0).into(), &shutdown)
        .await
        .unwrap();
    TcpStream::connect(address).await.expect("the port is open");
    shutdown.trigger();
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn loops_that_are_not_polled_any_more_are_stuck_and_those_that_wait_are_not() {
    let admin = Admin::new();
    let live = async || fetch(&admin, "/livez").await.0;
    let mut loops = std::pin::pin!(admin.live_while_polled("loops", std::future::pending::<()>()));
    tokio::time::advance(2 * STUCK).await;
    assert_eq!(live().await, StatusCode::OK, "they have not begun");
    for _ in 0..10 {
        let ended = tokio::time::timeout(STUCK, &mut loops).await;
        assert!(ended.is_err(), "they end never");
        assert_eq!(live().await, StatusCode::OK, "they wait");
    }
    tokio::time::advance(STUCK + Duration::from_secs(1)).await;
    assert_eq!(live().await, StatusCode::SERVICE_UNAVAILABLE);
    // They go on.
    let _ = tokio::time::timeout(BEAT, &mut loops).await;
    assert_eq!(live().await, StatusCode::OK);
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
