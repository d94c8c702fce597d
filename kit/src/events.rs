//! Publishes Events (events.k8s.io/v1), each at most once in ten minutes.
//!
//! Invariant: publishing never fails a reconcile and never holds it up for longer than
//! [`REQUEST_TIMEOUT`]; an Event that could not be written is logged and tried again next time.
//! Not kube's Recorder: that one writes a series update for every repetition, and a reconcile that
//! repeats an Event would write forever.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as Written;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::time::Instant;

use crate::errors;
use crate::rbac::Rule;

/// How long the same Event about the same object is not written again.
pub const QUIET: Duration = Duration::from_secs(600);
/// How long one write may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The API server refuses longer notes (core validation of events.k8s.io/v1).
const LONGEST_NOTE_BYTES: usize = 1024;

/// The right that publishing needs.
pub const RULES: [Rule; 1] = [Rule::new(&["events.k8s.io"], &["events"], &["create"])];

/// Whether something went as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Shown as Normal.
    Normal,
    /// Shown as Warning.
    Warning,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Event {
    /// Normal or Warning.
    pub severity: Severity,
    /// PascalCase, for machines: `CertificateRotated`.
    pub reason: String,
    /// A sentence for people. Cut at 1024 bytes.
    pub message: String,
    /// What was being done, PascalCase: `Rotate`.
    pub action: String,
}

/// Writes Events in the name of one controller. Clones share what was written.
#[derive(Clone)]
pub struct Publisher {
    client: Client,
    controller: String,
    instance: String,
    recent: Arc<Mutex<Recent>>,
}

impl Publisher {
    /// `controller` as `covey.dev/tenant-cluster`, `instance` is the pod's name.
    pub fn new(client: Client, controller: impl Into<String>, instance: impl Into<String>) -> Self {
        let (controller, instance) = (controller.into(), instance.into());
        Self {
            client,
            controller,
            instance,
            recent: Arc::default(),
        }
    }

    /// Writes `event` about `regarding` (with uid), unless it was written within [`QUIET`]. Gives
    /// whether it was written.
    pub async fn publish(&self, regarding: &ObjectReference, event: &Event) -> bool {
        let key = Key {
            uid: regarding.uid.clone().unwrap_or_default(),
            reason: event.reason.clone(),
            message: event.message.clone(),
        };
        if !self.recent(|recent| recent.claim(&key, Instant::now())) {
            return false;
        }
        let written = self.written(regarding, event);
        // Events about objects without a namespace live in "default", as upstream's do.
        let namespace = written.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Written> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams::default();
        let failure =
            match tokio::time::timeout(REQUEST_TIMEOUT, api.create(&params, &written)).await {
                Ok(Ok(_)) => return true,
                Ok(Err(error)) => errors::chain(&error),
                Err(_) => format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()),
            };
        self.recent(|recent| recent.forget(&key));
        let name = regarding.name.as_deref().unwrap_or_default();
        tracing::warn!(object.name = name, event.reason = %event.reason, error = %failure,
            "could not publish Event {} about {name}", event.reason);
        false
    }

    fn recent<T>(&self, with: impl FnOnce(&mut Recent) -> T) -> T {
        with(&mut self.recent.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn written(&self, regarding: &ObjectReference, event: &Event) -> Written {
        let now = jiff::Timestamp::now();
        let about = regarding.name.as_deref().unwrap_or("unknown");
        // 253 bytes is the longest name; the suffix has at most 1 + 16.
        let about = cut(about, 236);
        let namespace = regarding
            .namespace
            .clone()
            .unwrap_or_else(|| "default".to_owned());
        Written {
            metadata: ObjectMeta {
                name: Some(format!("{about}.{:016x}", rand::random::<u64>())),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            regarding: Some(regarding.clone()),
            type_: Some(match event.severity {
                Severity::Normal => "Normal".to_owned(),
                Severity::Warning => "Warning".to_owned(),
            }),
            reason: Some(cut(&event.reason, 128).to_owned()),
            action: Some(cut(&event.action, 128).to_owned()),
            note: Some(cut(&event.message, LONGEST_NOTE_BYTES).to_owned()),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(cut(&self.instance, 128).to_owned()),
            ..Written::default()
        }
    }
}

/// The longest beginning of at most `bytes` bytes that ends between two characters.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    uid: String,
    reason: String,
    message: String,
}

/// What was written within [`QUIET`].
#[derive(Debug, Default)]
struct Recent {
    written: HashMap<Key, Instant>,
    swept: Option<Instant>,
}

impl Recent {
    /// True when this may be written now; then it counts as written.
    fn claim(&mut self, key: &Key, now: Instant) -> bool {
        // Once per span is often enough to keep only what can still matter.
        if self
            .swept
            .is_none_or(|swept| now.duration_since(swept) >= QUIET)
        {
            self.written.retain(|_, at| now.duration_since(*at) < QUIET);
            self.swept = Some(now);
        }
        match self.written.get(key) {
            Some(at) if now.duration_since(*at) < QUIET => false,
            _ => {
                self.written.insert(key.clone(), now);
                true
            }
        }
    }

    fn forget(&mut self, key: &Key) {
        self.written.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use http_body_util::{BodyExt, Full};
    use hyper::body::Bytes;
    use kube::client::Body;
    use serde_json::Value;
    use tower::BoxError;

    type Sent = Arc<Mutex<Vec<Value>>>;

    /// A publisher whose server answers with the codes in turn, then with 201.
    fn publisher(codes: &'static [u16]) -> (Publisher, Sent) {
        let sent = Sent::default();
        let log = Arc::clone(&sent);
        let service = tower::service_fn(move |request: Request<Body>| {
            let log = Arc::clone(&log);
            async move {
                let bytes = request.into_body().collect().await?.to_bytes();
                let mut log = log.lock().unwrap();
                let code = codes.get(log.len()).copied().unwrap_or(201);
                log.push(serde_json::from_slice(&bytes)?);
                let body = if code == 201 {
                    bytes
                } else {
                    Bytes::from_static(b"refused")
                };
                let response = Response::builder().status(code).body(Full::new(body));
                response.map_err(BoxError::from)
            }
        });
        let client = Client::new(service, "default");
        (Publisher::new(client, "covey.dev/test", "operator-0"), sent)
    }

    fn regarding(uid: &str) -> ObjectReference {
        ObjectReference {
            name: Some("demo".to_owned()),
            namespace: Some("team".to_owned()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        }
    }

    fn event(message: &str) -> Event {
        Event {
            severity: Severity::Warning,
            reason: "Waiting".to_owned(),
            message: message.to_owned(),
            action: "Reconcile".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_event_is_written_once_in_ten_minutes() {
        let (publisher, sent) = publisher(&[]);
        assert!(publisher.publish(&regarding("1"), &event("a")).await);
        for _ in 0..9 {
            tokio::time::advance(Duration::from_secs(60)).await;
            assert!(!publisher.publish(&regarding("1"), &event("a")).await);
        }
        assert!(
            publisher.publish(&regarding("1"), &event("b")).await,
            "another message"
        );
        assert!(
            publisher.publish(&regarding("2"), &event("a")).await,
            "another object"
        );
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(
            publisher.publish(&regarding("1"), &event("a")).await,
            "ten minutes later"
        );
        assert_eq!(sent.lock().unwrap().len(), 4);
    }

    #[tokio::test]
    async fn an_event_that_was_refused_is_tried_again_next_time() {
        let (publisher, sent) = publisher(&[403]);
        assert!(!publisher.publish(&regarding("1"), &event("a")).await);
        assert!(publisher.publish(&regarding("1"), &event("a")).await);
        assert_eq!(sent.lock().unwrap().len(), 2);
    }

    #[tokio::test]
    async fn an_event_has_all_that_the_api_server_asks_for() {
        let (publisher, sent) = publisher(&[]);
        let long = "ü".repeat(600);
        publisher.publish(&regarding("1"), &event(&long)).await;
        let sent = sent.lock().unwrap();
        let [event] = sent.as_slice() else {
            panic!("one event")
        };
        assert_eq!(event["metadata"]["namespace"], "team");
        assert!(
            event["metadata"]["name"]
                .as_str()
                .unwrap()
                .starts_with("demo.")
        );
        assert_eq!(
            (&event["type"], &event["reason"]),
            (&"Warning".into(), &"Waiting".into())
        );
        assert_eq!(event["action"], "Reconcile");
        assert_eq!(event["reportingController"], "covey.dev/test");
        assert_eq!(event["reportingInstance"], "operator-0");
        assert_eq!(event["note"].as_str().unwrap().len(), 1024);
        assert!(event["eventTime"].is_string());
    }

    #[test]
    fn what_is_long_past_is_forgotten() {
        let start = Instant::now();
        let mut recent = Recent::default();
        let key = |uid: u32| Key {
            uid: uid.to_string(),
            reason: "r".into(),
            message: "m".into(),
        };
        for uid in 0..100 {
            assert!(recent.claim(&key(uid), start));
        }
        assert!(recent.claim(&key(7), start + QUIET));
        assert_eq!(recent.written.len(), 1);
    }
}
