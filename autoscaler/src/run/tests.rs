//! Whether the process is live.

use std::convert::Infallible;

use kit::admin::STUCK;
use kube::Client;
use kube::client::Body;
use tower::ServiceExt as _;

use super::*;
use crate::testing::settings;

async fn livez(port: &Admin) -> u16 {
    let request = http::Request::get("/livez").body(String::new()).unwrap();
    port.probes()
        .oneshot(request)
        .await
        .unwrap()
        .status()
        .as_u16()
}

/// A restart mends loops that stand still, and makes an API that does not answer only busier.
#[tokio::test(start_paused = true)]
async fn only_loops_that_stand_still_are_a_reason_to_start_anew() {
    let silent = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<http::Response<Body>, Infallible>>()
    });
    let (tenant, management) = (
        Client::new(silent, "default"),
        Client::new(silent, "default"),
    );
    let port = Admin::new();
    let manager = Manager::new(tenant, management, settings(), "test", &port);
    let mut loops = std::pin::pin!(port.live_while_polled("loops", manager.run()));
    for _ in 0..20 {
        let ended = tokio::time::timeout(STUCK, &mut loops).await;
        assert!(ended.is_err(), "they end never");
        assert!(
            !manager.context.cache.missing().is_empty(),
            "nobody answered"
        );
        assert_eq!(livez(&port).await, 200);
    }
    tokio::time::advance(2 * STUCK).await;
    assert_eq!(livez(&port).await, 503, "nobody polls them");
}
