//! All pages behind one service.
//!
//! Invariant: every answer has the headers of [`crate::headers`] and comes in time; what is longer than a form is not
//! read; with `read_only` there is no way that changes anything but a session. No log line has a query, a cookie or what
//! was sent.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{Method, StatusCode, Uri};
use tokio::time::Instant;

use crate::handlers::app::{App, html};
use crate::handlers::{clusters, create, delete, follow, lists, login, objects};
use crate::pages;
use crate::problem::Problem;
use crate::sessions::Sessions;
use crate::upstream::Upstream;
use crate::{assets, headers};

/// Bytes of what is sent: a kubeconfig that is pasted.
const MOST_BYTES: usize = 256 << 10;
/// Until an answer begins.
const LIMIT: Duration = Duration::from_secs(30);

/// The service.
pub fn router(sessions: &Sessions, upstream: Arc<dyn Upstream>, is_read_only: bool) -> Router {
    let app = App::new(sessions.clone(), upstream, is_read_only);
    let mut router = Router::new()
        .route("/", get(lists::first))
        .route("/login", get(login::page).post(login::enter))
        .route("/logout", post(login::leave))
        .route("/reasons", get(lists::catalogue))
        .route("/live", get(follow::stream))
        .route("/assets/{name}", get(asset))
        .route("/clusters/{namespace}/{name}", get(clusters::page))
        .route("/{kind}", get(lists::of_kind))
        .route("/{kind}/{namespace}/{name}", get(objects::page));
    if !is_read_only {
        router = router
            .route(
                "/new",
                get(create::new_cluster).post(create::create_cluster),
            )
            .route(
                "/clusters/{namespace}/{name}/new-pool",
                get(create::new_pool).post(create::create_pool),
            )
            .route("/clusters/{namespace}/{name}/pause", post(clusters::pause))
            .route(
                "/clusters/{namespace}/{name}/resume",
                post(clusters::resume),
            )
            .route("/pools/{namespace}/{name}/scale", post(objects::scale))
            .route(
                "/{kind}/{namespace}/{name}/delete",
                get(delete::ask).post(delete::delete),
            );
    }
    router
        .fallback(nowhere)
        .with_state(app)
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .layer(from_fn(timed))
}

async fn asset(uri: Uri) -> Response {
    match assets::find(uri.path()) {
        Some(found) => found,
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn nowhere() -> Response {
    page_of(&Problem::no_page())
}

fn page_of(problem: &Problem) -> Response {
    html(problem.status, pages::problem::problem(None, problem))
}

async fn timed(request: Request, next: Next) -> Response {
    let begin = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let answer = tokio::time::timeout(LIMIT, next.run(request)).await;
    let mut answer = answer.unwrap_or_else(|_| {
        let what = "the answer took too long";
        page_of(&Problem::new(
            StatusCode::GATEWAY_TIMEOUT,
            what,
            "try again",
        ))
    });
    headers::add(answer.headers_mut());
    let (status, took) = (answer.status().as_u16(), begin.elapsed());
    let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let path = insight::text::shown(&path);
    if method == Method::GET || method == Method::HEAD {
        tracing::debug!(http.method = %method, http.path = path, http.status = status, duration_ms = took, "answered");
    } else {
        tracing::info!(http.method = %method, http.path = path, http.status = status, duration_ms = took, "answered");
    }
    answer
}

#[cfg(test)]
mod tests;
