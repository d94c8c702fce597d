//! Who asks, by the cookie of a session; and what was sent, where a form of that session sent it.
//!
//! Invariant: without a session there is no page but that of log-in; without the token of a form, from a page of ours,
//! nothing changes.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::Response;
use bytes::Bytes;
use http::header::{COOKIE, HeaderMap};
use http::request::Parts;
use http::{Method, StatusCode, Uri};
use k8s_openapi::api::authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::{AcquireError, OwnedSemaphorePermit};
use tokio::time::Instant;

use super::app::{App, html, see};
use crate::access::Access;
use crate::origin;
use crate::pages;
use crate::pages::layout::{Viewer, onward};
use crate::paths;
use crate::problem::Problem;
use crate::query::Pairs;
use crate::sessions::Session;

/// The cookie; browsers take one of this name only by TLS, for this host and all of its paths.
pub(crate) const SESSION: &str = "__Host-covey-session";
/// For so long a request waits until others are answered.
const WAITS: Duration = Duration::from_secs(10);
/// What a page says of a request that nobody asked it for.
const BY_ITSELF: &str = "x-covey-live";

/// Somebody who is logged in.
pub(crate) struct Visitor {
    pub(crate) app: App,
    pub(crate) session: Arc<Session>,
    cookie: String,
    /// One of its party's requests that are answered at once, and one of everybody's.
    _turns: [OwnedSemaphorePermit; 2],
}

/// The value of our cookie.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(COOKIE).into_iter();
    let all = all.filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';'));
    pairs.find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == SESSION && value.len() <= 64).then_some(value)
    })
}

/// Who answers where nobody is logged in.
fn nobody(parts: &Parts) -> Response {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return see("/login?done=ended");
    }
    let asked = parts
        .uri
        .path_and_query()
        .map_or("/", |asked| asked.as_str());
    let asked = paths::next(asked);
    if cookie(&parts.headers).is_none() && origin::is_from_elsewhere(&parts.headers) {
        return html(StatusCode::OK, onward(asked));
    }
    match asked {
        "/" => see("/login"),
        asked => see(&format!("/login?next={}", paths::escaped(asked))),
    }
}

/// Who answers where too much is asked at once.
fn busy() -> Response {
    let what = "the dashboard answers as many requests as it can at a time";
    let problem = Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        what,
        "try again in a moment",
    );
    html(problem.status, pages::problem::problem(None, &problem))
}

impl FromRequestParts<App> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let is_use = !parts.headers.contains_key(BY_ITSELF) && parts.uri.path() != "/live";
        let cookie = cookie(&parts.headers).unwrap_or_default().to_owned();
        let found = app.sessions.find(&cookie, is_use, Instant::now());
        let session = found.ok_or_else(|| nobody(parts))?;
        // First its party's: who asks for much waits there, and takes no place from others.
        let turns = async {
            let own = Arc::clone(&session.turns).acquire_owned().await?;
            let all = Arc::clone(&app.turns).acquire_owned().await?;
            Ok::<_, AcquireError>([own, all])
        };
        let turns = tokio::time::timeout(WAITS, turns).await;
        let turns = turns.ok().and_then(Result::ok).ok_or_else(busy)?;
        Ok(Self {
            app: app.clone(),
            session,
            cookie,
            _turns: turns,
        })
    }
}

impl Visitor {
    pub(crate) fn viewer(&self) -> Viewer<'_> {
        Viewer {
            user: &self.session.user,
            form_token: &self.session.form_token,
            is_read_only: self.app.is_read_only,
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.session.client
    }

    /// The answer, or the page that says why there is none. A token that is not taken any more ends the session.
    pub(crate) fn answer(&self, result: Result<Response, Problem>) -> Response {
        let problem = match result {
            Ok(response) => return response,
            Err(problem) => problem,
        };
        if problem.status == StatusCode::UNAUTHORIZED {
            self.log_out();
            return see("/login?done=ended");
        }
        let text = pages::problem::problem(Some(self.viewer()), &problem);
        html(problem.status, text)
    }

    pub(crate) fn log_out(&self) {
        self.app.sessions.end(&self.cookie);
    }

    /// What the user may do in a namespace, as the API says.
    pub(crate) async fn access(&self, namespace: &str) -> Arc<Access> {
        let now = Instant::now();
        if let Some(known) = self.session.access(namespace, now) {
            return known;
        }
        let reviews: Api<SelfSubjectRulesReview> = Api::all(self.client().clone());
        let review = SelfSubjectRulesReview {
            spec: SelfSubjectRulesReviewSpec {
                namespace: Some(namespace.to_owned()),
            },
            ..SelfSubjectRulesReview::default()
        };
        match reviews.create(&PostParams::default(), &review).await {
            Ok(answer) => {
                let access = Arc::new(Access::of(answer.status));
                self.session.set_access(namespace, &access, now);
                access
            }
            Err(_) => Arc::new(Access::unknown()),
        }
    }
}

/// Namespace and name of a path, where they are names.
pub(crate) fn named<'a>(namespace: &'a str, name: &'a str) -> Result<(&'a str, &'a str), Problem> {
    match paths::is_name(namespace) && paths::is_name(name) {
        true => Ok((namespace, name)),
        false => Err(Problem::no_page()),
    }
}

/// What a form of the visitor's session sent.
pub(crate) struct Sent {
    pub(crate) visitor: Visitor,
    pub(crate) pairs: Pairs,
}

/// Whether a page of ours sent a request.
pub(crate) fn is_ours(headers: &HeaderMap, uri: &Uri) -> bool {
    let authority = uri.authority().map(http::uri::Authority::as_str);
    origin::is_ours(headers, authority)
}

/// What is said of a request that no page of ours sent.
pub(crate) fn foreign() -> Problem {
    let what = "this was not sent by a page of the dashboard, so nothing was changed";
    let mend = "open the page here, and send its form again";
    Problem::new(StatusCode::FORBIDDEN, what, mend)
}

impl FromRequest<App> for Sent {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, app).await?;
        if !is_ours(&parts.headers, &parts.uri) {
            return Err(visitor.answer(Err(foreign())));
        }
        let request = Request::from_parts(parts, body);
        let Ok(bytes) = Bytes::from_request(request, app).await else {
            let what = "what was sent is longer than a form";
            let problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, what, "send less");
            return Err(visitor.answer(Err(problem)));
        };
        let pairs = Pairs::read(&bytes);
        if !visitor.session.is_form_token(pairs.text("form-token")) {
            return Err(visitor.answer(Err(foreign())));
        }
        Ok(Self { visitor, pairs })
    }
}
