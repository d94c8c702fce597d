//! The server: a request is counted, given its fault, carried out or not, answered or not, and written down.
//!
//! Invariant: whether it was carried out does not depend on whether it is answered.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use tokio::net::TcpListener;

use super::answer::Answer;
use super::contents::Contents;
use super::late::Late;
use super::limit::Headers;
use super::routes::Asked;
use super::settle::later;
use crate::clock::VirtualClock;
use crate::faults::Fault;
use crate::journal::Entry;

type Body = BoxBody<Bytes, std::io::Error>;
type Shared = Arc<Mutex<Contents>>;

/// Listens; gives where.
pub(super) async fn serve(contents: Shared, clock: VirtualClock) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.context("could not listen")?;
    let address = listener.local_addr().context("no address")?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (contents, clock) = (Arc::clone(&contents), clock.clone());
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let (contents, clock) = (Arc::clone(&contents), clock.clone());
                    async move { handle(&contents, &clock, request).await }
                });
                let server = hyper::server::conn::http1::Builder::new();
                // A fault ends a connection; that is what it is for.
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Ok(address)
}

impl Contents {
    /// Carries out what was to be by now.
    pub(super) fn catch_up(&mut self, now: Timestamp) {
        while let Some(due) = self.late.iter().position(|late| late.at <= now) {
            let late = self.late.remove(due);
            let asked = Asked {
                method: &late.method,
                path: &late.path,
                query: &late.query,
                token: &late.token,
                body: &late.body,
                endless: false,
            };
            self.answer(&asked, late.at);
        }
    }
}

/// What was decided of one request while the contents was held.
struct Decided {
    fault: Option<Fault>,
    answer: Option<(Answer, Option<Headers>)>,
    now: Timestamp,
}

async fn handle(
    contents: &Shared,
    clock: &VirtualClock,
    request: Request<Incoming>,
) -> Result<Response<Body>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?;
    let body = body.to_bytes();
    let decided = decide(contents, clock, &parts, &body);
    let lost = || Err(std::io::Error::other("a fault of the script"));
    match &decided.fault {
        Some(Fault::LostRequest | Fault::LostAnswer | Fault::Late(_)) => return lost(),
        Some(Fault::StuckBefore(time) | Fault::StuckAfter(time)) => {
            // Whoever asked gives up meanwhile.
            clock.advance(*time);
            return std::future::pending::<Result<_, _>>().await;
        }
        _ => {}
    }
    let Some((answer, headers)) = decided.answer else {
        return lost();
    };
    let mut response = Response::builder().status(answer.status);
    response = response.header("date", date(decided.now));
    response = response.header("x-correlation-id", "fake-1");
    if let Some(headers) = headers {
        response = response
            .header("ratelimit-limit", headers.limit)
            .header("ratelimit-remaining", headers.remaining)
            .header("ratelimit-reset", headers.reset);
    }
    if let Some(Fault::Refused {
        retry_after: Some(seconds),
        ..
    }) = &decided.fault
    {
        response = response.header("retry-after", *seconds);
    }
    let text = match (&decided.fault, &answer.body) {
        (Some(Fault::Garbage), _) => "<html>busy</html>".to_owned(),
        (_, Some(body)) => body.to_string(),
        (_, None) => String::new(),
    };
    let body = match &decided.fault {
        Some(Fault::CutAnswer) => cut(&text),
        _ => full(text),
    };
    response.body(body).map_err(std::io::Error::other)
}

/// Counts, carries out, and writes down.
fn decide(
    contents: &Shared,
    clock: &VirtualClock,
    parts: &http::request::Parts,
    body: &[u8],
) -> Decided {
    let mut contents = contents.lock().unwrap_or_else(PoisonError::into_inner);
    let now = clock.now();
    contents.catch_up(now);
    let method = parts.method.as_str();
    let path = parts.uri.path().trim_start_matches("/v1").to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let token = parts.headers.get("authorization");
    let token = token
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let token = token.strip_prefix("Bearer ").unwrap_or_default();
    let number = contents.journal.entries.len();
    let fault = contents.script.of(number, method, &path, &query);
    let (taken, headers) = contents.count(token, now);
    let mut done = false;
    let mut carry_out = |contents: &mut Contents| {
        done = true;
        let endless = fault == Some(Fault::EndlessPages);
        contents.answer(
            &Asked {
                method,
                path: &path,
                query: &query,
                token,
                body,
                endless,
            },
            now,
        )
    };
    let answer = match &fault {
        Some(Fault::LostRequest | Fault::StuckBefore(_)) => None,
        Some(Fault::Late(time)) => {
            contents.late.push(Late {
                at: later(now, *time),
                method: method.to_owned(),
                path: path.clone(),
                query: query.clone(),
                token: token.to_owned(),
                body: body.to_vec(),
            });
            None
        }
        Some(Fault::Refused { status, code, .. }) => Some(played(*status, code)),
        _ if !taken => Some(played(429, "rate_limit_exceeded")),
        Some(Fault::DoneBut { status, code }) => {
            carry_out(&mut contents);
            Some(played(*status, code))
        }
        Some(Fault::LostAnswer | Fault::StuckAfter(_)) => {
            carry_out(&mut contents);
            None
        }
        _ => Some(carry_out(&mut contents)),
    };
    contents.journal.entries.push(Entry {
        at: now,
        method: method.to_owned(),
        path,
        query,
        done,
        status: answer.as_ref().map(|answer| answer.status),
    });
    Decided {
        fault,
        answer: answer.map(|answer| (answer, headers)),
        now,
    }
}

/// An answer of the script.
fn played(status: u16, code: &str) -> Answer {
    match code {
        "" => Answer::ok(status, serde_json::Value::String("upstream".to_owned())),
        code => Answer::error(status, code, "played"),
    }
}

/// As `Date` has it (RFC 9110, 5.6.7).
fn date(now: Timestamp) -> String {
    now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn full(text: String) -> Body {
    let body = Full::new(Bytes::from(text));
    body.map_err(|never: Infallible| match never {}).boxed()
}

/// Half of it, and then the connection ends.
fn cut(text: &str) -> Body {
    let half = Bytes::copy_from_slice(&text.as_bytes()[..text.len() / 2]);
    let frames = [
        Ok(Frame::data(half)),
        Err(std::io::Error::other("a fault of the script")),
    ];
    BodyExt::boxed(StreamBody::new(stream::iter(frames)))
}
