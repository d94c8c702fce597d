//! The body of a watch.
//!
//! Invariant: what a watch tells begins right after the revision that its caller knows, in order and
//! without a gap; one that begins at a revision that is forgotten tells of that and ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::answer::{self, shown};
use super::query::Query;
use super::resources::Resource;
use super::store::{Event, Refusal};
use super::{Body, Shared};

/// What a watch is about.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) resource: &'static Resource,
    pub(super) namespace: String,
    pub(super) query: Query,
    pub(super) partial: bool,
}

impl Watch {
    /// How an event looks from here: what comes into the selection is new, what leaves it is gone.
    fn line(&self, event: &Event) -> Option<Value> {
        let (kind, namespace, _) = &event.key;
        let mine = *kind == self.resource.index()
            && (self.namespace.is_empty() || *namespace == self.namespace);
        if !mine {
            return None;
        }
        let was = event
            .before
            .as_ref()
            .is_some_and(|before| self.query.selects(before));
        let is = !event.gone && self.query.selects(&event.object);
        let type_ = match (was, is) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        let object = match (&event.before, event.gone || is) {
            // As it was when it was selected last, with the revision of now.
            (Some(before), false) => {
                let mut object = (**before).clone();
                object["metadata"]["resourceVersion"] = json!(event.revision.to_string());
                object
            }
            _ => (*event.object).clone(),
        };
        Some(json!({ "type": type_, "object": shown(&object, self.partial) }))
    }

    fn bookmark(&self, revision: u64) -> Option<Value> {
        let (kind, version) = match self.partial {
            true => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
            false => (self.resource.kind, self.resource.api_version()),
        };
        let metadata =
            json!({ "resourceVersion": revision.to_string(), "creationTimestamp": null });
        let object = json!({ "kind": kind, "apiVersion": version, "metadata": metadata });
        let asked = self.query.is("allowWatchBookmarks");
        asked.then(|| json!({ "type": "BOOKMARK", "object": object }))
    }
}

struct State {
    shared: Arc<Shared>,
    watch: Watch,
    known: u64,
    revisions: tokio::sync::watch::Receiver<u64>,
    first: String,
    ends: Option<Instant>,
    over: bool,
}

/// The events, until the caller goes or his time is over; then a bookmark, where he asked for such.
pub(super) fn events(shared: &Arc<Shared>, watch: Watch) -> Body {
    let from = watch
        .query
        .number("resourceVersion")
        .filter(|from| *from > 0);
    let revisions = shared.revisions.subscribe();
    let inner = shared.lock();
    let store = &inner.store;
    let (mut first, mut over) = (String::new(), false);
    match from {
        Some(from) if store.is_forgotten(from) => {
            let refusal = Refusal::new(410, "Expired", "too old resource version");
            let line = json!({ "type": "ERROR", "object": answer::status(&refusal) });
            (first, over) = (format!("{line}\n"), true);
        }
        Some(_) => {}
        None => {
            let found = store.list(watch.resource, &watch.namespace);
            for (_, object) in found.filter(|(_, object)| watch.query.selects(object)) {
                let line = json!({ "type": "ADDED", "object": shown(object, watch.partial) });
                first.push_str(&format!("{line}\n"));
            }
        }
    }
    let known = from.unwrap_or_else(|| store.revision());
    drop(inner);
    let seconds = watch
        .query
        .number("timeoutSeconds")
        .map(Duration::from_secs);
    let state = State {
        shared: Arc::clone(shared),
        watch,
        known,
        revisions,
        first,
        ends: seconds.map(|after| Instant::now() + after),
        over,
    };
    let lines =
        futures::stream::unfold(state, next).map(|lines| Ok(Frame::data(Bytes::from(lines))));
    StreamBody::new(lines).boxed_unsync()
}

async fn next(mut state: State) -> Option<(String, State)> {
    loop {
        if !state.first.is_empty() {
            return Some((std::mem::take(&mut state.first), state));
        }
        if state.over {
            return None;
        }
        state.revisions.borrow_and_update();
        let (lines, revision) = {
            let inner = state.shared.lock();
            let events = inner.store.since(state.known);
            let lines = events.filter_map(|event| state.watch.line(event));
            let lines: String = lines.map(|line| format!("{line}\n")).collect();
            (lines, inner.store.revision())
        };
        state.known = revision;
        if !lines.is_empty() {
            return Some((lines, state));
        }
        let changed = state.revisions.changed();
        let ended = match state.ends {
            Some(at) => match tokio::time::timeout_at(at, changed).await {
                Ok(changed) => changed.is_err(),
                Err(_) => true,
            },
            None => changed.await.is_err(),
        };
        if ended {
            state.over = true;
            if let Some(line) = state.watch.bookmark(state.known) {
                state.first = format!("{line}\n");
            }
        }
    }
}
