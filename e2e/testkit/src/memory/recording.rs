//! What clients asked a server and what it answered, written down and masked.
//!
//! A [`Recorder`] lies right above the connection and lets one request through at a time, so that the
//! order of a recording is the order in which the server saw it; watches go on beside. Refusals for want
//! of a right (403) or because the server has too much to do, or has not listed a new kind for its watches
//! yet (429), are left out: how long that takes is a matter of time.
//! Invariant: a recording holds no key and no certificate, and its hash is that of all its lines, so one
//! that was changed by hand is not read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use http::{Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, Service};

use super::answer::is_partial;
pub use super::exchange::{Exchange, kind_of};
use super::masks::Masks;

/// Writes down what passes its layers; clones are one.
#[derive(Clone, Default)]
pub struct Recorder {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    gate: tokio::sync::Mutex<()>,
    exchanges: Mutex<Vec<Exchange>>,
}

impl Inner {
    fn exchanges(&self) -> MutexGuard<'_, Vec<Exchange>> {
        self.exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder {
    /// A layer around a connection.
    pub fn around<S>(&self, inner: S) -> Recorded<S> {
        Recorded {
            recorder: Arc::clone(&self.inner),
            inner,
        }
    }

    /// What was written down so far, masked.
    #[must_use]
    pub fn recording(&self) -> Recording {
        let exchanges = self.inner.exchanges().clone();
        Recording {
            kubernetes: version().to_owned(),
            exchanges: masked(exchanges),
        }
    }
}

/// A connection whose exchanges are written down.
#[derive(Clone)]
pub struct Recorded<S> {
    recorder: Arc<Inner>,
    inner: S,
}

type Answered = Response<UnsyncBoxBody<Bytes, BoxError>>;

impl<S, B> Service<Request<Body>> for Recorded<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Answered;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answered, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (head, body) = request.into_parts();
        // The bodies of kube are there at once.
        let Some(Ok(body)) = body.collect().now_or_never() else {
            return async { Err("a body that is not there at once".into()) }.boxed();
        };
        let body = body.to_bytes();
        let content = head.headers.get(header::CONTENT_TYPE);
        let content = content
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let mut exchange = Exchange {
            method: head.method.to_string(),
            uri: head
                .uri
                .path_and_query()
                .map(ToString::to_string)
                .unwrap_or_default(),
            content: if body.is_empty() {
                String::new()
            } else {
                content.to_owned()
            },
            partial: is_partial(&head),
            body: serde_json::from_slice(&body).ok(),
            ..Exchange::default()
        };
        let watches = exchange.info().verb == "watch";
        let sent = self
            .inner
            .call(Request::from_parts(head, Body::from(body.to_vec())));
        let recorder = Arc::clone(&self.recorder);
        async move {
            let gate = match watches {
                true => None,
                false => Some(recorder.gate.lock().await),
            };
            let response = sent.await?;
            exchange.code = response.status().as_u16();
            let (head, body) = response.into_parts();
            if watches && exchange.code == 200 {
                let number = {
                    let mut all = recorder.exchanges();
                    all.push(exchange);
                    all.len() - 1
                };
                let body = told(body, Arc::clone(&recorder), number);
                return Ok(Response::from_parts(head, body));
            }
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            exchange.answer = serde_json::from_slice(&body).unwrap_or_default();
            recorder.exchanges().push(exchange);
            drop(gate);
            let body = Full::from(body)
                .map_err(|never| match never {})
                .boxed_unsync();
            Ok(Response::from_parts(head, body))
        }
        .boxed()
    }
}

/// The body of a watch, whose lines are written down as they pass.
fn told<B>(body: B, recorder: Arc<Inner>, number: usize) -> UnsyncBoxBody<Bytes, BoxError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut rest = Vec::new();
    let frames = BodyStream::new(body).map(move |frame| {
        let frame = frame.map_err(Into::into)?;
        if let Some(data) = frame.data_ref() {
            rest.extend_from_slice(data);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                if let Ok(event) = serde_json::from_slice(&line)
                    && let Some(exchange) = recorder.exchanges().get_mut(number)
                {
                    exchange.events.push(event);
                }
            }
        }
        Ok(frame)
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Status codes that say how far the server is, and nothing about what was asked.
const OF_THE_MOMENT: [u16; 2] = [403, 429];

fn masked(mut exchanges: Vec<Exchange>) -> Vec<Exchange> {
    exchanges.retain(|exchange| !OF_THE_MOMENT.contains(&exchange.code));
    let mut masks = Masks::default();
    for (number, exchange) in exchanges.iter_mut().enumerate() {
        let uri = exchange.uri.clone();
        masks.request(exchange);
        if exchange.info().verb != "watch" {
            exchange.answer = masks.answer(number, &uri, &exchange.answer);
        }
    }
    for exchange in &mut exchanges {
        let events = std::mem::take(&mut exchange.events).into_iter();
        exchange.events = events
            .filter_map(|event| masks.event(&exchange.uri, &event))
            .collect();
    }
    exchanges
}

/// The version of Kubernetes that recordings are made of: the lab's.
#[must_use]
pub fn version() -> &'static str {
    lab::programs::KubernetesVersion::default().full()
}

/// What a real server answered, masked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Recording {
    /// Version of the server.
    pub kubernetes: String,
    /// In the order in which it saw them.
    pub exchanges: Vec<Exchange>,
}

impl Recording {
    /// The kinds of requests that are in it.
    #[must_use]
    pub fn kinds(&self) -> BTreeSet<String> {
        self.exchanges.iter().map(Exchange::kind).collect()
    }

    /// The file: a head, and a line for each object that appears and for each exchange. Objects are
    /// numbered and written once.
    #[must_use]
    pub fn render(&self) -> String {
        let mut writer = Writer::default();
        for exchange in &self.exchanges {
            writer.exchange(exchange);
        }
        let head = json!({ "kubernetes": self.kubernetes, "hash": hash(&writer.lines) });
        format!("{head}\n{}", writer.lines)
    }

    /// Reads what [`Self::render`] wrote.
    ///
    /// # Errors
    /// When it was changed since.
    pub fn parse(text: &str) -> Result<Self> {
        let (head, lines) = text.split_once('\n').context("a recording has a head")?;
        let head: Value = serde_json::from_str(head).context("the head is JSON")?;
        ensure!(
            head["hash"] == hash(lines).as_str(),
            "the recording was changed by hand: record it anew"
        );
        let (mut objects, mut exchanges) = (Vec::new(), Vec::new());
        for line in lines.lines() {
            let line: Value = serde_json::from_str(line).context("a line is JSON")?;
            match line.get("object") {
                Some(object) => objects.push(whole(object.clone(), &objects)),
                None => exchanges.push(serde_json::from_value(whole(line, &objects))?),
            }
        }
        let kubernetes = head["kubernetes"]
            .as_str()
            .context("the head has a version")?
            .to_owned();
        Ok(Self {
            kubernetes,
            exchanges,
        })
    }
}

/// FNV-1a (64 bits): it guards against slips, not against people.
fn hash(text: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{hash:016x}")
}

#[derive(Default)]
struct Writer {
    lines: String,
    known: BTreeMap<String, usize>,
}

/// What is shorter than this is written out each time.
const LONG: usize = 100;
/// Stands for a numbered object.
const NUMBER: &str = "#";

impl Writer {
    fn exchange(&mut self, exchange: &Exchange) {
        let mut exchange = exchange.clone();
        exchange.body = exchange.body.as_ref().map(|body| self.number(body));
        match exchange
            .answer
            .get_mut("items")
            .and_then(Value::as_array_mut)
        {
            Some(items) => items.iter_mut().for_each(|item| *item = self.number(item)),
            None => exchange.answer = self.number(&exchange.answer),
        }
        for event in &mut exchange.events {
            let object = self.number(&event["object"]);
            event["object"] = object;
        }
        self.line(&json!(exchange));
    }

    /// The object with everything long in it replaced by a number, itself included.
    fn number(&mut self, object: &Value) -> Value {
        let object = match object {
            Value::Object(map) => {
                let map = map
                    .iter()
                    .map(|(key, value)| (key.clone(), self.number(value)));
                Value::Object(map.collect())
            }
            Value::Array(items) => items.iter().map(|item| self.number(item)).collect(),
            other => return other.clone(),
        };
        let text = object.to_string();
        if text.len() < LONG {
            return object;
        }
        let next = self.known.len();
        let number = *self.known.entry(text).or_insert(next);
        if number == next {
            self.line(&json!({ "object": object }));
        }
        json!({ NUMBER: number })
    }

    fn line(&mut self, value: &Value) {
        self.lines.push_str(&value.to_string());
        self.lines.push('\n');
    }
}

/// A line with the objects that its numbers stand for.
fn whole(value: Value, objects: &[Value]) -> Value {
    match value {
        Value::Object(map) => {
            let number = map
                .get(NUMBER)
                .and_then(Value::as_u64)
                .filter(|_| map.len() == 1);
            let object = number.and_then(|number| objects.get(usize::try_from(number).ok()?));
            match object {
                Some(object) => object.clone(),
                None => map
                    .into_iter()
                    .map(|(key, value)| (key, whole(value, objects)))
                    .collect(),
            }
        }
        Value::Array(items) => items.into_iter().map(|item| whole(item, objects)).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_about_the_moment_are_left_out() {
        let answered = [200, 429, 403, 404, 409].map(|code| Exchange {
            method: "GET".to_owned(),
            uri: "/apis/covey.dev/v1alpha1/machines?watch=true".to_owned(),
            code,
            ..Exchange::default()
        });
        let kept = masked(answered.to_vec());
        let codes: Vec<u16> = kept.iter().map(|exchange| exchange.code).collect();
        assert_eq!(codes, [200, 404, 409]);
    }

    #[test]
    fn a_recording_is_read_as_it_was_written_and_not_when_it_was_changed() {
        let long = "a".repeat(LONG);
        let object = json!({ "metadata": { "name": long } });
        let one = Exchange {
            method: "PATCH".to_owned(),
            uri: "/api/v1/namespaces/a/secrets/b?fieldManager=c".to_owned(),
            content: "application/apply-patch+yaml".to_owned(),
            body: Some(object.clone()),
            code: 201,
            answer: object.clone(),
            ..Exchange::default()
        };
        let list = Exchange {
            method: "GET".to_owned(),
            uri: "/api/v1/secrets".to_owned(),
            code: 200,
            answer: json!({ "items": [object] }),
            ..Exchange::default()
        };
        let recording = Recording {
            kubernetes: "1.35.4".to_owned(),
            exchanges: vec![one, list],
        };
        let text = recording.render();
        assert_eq!(
            text.matches(&long).count(),
            1,
            "an object is written once: {text}"
        );
        assert_eq!(Recording::parse(&text).unwrap(), recording);
        assert_eq!(
            recording.kinds().into_iter().collect::<Vec<_>>(),
            ["list secrets", "patch secrets apply"]
        );
        let other = text.replace("201", "200");
        assert!(Recording::parse(&other).is_err());
    }
}
