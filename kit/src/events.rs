//! Publishes Events (events.k8s.io/v1), each at most once in ten minutes.
//!
//! Invariant: an Event never fails a reconcile and is never waited for long; what cannot be
//! written is logged.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client, Resource, ResourceExt};

use crate::rbac::Rule;

/// The same Event is not written again for so long.
const QUIET: Duration = Duration::from_secs(600);
/// Longest message that the API accepts (events.k8s.io/v1 `note`), in bytes.
const MAX_NOTE: usize = 1024;

/// The right that publishing needs, in the namespaces of the objects concerned.
pub const RULES: [Rule; 1] = [Rule::new(&["events.k8s.io"], &["events"], &["create"])];

/// Object UID, reason and message.
type Said = (String, &'static str, String);

/// Publishes Events in the name of one controller.
pub struct Publisher {
    client: Client,
    controller: &'static str,
    instance: String,
    said: Mutex<HashMap<Said, Instant>>,
}

impl Publisher {
    /// `controller` is the reporting controller; the instance is the pod's name (`POD_NAME`).
    pub fn new(client: Client, controller: &'static str) -> Self {
        let instance = std::env::var("POD_NAME").unwrap_or_else(|_| controller.to_owned());
        Self { client, controller, instance, said: Mutex::default() }
    }

    /// Publishes one Event about `object`, unless the same was published lately.
    pub async fn publish<K>(&self, object: &K, warning: bool, reason: &'static str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let uid = object.uid().unwrap_or_default();
        if !self.is_news((uid, reason, message.to_owned()), Instant::now()) {
            return;
        }
        let event = self.event(object, warning, reason, message);
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let events = Api::<Event>::namespaced(self.client.clone(), &namespace);
        if let Err(error) = events.create(&PostParams::default(), &event).await {
            let error = crate::errors::chain(&error);
            tracing::warn!(error, reason, "could not publish an Event: {message}");
        }
    }

    fn is_news(&self, said: Said, now: Instant) -> bool {
        let mut all = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, at| now.duration_since(*at) < QUIET);
        match all.contains_key(&said) {
            true => false,
            false => all.insert(said, now).is_none(),
        }
    }

    fn event<K>(&self, object: &K, warning: bool, reason: &str, message: &str) -> Event
    where
        K: Resource<DynamicType = ()>,
    {
        let reference: ObjectReference = object.object_ref(&());
        // Events about objects without a namespace stand in "default", as kubectl expects.
        let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
        Event {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-", object.name_any())),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            action: Some("Reconcile".to_owned()),
            event_time: Some(MicroTime(Timestamp::now())),
            note: Some(shorten(message)),
            reason: Some(reason.to_owned()),
            regarding: Some(reference),
            reporting_controller: Some(format!("covey.dev/{}", self.controller)),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        }
    }
}

fn shorten(message: &str) -> String {
    if message.len() <= MAX_NOTE {
        return message.to_owned();
    }
    let mut end = MAX_NOTE - '…'.len_utf8();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_message_is_cut_at_a_character() {
        let cut = shorten(&"ä".repeat(2000));
        assert!(cut.len() <= MAX_NOTE && cut.ends_with("ä…"));
        assert_eq!(shorten("short"), "short");
    }

    #[tokio::test]
    async fn same_event_is_news_again_after_ten_minutes() {
        crate::client::install_crypto();
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let publisher = Publisher::new(Client::try_from(config).unwrap(), "test");
        let said = || ("uid".to_owned(), "Reason", "message".to_owned());
        let start = Instant::now();
        assert!(publisher.is_news(said(), start));
        assert!(!publisher.is_news(said(), start + Duration::from_secs(599)));
        assert!(publisher.is_news(said(), start + Duration::from_secs(600)));
    }
}
