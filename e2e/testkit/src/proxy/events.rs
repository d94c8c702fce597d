//! The body of a watch: one JSON object a line, each of which the rules may change.
//!
//! Invariant: events keep their order, and none is delivered while the watch is stalled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body::Frame;
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::sync::watch;
use tower::BoxError;

use super::rules::{Action, Asked};
use super::shared::{Body, Shared};
use crate::faults::status_body;

/// The part of an event that says what it is.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: String,
}

struct Events {
    frames: BodyStream<Incoming>,
    /// The beginning of a line that is not complete.
    rest: Vec<u8>,
    ready: VecDeque<Bytes>,
    asked: Asked,
    shared: Arc<Shared>,
    closed: watch::Receiver<u64>,
    /// What comes after `ready`.
    end: Option<End>,
}

#[derive(Clone, Copy)]
enum End {
    Clean,
    Broken,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.shared.streams.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Passes a watch on, as the rules have it.
pub(super) fn body(body: Incoming, asked: Asked, shared: Arc<Shared>) -> Body {
    shared.streams.fetch_add(1, Ordering::SeqCst);
    let events = Events {
        frames: BodyStream::new(body),
        rest: Vec::new(),
        ready: VecDeque::new(),
        asked,
        closed: shared.closed.subscribe(),
        shared,
        end: None,
    };
    let lines = stream::unfold(Some(events), async |events| {
        let mut events = events?;
        match events.next().await {
            Ok(Some(line)) => Some((Ok(Frame::data(line)), Some(events))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    });
    StreamBody::new(lines).boxed_unsync()
}

impl Events {
    /// The next line for the client.
    async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        loop {
            self.wait_while_stalled().await?;
            if let Some(line) = self.ready.pop_front() {
                return Ok(Some(line));
            }
            match self.end {
                Some(End::Clean) => return Ok(None),
                Some(End::Broken) => return Err("the watch broke off".into()),
                None => {}
            }
            let frame = tokio::select! {
                _ = self.closed.changed() => return Err("the watch broke off".into()),
                frame = self.frames.next() => frame,
            };
            match frame {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.rest.extend_from_slice(&data);
                        self.take_lines();
                    }
                }
                None => self.end = Some(End::Clean),
            }
        }
    }

    async fn wait_while_stalled(&mut self) -> Result<(), BoxError> {
        let mut changed = self.shared.changed.subscribe();
        while self.shared.rules().stalls(&self.asked) {
            tokio::select! {
                _ = self.closed.changed() => return Err("the watch broke off".into()),
                _ = changed.changed() => {}
            }
        }
        Ok(())
    }

    fn take_lines(&mut self) {
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if self.end.is_some() {
                return;
            }
            self.judge(Bytes::from(line));
        }
    }

    fn judge(&mut self, line: Bytes) {
        self.shared.events.fetch_add(1, Ordering::SeqCst);
        let head: Result<Head, _> = serde_json::from_slice(&line);
        let kind = head.map(|head| head.kind).unwrap_or_default();
        let action = self.shared.rules().for_event(&self.asked, &kind);
        match action {
            Some(Action::DropEvent) => {}
            Some(Action::RepeatEvent) => {
                self.ready.push_back(line.clone());
                self.ready.push_back(line);
            }
            Some(Action::CloseWatch) => self.end = Some(End::Broken),
            Some(Action::ExpireWatch) => {
                let status = status_body(410, None);
                let error = format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n");
                self.ready.push_back(Bytes::from(error));
                self.end = Some(End::Clean);
            }
            _ => self.ready.push_back(line),
        }
    }
}
