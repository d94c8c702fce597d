//! Publishes Events (events.k8s.io/v1), each at most once in ten minutes.
//!
//! Invariant: publishing never fails a reconcile and never holds it up for longer than
//! [`REQUEST_TIMEOUT`]; an Event that could not be written is logged and tried again next time.
//! Not kube's Recorder: that one writes a series update for every repetition, and a reconcile that
//! repeats an Event would write forever.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as Written;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kit_client::errors;
use kit_objects::rbac::Rule;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::time::Instant;

/// How long the same Event about the same object is not written again.
pub const QUIET: Duration = Duration::from_secs(600);
/// How long one write may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The API server refuses longer notes (core validation of events.k8s.io/v1).
const LONGEST_NOTE_BYTES: usize = 1024;

/// The right that publishing needs.
pub const RULES: [Rule; 1] = [Rule::new(&["events.k8s.io"], &["events"], &["create"])];

/// A reason of a catalogue: it has a name, and a name leads to it. A plain text is not, so that no Event has
/// a reason that nobody can look up.
pub trait Reason: Into<&'static str> + FromStr {}

impl<R: Into<&'static str> + FromStr> Reason for R {}

/// What people are told: an Event to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive] // made with a reason of a catalogue alone
pub struct Notice {
    /// Shown as Warning, else as Normal.
    pub warning: bool,
    /// PascalCase, for machines: `CertificateRotated`.
    pub reason: &'static str,
    /// A sentence for people. Cut at 1024 bytes.
    pub message: String,
}

impl Notice {
    /// Something that somebody has to mend, or that went as it should.
    #[must_use]
    pub fn new(warning: bool, reason: impl Reason, message: impl Into<String>) -> Self {
        Self {
            warning,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// Something that went as it should.
    #[must_use]
    pub fn normal(reason: impl Reason, message: impl Into<String>) -> Self {
        Self::new(false, reason, message)
    }

    /// Something that somebody has to mend.
    #[must_use]
    pub fn warning(reason: impl Reason, message: impl Into<String>) -> Self {
        Self::new(true, reason, message)
    }
}

/// What became of an Event that was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// It is there.
    Written,
    /// It was written within [`QUIET`], and is not written again.
    Before,
    /// The API did not take it. Nobody was told.
    Failed,
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

    /// Writes `notice` about `regarding` (with uid), unless it was written within [`QUIET`].
    pub async fn publish(&self, regarding: &ObjectReference, notice: &Notice) -> Published {
        self.publish_once(regarding, notice, notice.message.clone())
            .await
    }

    /// The same, unless one with its reason was written within [`QUIET`], whatever its words: for what
    /// others can bring about with ever new words.
    pub async fn publish_by_reason(
        &self,
        regarding: &ObjectReference,
        notice: &Notice,
    ) -> Published {
        self.publish_once(regarding, notice, String::new()).await
    }

    async fn publish_once(
        &self,
        regarding: &ObjectReference,
        notice: &Notice,
        message: String,
    ) -> Published {
        let key = Key {
            uid: regarding.uid.clone().unwrap_or_default(),
            reason: notice.reason,
            message,
        };
        if !self.recent(|recent| recent.claim(&key, Instant::now())) {
            return Published::Before;
        }
        let written = self.written(regarding, notice);
        // Events about objects without a namespace live in "default", as upstream's do.
        let namespace = written.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Written> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams::default();
        let failure =
            match tokio::time::timeout(REQUEST_TIMEOUT, api.create(&params, &written)).await {
                Ok(Ok(_)) => return Published::Written,
                Ok(Err(error)) => errors::chain(&error),
                Err(_) => format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()),
            };
        self.recent(|recent| recent.forget(&key));
        let name = regarding.name.as_deref().unwrap_or_default();
        tracing::warn!(object.name = name, event.reason = notice.reason, error = %failure,
            "could not publish Event {} about {name}", notice.reason);
        Published::Failed
    }

    fn recent<T>(&self, with: impl FnOnce(&mut Recent) -> T) -> T {
        with(&mut self.recent.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn written(&self, regarding: &ObjectReference, notice: &Notice) -> Written {
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
            type_: Some(match notice.warning {
                true => "Warning".to_owned(),
                false => "Normal".to_owned(),
            }),
            reason: Some(notice.reason.to_owned()),
            // The API asks for one; nothing is known about it that the reason does not say.
            action: Some(notice.reason.to_owned()),
            note: Some(cut(&notice.message, LONGEST_NOTE_BYTES).to_owned()),
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
    reason: &'static str,
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
mod tests;
