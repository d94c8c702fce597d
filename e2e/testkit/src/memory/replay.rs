//! Asks the API in memory what a real server was asked, and compares the answers.
//!
//! Invariant: nothing that was recorded is left out. Status codes and masked answers are equal; what a
//! watch told is how the model's watch begins, for a recording may end before the last event arrives.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::FutureExt as _;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower::ServiceExt as _;

use super::exchange::Exchange;
use super::masks::Masks;
use super::recording::Recording;
use super::{Body, Memory};
use crate::difference;

/// What is different, a line each; empty where nothing is.
///
/// # Errors
/// When a recorded request cannot be sent at all.
pub async fn differences(recording: &Recording, model: &Memory) -> Result<Vec<String>> {
    let mut masks = Masks::default();
    let (mut lines, mut watches) = (Vec::new(), Vec::new());
    for (number, recorded) in recording.exchanges.iter().enumerate() {
        let mut asked = masks.translate(recorded);
        let uri = asked.uri.clone();
        let what = || format!("{number}: {} {}", recorded.method, recorded.uri);
        let (code, body) = send(model, &asked).await.with_context(what)?;
        masks.request(&mut asked);
        if code != recorded.code {
            lines.push(format!("{}: {code}, recorded is {}", what(), recorded.code));
        }
        if recorded.info().verb == "watch" {
            watches.push((recorded, uri, body));
            continue;
        }
        let bytes = body.collect().await.map(|body| body.to_bytes());
        let answer: Value = bytes
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let answer = masks.answer(number, &uri, &answer);
        compare(&what(), &recorded.answer, &answer, &mut lines);
    }
    for (recorded, uri, body) in watches {
        let told = drain(body);
        let mut told = told.iter().filter_map(|event| masks.event(&uri, event));
        for (index, event) in recorded.events.iter().enumerate() {
            let what = format!("{} {}, event {index}", recorded.method, recorded.uri);
            match told.next() {
                Some(other) => compare(&what, event, &other, &mut lines),
                None => lines.push(format!("{what} is missing: {}", short(event))),
            }
        }
        // So that the masks of both count on alike.
        told.for_each(drop);
    }
    Ok(lines)
}

async fn send(model: &Memory, asked: &Exchange) -> Result<(u16, Body)> {
    let method = Method::from_bytes(asked.method.as_bytes())?;
    let mut request = Request::builder().method(method).uri(&asked.uri);
    if !asked.content.is_empty() {
        request = request.header(header::CONTENT_TYPE, &asked.content);
    }
    if asked.partial {
        let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        request = request.header(header::ACCEPT, accept);
    }
    let body = asked
        .body
        .as_ref()
        .map(Value::to_string)
        .unwrap_or_default();
    let request = request.body(Full::new(Bytes::from(body)))?;
    let response = model
        .service(false)
        .oneshot(request)
        .await
        .map_err(|error| anyhow::anyhow!(error))?;
    Ok((response.status().as_u16(), response.into_body()))
}

/// What a watch has told so far.
fn drain(mut body: Body) -> Vec<Value> {
    let mut text = Vec::new();
    while let Some(Some(Ok(frame))) = body.frame().now_or_never() {
        text.extend(frame.into_data().unwrap_or_default());
    }
    let lines = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    lines
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

fn compare(path: &str, recorded: &Value, model: &Value, lines: &mut Vec<String>) {
    difference::each(path, recorded, model, &mut |path, recorded, model| {
        let (recorded, model) = (short(recorded), short(model));
        lines.push(format!(
            "{path}: the model has {model}, recorded is {recorded}"
        ));
    });
}

fn short(value: &Value) -> String {
    const LONGEST: usize = 300;
    let text = value.to_string();
    match text.len() > LONGEST {
        true => format!("{}…", &text[..text.floor_char_boundary(LONGEST)]),
        false => text,
    }
}
