//! The stream that tells a page of changes.
//!
//! Invariant: bounded in number, by session and in all; it holds nobody's turn while it is open.

use axum::extract::RawQuery;
use axum::response::sse::Sse;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use super::visitor::Visitor;
use crate::kinds::Kind;
use crate::live::Scope;
use crate::live::stream::events;
use crate::paths;
use crate::problem::Problem;
use crate::query::Pairs;

/// Most streams of one session.
const MOST: usize = 12;

/// The address of the stream that tells of these kinds.
pub(crate) fn address(kinds: &[Kind], namespace: Option<&str>) -> String {
    let words: Vec<_> = kinds.iter().map(|kind| kind.word()).collect();
    let namespace = namespace.map(|n| format!("&ns={}", paths::escaped(n)));
    format!(
        "/live?kinds={}{}",
        words.join(","),
        namespace.unwrap_or_default()
    )
}

/// The stream.
pub(crate) async fn stream(visitor: Visitor, RawQuery(query): RawQuery) -> Response {
    let answer = begin(&visitor, query);
    visitor.answer(answer)
}

fn begin(visitor: &Visitor, query: Option<String>) -> Result<Response, Problem> {
    let query = Pairs::read(query.unwrap_or_default().as_bytes());
    let namespace = query.text("ns");
    if !namespace.is_empty() && !paths::is_name(namespace) {
        return Err(Problem::no_page());
    }
    let namespace = Some(namespace.to_owned()).filter(|n| !n.is_empty());
    let kinds: Option<Vec<_>> = query
        .text("kinds")
        .split(',')
        .take(8)
        .map(Kind::of_word)
        .collect();
    let kinds = kinds.ok_or_else(Problem::no_page)?;
    let scopes = kinds.into_iter().map(|kind| Scope {
        kind,
        namespace: namespace.clone(),
    });
    let full = |what: &str| Problem::new(StatusCode::TOO_MANY_REQUESTS, what, "close other pages");
    let session = &visitor.session;
    let place = visitor.app.streams.clone().try_acquire_owned();
    let place = place.map_err(|_| full("too many pages follow changes at once"))?;
    if session.live.streams() >= MOST {
        return Err(full("too many of your pages follow changes at once"));
    }
    let listener = session.live.listen(visitor.client(), scopes.collect());
    let listener = listener.map_err(|error| full(&error.to_string()))?;
    Ok(Sse::new(events(listener, session.ended(), place)).into_response())
}
