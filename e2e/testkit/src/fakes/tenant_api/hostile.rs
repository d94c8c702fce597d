//! What the server of a tenant that means harm answers: bodies and lines without end, floods of objects,
//! bytes one by one, pages for people.
//!
//! Invariant: what is sent is made up while it is sent, so that a test holds none of it; each answer ends at
//! [`MOST`], so that a reader that takes everything fails its test and not the machine.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use http::request::Parts;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};

use super::call::Mode;
use super::page::Page;
use super::select::Selection;
use super::sent::Body;
use super::state::State;
use crate::request::RequestInfo;

/// Most bytes of one answer.
pub(super) const MOST: u64 = 64 << 20;
/// A part of what has no end.
const PART: Bytes = Bytes::from_static(&[b'x'; 64 * 1024]);
/// What somebody sees in a browser who has no session yet.
const PAGE: Bytes = Bytes::from_static(b"<!doctype html><title>Sign in</title><p>Please sign in.");

/// The answer, where this mode has one of its own.
pub(super) fn body(mode: Mode, head: &Parts, info: &RequestInfo, state: &State) -> Option<Body> {
    let watches = info.verb == "watch";
    let parts = match mode {
        Mode::EndlessBody if !watches => stream::repeat_with(|| PART).boxed(),
        Mode::EndlessLine if watches => stream::repeat_with(|| PART).boxed(),
        Mode::Flood { objects, bytes } if info.verb == "list" && info.resource == "configmaps" => {
            flood(head, state, objects, bytes)
        }
        // Blanks before a text in JSON are none of it, so nothing is wrong with what is there so far.
        Mode::Drip(pause) => stream::repeat_with(|| Bytes::from_static(b" "))
            .then(move |byte| async move {
                tokio::time::sleep(pause).await;
                byte
            })
            .boxed(),
        Mode::Page => stream::iter([PAGE]).boxed(),
        _ => return None,
    };
    let sent = state.play();
    let frames = parts
        .take_while(move |part| {
            let part = u64::try_from(part.len()).unwrap_or(u64::MAX);
            let before = sent.fetch_add(part, Ordering::Relaxed);
            std::future::ready(before + part <= MOST)
        })
        .map(|part| Ok(Frame::data(part)));
    Some(StreamBody::new(frames).boxed_unsync())
}

/// What is stored, and so many ConfigMaps besides.
fn flood(head: &Parts, state: &State, objects: usize, bytes: usize) -> BoxStream<'static, Bytes> {
    let page = Page::of(head);
    let mut list = state.store().list(&Selection::new(&head.uri));
    let stored: Vec<Value> = match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    let all = stored.len() + objects;
    let header = page.header(&list["metadata"]["resourceVersion"], all);
    let begin = format!(r#"{{"apiVersion":"v1","kind":"List","metadata":{header},"items":["#);
    let range = page.range(all);
    let first = range.start;
    let items = range.map(move |number| {
        let object = match stored.get(number) {
            Some(object) => page.shown(object),
            None => page.shown(&flooding(number, if page.metadata { 0 } else { bytes })),
        };
        let comma = if number > first { "," } else { "" };
        Bytes::from(format!("{comma}{object}"))
    });
    let parts = std::iter::once(Bytes::from(begin));
    let parts = parts.chain(items).chain([Bytes::from_static(b"]}")]);
    stream::iter(parts).boxed()
}

/// One that bears our label.
fn flooding(number: usize, bytes: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("flood-{number}"), "namespace": "default",
            "uid": format!("flood-{number}"), "resourceVersion": "1",
            "labels": { api::names::LABEL_MANAGED_BY: api::names::MANAGED_BY },
        },
        "data": { "flood": "x".repeat(bytes) },
    })
}
