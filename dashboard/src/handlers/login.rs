//! Logging in and out.
//!
//! Invariant: a session begins only for a token that the API has just taken, under a new cookie; what was pasted is in
//! no answer and no log.

use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue, SET_COOKIE};
use http::{StatusCode, Uri};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kit_client::errors::chain;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::time::Instant;

use super::app::{App, html, notice, see};
use super::visitor::{SESSION, Sent, cookie, foreign, is_ours};
use crate::pages::login::login;
use crate::paths;
use crate::problem::Problem;
use crate::query::Pairs;
use crate::sessions::{LONGEST, Session};
use crate::token::{self, Token};

/// The page.
pub(crate) async fn page(RawQuery(query): RawQuery) -> Response {
    let query = Pairs::read(query.unwrap_or_default().as_bytes());
    let text = login(
        paths::next(query.text("next")),
        None,
        notice(query.text("done")),
    );
    html(StatusCode::OK, text)
}

/// Why nobody was let in: a status, and a sentence.
type Refused = (StatusCode, String);

/// Logs somebody in.
pub(crate) async fn enter(
    State(app): State<App>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let sent = Pairs::read(&body);
    drop(body);
    let next = paths::next(sent.text("next")).to_owned();
    let entered = match is_ours(&headers, &uri) {
        true => begin(&app, &sent).await,
        false => Err((StatusCode::FORBIDDEN, foreign().what)),
    };
    match entered {
        Ok(value) => {
            // Another session of this browser was left without a word.
            cookie(&headers)
                .into_iter()
                .for_each(|old| app.sessions.end(old));
            with_cookie(see(&next), &value, LONGEST)
        }
        Err((status, what)) => html(status, login(&next, Some(&what), None)),
    }
}

async fn begin(app: &App, sent: &Pairs) -> Result<String, Refused> {
    let unprocessable =
        |error: token::NoToken| (StatusCode::UNPROCESSABLE_ENTITY, error.to_string());
    let token = token::read(sent.text("token")).map_err(unprocessable)?;
    let lasts = left(&token, Timestamp::now())?;
    let busy = |_| (StatusCode::SERVICE_UNAVAILABLE, "try again".to_owned());
    let _turn = app.log_ins.acquire().await.map_err(busy)?;
    let internal = |error: String| {
        tracing::error!(error, "cannot log anybody in");
        let what = "the dashboard cannot log anybody in: its log says why";
        (StatusCode::INTERNAL_SERVER_ERROR, what.to_owned())
    };
    let client = app
        .upstream
        .client(&token)
        .map_err(|e| internal(chain(&e)))?;
    let user = user(&client).await?;
    let session = Session::new(&user, client).map_err(|e| internal(chain(&e)))?;
    let begun = app.sessions.begin(session, lasts, Instant::now());
    let value = begun.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
    tracing::info!(user.name = user, "somebody logged in");
    Ok(value)
}

/// How long a token is good for, where it says so.
fn left(token: &Token, now: Timestamp) -> Result<Option<Duration>, Refused> {
    let Some(ends) = token.ends() else {
        return Ok(None);
    };
    let left = Duration::try_from(ends.duration_since(now)).unwrap_or_default();
    if left.is_zero() {
        let what = "this token has ended: get a new one";
        return Err((StatusCode::UNPROCESSABLE_ENTITY, what.to_owned()));
    }
    Ok(Some(left))
}

/// Whose token it is, as the API says.
async fn user(client: &Client) -> Result<String, Refused> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = SelfSubjectReview::default();
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(|error| match Problem::of("find out who you are", &error) {
        problem if problem.status == StatusCode::UNAUTHORIZED => {
            let what = "the management cluster does not take this token: it has ended, or is of another cluster";
            (StatusCode::UNPROCESSABLE_ENTITY, what.to_owned())
        }
        problem => (problem.status, problem.what),
    })?;
    let user = answer.status.and_then(|status| status.user_info);
    let user = user.and_then(|info| info.username).unwrap_or_default();
    match user.as_str() {
        "" | "system:anonymous" => {
            let what = "the management cluster does not know whose token this is";
            Err((StatusCode::UNPROCESSABLE_ENTITY, what.to_owned()))
        }
        _ => Ok(insight::text::bounded(&user, 200)),
    }
}

/// Logs somebody out.
pub(crate) async fn leave(Sent { visitor, .. }: Sent) -> Response {
    visitor.log_out();
    with_cookie(see("/login?done=out"), "", Duration::ZERO)
}

fn with_cookie(mut response: Response, value: &str, lasts: Duration) -> Response {
    let cookie = format!(
        "{SESSION}={value}; Path=/; Max-Age={}; Secure; HttpOnly; SameSite=Strict",
        lasts.as_secs()
    );
    // Identifiers are letters, digits, - and _.
    if let Ok(mut cookie) = HeaderValue::from_str(&cookie) {
        cookie.set_sensitive(true);
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}
