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
use jiff::{SignedDuration, Timestamp};
use tokio::net::TcpListener;

use crate::answer::Answer;
use crate::clock::VirtualClock;
use crate::faults::{Fault, Script};
use crate::journal::{Entry, Journal};
use crate::late::Late;

type Body = BoxBody<Bytes, std::io::Error>;

/// A request.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    /// After what stands before each path.
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) token: &'a str,
    pub(crate) headers: &'a http::HeaderMap,
    pub(crate) body: &'a [u8],
    /// Nothing must be there yet (`If-None-Match: *`).
    pub(crate) is_new: bool,
    /// Lists name a next page for ever.
    pub(crate) endless: bool,
}

/// What differs from vendor to vendor.
pub(crate) trait Vendor: Send + 'static {
    /// What stands before each path.
    const PREFIX: &'static str;

    /// What a request is called in the script and in the journal: its path, without what stands before each, and its query.
    fn line(path: &str, query: &str, _body: &[u8]) -> (String, String) {
        let path = path.strip_prefix(Self::PREFIX).unwrap_or(path);
        (path.to_owned(), query.to_owned())
    }

    /// What goes wrong.
    fn script(&self) -> &Script;

    /// What happened.
    fn journal(&mut self) -> &mut Journal;

    /// What is done later.
    fn late(&mut self) -> &mut Vec<Late>;

    /// Counts a request: whether it is one too many, and the headers that say how many are left.
    fn count(&mut self, token: &str, now: Timestamp) -> (bool, Vec<(&'static str, String)>);

    /// Carries a request out.
    fn answer(&mut self, asked: &Asked<'_>, now: Timestamp) -> Answer;

    /// An error of the script, in the vendor's form.
    fn played(status: u16, code: &str) -> Answer;

    /// That it was one too many.
    fn throttled() -> Answer;
}

/// Then, so much later.
pub(crate) fn later(now: Timestamp, time: std::time::Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    now.saturating_add(time).unwrap_or(Timestamp::MAX)
}

/// Listens; gives where.
pub(crate) async fn serve<V: Vendor>(
    contents: Arc<Mutex<V>>,
    clock: VirtualClock,
) -> Result<SocketAddr> {
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

/// Carries out what was to be by now.
pub(crate) fn catch_up<V: Vendor>(vendor: &mut V, now: Timestamp) {
    while let Some(due) = vendor.late().iter().position(|late| late.at <= now) {
        let late = vendor.late().remove(due);
        let asked = Asked {
            method: &late.method,
            path: &late.path,
            query: &late.query,
            token: &late.token,
            headers: &late.headers,
            body: &late.body,
            is_new: late.is_new,
            endless: false,
        };
        vendor.answer(&asked, late.at);
    }
}

/// What was decided of one request while the contents was held.
struct Decided {
    fault: Option<Fault>,
    answer: Option<(Answer, Vec<(&'static str, String)>)>,
    now: Timestamp,
}

async fn handle<V: Vendor>(
    contents: &Mutex<V>,
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
    for (name, value) in headers {
        response = response.header(name, value);
    }
    if let Some(Fault::Refused {
        retry_after: Some(seconds),
        ..
    }) = &decided.fault
    {
        response = response.header("retry-after", *seconds);
    }
    for (name, value) in &answer.headers {
        response = response.header(*name, value);
    }
    let text = match (&decided.fault, &answer.body, &answer.text) {
        (Some(Fault::Garbage), _, _) => "<html>busy</html>".to_owned(),
        (_, _, Some(text)) => text.clone(),
        (_, Some(body), None) => body.to_string(),
        (_, None, None) => String::new(),
    };
    let body = match &decided.fault {
        Some(Fault::CutAnswer) => cut(&text),
        _ => full(text),
    };
    response.body(body).map_err(std::io::Error::other)
}

/// Counts, carries out, and writes down.
fn decide<V: Vendor>(
    contents: &Mutex<V>,
    clock: &VirtualClock,
    parts: &http::request::Parts,
    body: &[u8],
) -> Decided {
    let mut contents = contents.lock().unwrap_or_else(PoisonError::into_inner);
    let now = clock.now();
    catch_up(&mut *contents, now);
    let method = parts.method.as_str();
    let query = parts.uri.query().unwrap_or_default();
    let (path, query) = V::line(parts.uri.path(), query, body);
    let token = parts.headers.get("authorization");
    let token = token
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let token = token.strip_prefix("Bearer ").unwrap_or_default();
    let is_new = parts.headers.get("if-none-match");
    let is_new = is_new.is_some_and(|value| value == "*");
    let number = contents.journal().entries.len();
    let fault = contents.script().of(number, method, &path, &query);
    let (taken, headers) = contents.count(token, now);
    let mut done = false;
    let mut carry_out = |contents: &mut V| {
        done = true;
        let endless = fault == Some(Fault::EndlessPages);
        contents.answer(
            &Asked {
                method,
                path: &path,
                query: &query,
                token,
                headers: &parts.headers,
                body,
                is_new,
                endless,
            },
            now,
        )
    };
    let answer = match &fault {
        Some(Fault::LostRequest | Fault::StuckBefore(_)) => None,
        Some(Fault::Late(time)) => {
            contents.late().push(Late {
                at: later(now, *time),
                method: method.to_owned(),
                path: path.clone(),
                query: query.clone(),
                token: token.to_owned(),
                headers: parts.headers.clone(),
                body: body.to_vec(),
                is_new,
            });
            None
        }
        Some(Fault::Refused { status, code, .. }) => Some(played::<V>(*status, code)),
        _ if !taken => Some(V::throttled()),
        Some(Fault::DoneBut { status, code }) => {
            carry_out(&mut contents);
            Some(played::<V>(*status, code))
        }
        Some(Fault::LostAnswer | Fault::StuckAfter(_)) => {
            carry_out(&mut contents);
            None
        }
        _ => Some(carry_out(&mut contents)),
    };
    contents.journal().entries.push(Entry {
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
fn played<V: Vendor>(status: u16, code: &str) -> Answer {
    match code {
        "" => Answer::ok(status, serde_json::Value::String("upstream".to_owned())),
        code => V::played(status, code),
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
