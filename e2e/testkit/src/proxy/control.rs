//! The control port: plain HTTP on loopback, for the handle in the test.
//!
//! `PUT /rules/ID` (a rule as JSON), `DELETE /rules/ID`, `DELETE /rules`, `POST /streams/close`,
//! `GET /counters`. Invariant: a change holds once its answer is sent.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::shared::{Body, Shared, whole};

pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(|request| handle(request, &shared));
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn handle(request: Request<Incoming>, shared: &Shared) -> Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .context("the request broke off")?
        .to_bytes();
    let mut response = Response::new(whole(Vec::new()));
    match carry_out(&head.method, head.uri.path(), &body, shared) {
        Ok(Some(answer)) => *response.body_mut() = whole(answer),
        Ok(None) => {
            *response.status_mut() = StatusCode::NOT_FOUND;
            *response.body_mut() = whole(b"there is no such control".to_vec());
        }
        Err(error) => {
            *response.status_mut() = StatusCode::BAD_REQUEST;
            *response.body_mut() = whole(format!("{error:#}").into_bytes());
        }
    }
    Ok(response)
}

/// `None`: there is no such control.
fn carry_out(method: &Method, path: &str, body: &[u8], shared: &Shared) -> Result<Option<Vec<u8>>> {
    let id = path.strip_prefix("/rules/");
    match (method, path, id) {
        (&Method::GET, "/counters", _) => {
            let counters = serde_json::to_vec(&shared.counters());
            return counters.context("cannot write counters").map(Some);
        }
        (&Method::POST, "/streams/close", _) => {
            shared.closed.send_modify(|count| *count += 1);
            return Ok(Some(Vec::new()));
        }
        (&Method::PUT, _, Some(id)) => {
            let rule = serde_json::from_slice(body).context("not a rule")?;
            shared.rules().set(id, rule)?;
        }
        (&Method::DELETE, _, Some(id)) => shared.rules().remove(id),
        (&Method::DELETE, "/rules", _) => shared.rules().clear(),
        _ => return Ok(None),
    }
    shared.changed.send_modify(|count| *count += 1);
    Ok(Some(Vec::new()))
}
